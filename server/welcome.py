"""The welcome: what a client is told when it sits down in a session. Pure; engine thread."""

from models.base import WorldModel, has_random_weights
from server.resident import Resident
from shared.protocol import FRAME_CREDIT, PROTOCOL_VERSION, RANDOM_WEIGHTS, Hello, Welcome


def welcome_to(
    model: WorldModel, resident: Resident, hello: Hello, resume: str, *, is_resumed: bool, notes: list[str]
) -> Welcome:
    """The welcome of one connection."""
    session = resident.session
    width, height = model.frame_size
    return Welcome(
        version=PROTOCOL_VERSION,
        session=session.world[:8],
        world=resident.name,
        seed=session.seed,
        model=model.name,
        mode=session.mode,
        role=hello.role,
        codec="png" if session.mode == "exact" else hello.codec,
        fps=model.fps,
        width=width,
        height=height,
        frames_per_chunk=model.frames_per_chunk,
        max_recall=model.max_recall,
        walk_m_s=model.motion.walk_m_s,
        turn_rad_s=model.motion.turn_rad_s,
        max_pitch_rad=model.motion.max_pitch_rad,
        credit=FRAME_CREDIT,
        resume=resume,
        resumed=is_resumed,
        chunk=session.head.state.chunk_index,
        capabilities=[RANDOM_WEIGHTS] if has_random_weights(model) else [],
        notes=notes,
    )
