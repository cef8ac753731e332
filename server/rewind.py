"""The way back along a head's own ancestors: to which kept head to go, and which chunks to draw again from there.

The session stays where it stands until all of that is done. Engine thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from server.catalog import GrowingCatalog
from server.drawing import decoded, draw
from server.faults import SnapshotFault
from server.head import Head, KeptHead
from server.moments import Moment
from server.pager.blocks import BlockKey
from server.ring import Ring
from server.rows import Line
from server.setting import Setting
from server.timeline import Timeline

REDRAW_WAIT_S = 2.0  # for the blocks of a chunk that is drawn again
MAX_REDRAWN = 64  # chunks: at a fifth of a second each, the others wait for no longer than a loading screen


@dataclass(frozen=True, slots=True)
class Way:
    """Stand at `start`, then draw the chunks `again`, oldest first."""

    start: Head
    again: tuple[Moment, ...] = ()


def way_back(timeline: Timeline, ring: Ring, head: Head, chunks: int) -> Way:
    """The way to the head's ancestor of so many chunks ago, or to the world's beginning when that comes first.

    From the nearest kept head at or before it. When none is near enough, the way leads to the oldest kept head after
    it. Raises SnapshotFault when there is neither.
    """
    line = _ancestors(timeline, head.moment, chunks + MAX_REDRAWN)
    goal = min(chunks, len(line) - 1)
    if goal == 0:
        raise SnapshotFault("this is the beginning of the world: nothing earlier was drawn")
    again: list[Moment] = []
    kept = timeline.kept_heads()
    for at in range(goal, min(len(line), goal + MAX_REDRAWN + 1)):
        if (start := _head_of(timeline, ring.get(line[at]) or kept.get(line[at]))) is not None:
            return Way(start, tuple(reversed(again)))
        moment = timeline.tree.moment(line[at])
        if moment is None or moment.seeded:
            break
        again.append(moment)
    for at in range(goal - 1, 0, -1):
        if (start := _head_of(timeline, ring.get(line[at]) or kept.get(line[at]))) is not None:
            return Way(start)
    raise SnapshotFault(
        "nothing earlier on this walk is kept to go back to: the memory for it is full, or the world was only just "
        "opened. Snapshots can be gone back to at any time."
    )


def _ancestors(timeline: Timeline, moment: int, num: int) -> list[int]:
    """The moment and at most so many of its ancestors, newest first; of those that were given, only the last."""
    line = [moment]
    while len(line) <= num and line[-1] not in timeline.seeded and (parent := timeline.tree.parent(line[-1])) >= 0:
        line.append(parent)
    return line


def _head_of(timeline: Timeline, kept: Head | KeptHead | None) -> Head | None:
    """A head that is kept, when its state is whole."""
    try:
        return timeline.head_of(kept) if isinstance(kept, KeptHead) else kept
    except SnapshotFault:
        return None  # damaged: whoever asks for it by name is told so


def drawn_again(setting: Setting, timeline: Timeline, head_id: str, way: Way, line: Line) -> Iterator[Head]:
    """The heads of the way, byte for byte as they were. `line` is that of the head from which it goes back.

    Raises SnapshotFault when a block is gone that a chunk was drawn with, or a chunk does not come out as it was.
    """
    again = f"{head_id}/again"  # a head of its own: what it waits for is no stall of the walk
    catalog, ids, head = GrowingCatalog(way.start.line, timeline.gone), line.ids(), way.start
    try:
        for moment in way.again:
            keys = tuple(BlockKey(timeline.world, block) for block in moment.recalled)
            with setting.pager.recall_exact(again, keys, REDRAW_WAIT_S) as lease:
                if lease.missing:
                    raise SnapshotFault(_cannot_redraw(moment, f"with block {lease.missing[0].block}, which is gone"))
                drawn = draw(setting.model, head.state, moment.controls, decoded(lease, setting.buffer, catalog))
            if drawn.hashes != moment.frame_hashes:
                raise SnapshotFault(_cannot_redraw(moment, "on another machine, build or number of threads"))
            past = line.upto(int(np.searchsorted(ids, moment.id, side="right")))
            catalog.line = past
            head = Head(moment.id, drawn.step.state, past, drawn.last, keys)
            yield head
    finally:
        setting.pager.leave(again)


def _cannot_redraw(moment: Moment, how: str) -> str:
    return (
        f"chunk {moment.chunk_index} was drawn {how}: it cannot be drawn again. You stand where you stood; go back "
        "further, or to a snapshot."
    )
