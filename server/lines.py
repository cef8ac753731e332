"""The lines of ancestors of a world that was found on disk. Pure; it reads moments and lays out their blocks."""

from collections.abc import Mapping

from models.base import Array
from server.catalog import Gone
from server.moments import Moment
from server.rows import Line, empty_line


class Lines:
    """Finds the line of any moment. Lines that share ancestors share the rows of these."""

    def __init__(self, moments: Mapping[int, Moment]) -> None:
        self._moments = moments
        self._lines: dict[int, Line] = {}
        self._empty: Line | None = None
        self.blocks: set[int] = set()  # that lie on some line that was asked for

    def of(self, moment_id: int) -> Line:
        """The line that ends with this moment. Raises ValueError when none of its ancestors left a block."""
        way: list[Moment] = []
        at = moment_id
        while at in self._moments and at not in self._lines:
            way.append(self._moments[at])
            at = self._moments[at].parent
        line = self._lines.get(at)
        for moment in reversed(way):
            if moment.footprint is not None:
                line = self._start(moment, moment.footprint) if line is None else line
                line = line.append(moment.id, moment.chunk_index, moment.block_poses, moment.footprint)
                self.blocks.add(moment.id)
            if line is not None:
                self._lines[moment.id] = line
        if line is None:
            raise ValueError(f"moment {moment_id} has no ancestor that left a block")
        return line

    def _start(self, moment: Moment, footprint: Array) -> Line:
        if self._empty is None:
            self._empty = empty_line(len(moment.block_poses), footprint.shape, footprint.dtype.name)
        return self._empty


def gone_of(lines: Lines, known: frozenset[int]) -> Gone:
    """The blocks of these lines that are not on the disk."""
    return Gone(sorted(lines.blocks - known))
