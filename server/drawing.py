"""One chunk, from a state to the frames and the next state: what sessions, planners and re-execution have in common.

Nothing here knows seats, tiers or branches. Engine thread: it runs the model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.base import DrawnFrame, ModelState, Recall, RecalledBlock, Step, WorldModel
from server.catalog import GrowingCatalog
from server.compress import digest
from server.head import Head
from server.moments import Moment
from server.pager.lease import Lease
from server.pager.recall_buffer import RecallBuffer
from shared.controls import Controls
from shared.pose import Pose

OnFrame = Callable[[DrawnFrame, int, bytes], None]  # frame, its index in the chunk, hash of its pixels


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chunk that was drawn, and the last frame of it."""

    step: Step
    hashes: tuple[bytes, ...]
    last: DrawnFrame


def _nobody(_frame: DrawnFrame, _index: int, _hash: bytes) -> None:
    """Nobody looks."""


def draw(
    model: WorldModel,
    state: ModelState,
    controls: Sequence[Controls],
    recall: Recall,
    on_frame: OnFrame = _nobody,
) -> Drawn:
    """Step one state under these controls and with this recall; each frame is told as soon as it is decoded."""
    drawing = model.step(state, controls, recall)
    hashes: list[bytes] = []
    last: DrawnFrame | None = None
    while True:
        try:
            last = next(drawing)
        except StopIteration as end:
            assert last is not None, "a chunk has at least one frame"
            return Drawn(end.value, tuple(hashes), last)
        hashes.append(digest(last.pixels))
        on_frame(last, len(hashes) - 1, hashes[-1])


def decoded(lease: Lease, buffer: RecallBuffer, catalog: GrowingCatalog) -> list[RecalledBlock]:
    """The lease's blocks as the model takes them: views of the buffer, valid until it is filled anew."""
    recall: list[RecalledBlock] = []
    for block in buffer.fill(lease):
        chunk_index, poses, footprint = catalog.place(block.key.block)
        recall.append(RecalledBlock(block.key.block, chunk_index, block.kv, block.side, footprint, poses))
    return recall


@dataclass(frozen=True, slots=True)
class Place:
    """Where a new moment goes in the timeline."""

    id: int
    parent: Head
    seed: int
    branch: str


def moment_of(
    drawn: Drawn, place: Place, controls: tuple[Controls, ...], poses: tuple[Pose, ...], lease: Lease
) -> Moment:
    """The chunk as a node of the timeline: enough to draw it again."""
    block = drawn.step.block
    return Moment(
        id=place.id,
        parent=place.parent.moment,
        chunk_index=place.parent.chunk_index,
        seed=place.seed,
        controls=controls,
        poses=poses,
        recalled=tuple(key.block for key in lease.keys),
        stale=lease.stale,
        seeded=False,
        frame_hashes=drawn.hashes,
        has_block=block is not None,
        block_poses=block.poses if block else (),
        footprint=block.footprint if block else None,
        branch=place.branch,
    )
