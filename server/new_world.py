"""A new world: the chunks that its model gives become its first moments and blocks."""

from models.base import Beginning, DrawnFrame
from server.compress import digest
from server.head import Head
from server.moments import NO_MOMENT, Moment
from server.pager.blocks import BlockKey
from server.pager.pager import Pager
from server.rows import Line, empty_line
from server.timeline import Timeline
from shared.pose import distance_m, wrap_rad


def first_head(beginning: Beginning, timeline: Timeline, pager: Pager) -> Head:
    """Enter the seeded chunks into a timeline that nobody else uses yet; returns the head after them."""
    line: Line | None = None
    parent = NO_MOMENT
    for index, chunk in enumerate(beginning.chunks):
        moment = _seeded_moment(beginning, index, timeline.take_id(), parent, timeline.seed)
        timeline.commit(moment)
        parent = moment.id
        if (block := chunk.block) is not None:
            footprint = block.footprint
            line = line or empty_line(len(block.poses), footprint.shape, footprint.dtype.name)
            line = line.append(moment.id, index, block.poses, footprint)
            pager.commit(BlockKey(timeline.world, moment.id), block)
    assert line is not None, "a world begins with at least one block"
    timeline.seeded = frozenset(range(parent - len(beginning.chunks) + 1, parent + 1))
    return Head(parent, beginning.state, line, view_from(beginning))


def view_from(beginning: Beginning) -> DrawnFrame:
    """The seeded frame that was seen from where the player stands."""
    start = beginning.state.pose
    frames = [frame for chunk in beginning.chunks for frame in chunk.frames]
    return min(
        frames, key=lambda frame: distance_m(frame.pose, start) + abs(wrap_rad(frame.pose.yaw_rad - start.yaw_rad))
    )


def _seeded_moment(beginning: Beginning, index: int, moment_id: int, parent: int, seed: int) -> Moment:
    chunk = beginning.chunks[index]
    return Moment(
        id=moment_id,
        parent=parent,
        chunk_index=index,
        seed=seed,
        controls=(),
        poses=tuple(frame.pose for frame in chunk.frames),
        recalled=(),
        stale=False,
        seeded=True,
        frame_hashes=tuple(digest(frame.pixels) for frame in chunk.frames),
        has_block=chunk.block is not None,
        block_poses=chunk.block.poses if chunk.block else (),
        footprint=chunk.block.footprint if chunk.block else None,
    )
