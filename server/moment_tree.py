"""The tree of a world's moments in RAM: who follows whom, for all of them, and the newest ones whole. Engine thread."""

from array import array
from collections.abc import Mapping
from dataclasses import replace

from server.moments import NO_MOMENT, Moment

MOMENTS_IN_RAM = 2_048  # enough to draw again what lies between two kept heads


class MomentTree:
    """By moment id: `parents` (NO_MOMENT for the first, and where an id was never used) and `chunks` (there -1)."""

    def __init__(self) -> None:
        self.parents = array("q")
        self.chunks = array("q")
        self._recent: dict[int, Moment] = {}

    def load(self, moments: Mapping[int, Moment]) -> None:
        """Enter what the log holds."""
        for number in sorted(moments)[:-MOMENTS_IN_RAM]:
            self._link(moments[number])
        for number in sorted(moments)[-MOMENTS_IN_RAM:]:
            self.enter(moments[number])

    def enter(self, moment: Moment) -> None:
        """Enter a moment into the tree: one that was drawn now, or that the log holds."""
        self._link(moment)
        self._recent[moment.id] = replace(moment, footprint=None, block_poses=()) if moment.has_block else moment
        if len(self._recent) > MOMENTS_IN_RAM:
            del self._recent[next(iter(self._recent))]

    def _link(self, moment: Moment) -> None:
        missing = moment.id + 1 - len(self.parents)
        if missing > 0:
            self.parents.extend([NO_MOMENT] * missing)
            self.chunks.extend([-1] * missing)
        self.parents[moment.id], self.chunks[moment.id] = moment.parent, moment.chunk_index

    def parent(self, moment: int) -> int:
        """The moment before; NO_MOMENT for the first one, and for one that is not in the tree."""
        return self.parents[moment] if 0 <= moment < len(self.parents) else NO_MOMENT

    def moment(self, moment_id: int) -> Moment | None:
        """A moment that is still in RAM: one of the newest."""
        return self._recent.get(moment_id)
