"""Rows of blocks that only grow, and a line of ancestors as a place in them. No copy is made where a line branches.

A line is a stretch of rows and how many of them it sees; the stretch stands on another line. Whoever stands at the end
of a stretch appends to it; whoever does not begins a stretch of its own. So a row that one line sees is never written
by another, and holding a line costs one reference. Engine thread writes; rows that a line sees may be read anywhere.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from models.base import Array
from shared.pose import Pose

_FIRST_ROWS = 64
_FIRST_ROWS_OF_A_BRANCH = 4


class Rows:
    """Arrays with amortised doubling: block ids and chunk indices ascend. The first `num_rows` are never rewritten."""

    __slots__ = ("chunks", "footprints", "ids", "num_rows", "poses")

    def __init__(
        self, capacity: int, frames_per_block: int, footprint_shape: tuple[int, ...], footprint_dtype: str
    ) -> None:
        self.num_rows = 0
        self.ids: Array = np.zeros(capacity, np.int64)
        self.chunks: Array = np.zeros(capacity, np.int64)
        self.poses: Array = np.zeros((capacity, frames_per_block, 5), np.float64)
        self.footprints: Array = np.zeros((capacity, *footprint_shape), footprint_dtype)

    def like(self, capacity: int) -> "Rows":
        """Empty rows of the same shape."""
        return Rows(capacity, self.poses.shape[1], self.footprints.shape[1:], self.footprints.dtype.name)

    @property
    def num_bytes(self) -> int:
        """Bytes of RAM that they take."""
        return sum(array.nbytes for array in (self.ids, self.chunks, self.poses, self.footprints))

    def append(self, block_id: int, chunk_index: int, poses: Sequence[Pose], footprint: Array) -> None:
        if self.num_rows == len(self.ids):
            self._grow(2 * len(self.ids))
        row = self.num_rows
        self.ids[row] = block_id
        self.chunks[row] = chunk_index
        self.poses[row] = [pose.as_tuple() for pose in poses]
        self.footprints[row] = footprint
        self.num_rows += 1

    def extend(self, other: "Rows", num_rows: int) -> None:
        """Append the first rows of others."""
        end = self.num_rows + num_rows
        if end > len(self.ids):
            self._grow(max(end, 2 * len(self.ids)))
        self.ids[self.num_rows : end] = other.ids[:num_rows]
        self.chunks[self.num_rows : end] = other.chunks[:num_rows]
        self.poses[self.num_rows : end] = other.poses[:num_rows]
        self.footprints[self.num_rows : end] = other.footprints[:num_rows]
        self.num_rows = end

    def _grow(self, capacity: int) -> None:
        def grown(array: Array) -> Array:
            return np.concatenate([array, np.zeros((capacity - len(array), *array.shape[1:]), array.dtype)])

        self.ids, self.chunks = grown(self.ids), grown(self.chunks)
        self.poses, self.footprints = grown(self.poses), grown(self.footprints)


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """The rows that were appended between two forks. `base` is the line that it goes on from; None: the world's own."""

    rows: Rows
    base: "Line | None" = None

    @property
    def first(self) -> int:
        """How many rows lie before it."""
        return 0 if self.base is None else self.base.num_rows


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """The blocks of one head's ancestors: the first `num_rows` rows of a stretch and of what it stands on."""

    stretch: Stretch
    num_rows: int

    def upto(self, num_rows: int) -> "Line":
        """The line's own first rows."""
        line = self
        while line.stretch.base is not None and num_rows <= line.stretch.first:
            line = line.stretch.base
        return Line(line.stretch, num_rows)

    def append(self, block_id: int, chunk_index: int, poses: Sequence[Pose], footprint: Array) -> "Line":
        """The line with one more block. Where another line went on from here, this one begins its own stretch."""
        stretch = self.stretch
        if stretch.first + stretch.rows.num_rows != self.num_rows:
            stretch = Stretch(stretch.rows.like(_FIRST_ROWS_OF_A_BRANCH), self)
        stretch.rows.append(block_id, chunk_index, poses, footprint)
        return Line(stretch, self.num_rows + 1)

    def flat(self, capacity: int) -> Rows:
        """A copy of all its rows in one piece."""
        flat = self.stretch.rows.like(max(capacity, self.num_rows, 1))
        for stretch, count in reversed(list(self.stretches())):
            flat.extend(stretch.rows, count)
        return flat

    def stretches(self) -> Iterator[tuple[Stretch, int]]:
        """Each stretch that it stands on, the newest first, and how many of that stretch's own rows it sees."""
        line: Line | None = self
        num_rows = self.num_rows
        while line is not None:
            yield line.stretch, max(0, num_rows - line.stretch.first)
            num_rows = min(num_rows, line.stretch.first)
            line = line.stretch.base

    def ids(self) -> Array:
        """[B] int64: its block ids, ascending. Any thread."""
        return np.concatenate([stretch.rows.ids[:count] for stretch, count in self.stretches()][::-1])


def empty_line(frames_per_block: int, footprint_shape: tuple[int, ...], footprint_dtype: str) -> Line:
    """The line of a world without blocks."""
    return Line(Stretch(Rows(_FIRST_ROWS, frames_per_block, footprint_shape, footprint_dtype)), 0)


def blocks_of(lines: Iterable[Line]) -> frozenset[int]:
    """The blocks that lie on any of these lines. Rows that they share are looked at once."""
    seen: dict[Stretch, int] = {}
    for line in lines:
        for stretch, count in line.stretches():
            seen[stretch] = max(count, seen.get(stretch, 0))
    return frozenset(block for stretch, count in seen.items() for block in stretch.rows.ids[:count].tolist())
