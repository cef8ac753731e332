"""The welcome: which session a client means, and what it is told when it sits down there. Pure; engine thread."""

from collections.abc import Sequence

from models.base import WorldModel, has_random_weights
from server.resident import Resident
from shared.protocol import FRAME_CREDIT, PROTOCOL_VERSION, RANDOM_WEIGHTS, Hello, Welcome


def welcome_to(
    model: WorldModel, resident: Resident, hello: Hello, resume: str, *, is_resumed: bool, notes: list[str]
) -> Welcome:
    """The welcome of one connection."""
    session = resident.session
    width, height = model.frame_size
    world, slash, number = session.head_id.partition("/")
    return Welcome(
        version=PROTOCOL_VERSION,
        session=f"{world[:8]}{slash}{number}",
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


def choose(living: Sequence[Resident], hello: Hello) -> Resident | None:
    """The session of this world in which the hello wants a seat; None: it wants one of its own."""
    if hello.at:
        return next((resident for resident in living if resident.session.branch.name == hello.at), None)
    if hello.role == "viewer":
        return next(iter(living), None)
    if any(resident.session.timeline.left_by(hello.resume) for resident in living):
        return None  # he goes on where he left, beside those who walk there
    free = (resident for resident in living if resident.session.show.driver is None)
    return next(free, next(iter(living), None))
