"""The catalog of a head: which blocks its own ancestors left, as arrays for retrieval. Engine thread.

It stands at one line and can stand at another in O(1); a line that branched off is laid out in one piece when it is
looked at next. A published Catalog is a view of rows that are never rewritten, so other threads may read it.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from models.base import Array, Catalog
from server.rows import Line, Rows, Stretch
from shared.pose import Pose


class Gone:
    """The blocks of one world that no tier holds any more. Shared by all its catalogs."""

    def __init__(self, block_ids: Iterable[int] = ()) -> None:
        self.ids = list(block_ids)  # only grows
        self._known = set(self.ids)

    def add(self, block_ids: Iterable[int]) -> None:
        for block_id in block_ids:
            if block_id not in self._known:
                self._known.add(block_id)
                self.ids.append(block_id)

    def __contains__(self, block_id: int) -> bool:
        return block_id in self._known

    def among(self, block_ids: Array, since: int = 0) -> Array:
        """[B] bool: which of these are gone, of those that went after the first `since`."""
        return np.isin(block_ids, np.array(self.ids[since:], np.int64))


class GrowingCatalog:
    """Append-only where it stands: at `line`, which may be set to any other of this world. Ids and chunks ascend."""

    def __init__(self, line: Line, gone: Gone | None = None) -> None:
        """A catalog that stands at this line of a world, of which these blocks are gone."""
        self.line = line
        self._gone = Gone() if gone is None else gone
        self._flat: Rows = line.stretch.rows  # all rows in one piece; a stretch that stands on nothing is so by itself
        self._flat_of: Stretch | None = line.stretch if line.stretch.base is None else None
        self._alive: Array = np.ones(0, np.bool_)  # of `_alive_of`; what was published is replaced, never written
        self._alive_of: Rows | None = None
        self._num_alive = 0  # rows that `_alive` speaks of
        self._num_buried = 0  # of `gone.ids`, entered in `_alive`

    def __len__(self) -> int:
        return self.line.num_rows

    @property
    def num_bytes(self) -> int:
        """Bytes of RAM that the footprints and poses take."""
        return self._rows().num_bytes

    def append(self, block_id: int, chunk_index: int, poses: Sequence[Pose], footprint: Array) -> Line:
        """Add the newest block; returns the line that ends with it."""
        before, is_flat = self.line, self._flat_of is self.line.stretch and self._flat.num_rows >= self.line.num_rows
        self.line = after = before.append(block_id, chunk_index, poses, footprint)
        if after.stretch.base is None or not is_flat:
            return after  # the stretch's own rows are the flat ones; or they are laid out when looked at
        if after.stretch is not before.stretch or self._flat.num_rows > before.num_rows:
            self._flat, self._flat_of = before.flat(2 * after.num_rows), after.stretch
        self._flat.append(block_id, chunk_index, poses, footprint)
        return after

    def bury(self, block_ids: Iterable[int]) -> None:
        """Mark blocks that no tier holds any more; they are never wanted again, on no line of this world."""
        self._gone.add(block_ids)

    def __contains__(self, block_id: int) -> bool:
        return self._row_of(block_id) >= 0

    def place(self, block_id: int) -> tuple[int, tuple[Pose, ...], Array]:
        """(chunk index, poses, footprint) of a block. Raises KeyError when no ancestor left it."""
        row = self._row_of(block_id)
        if row < 0:
            raise KeyError(block_id)
        rows = self._rows()
        poses = tuple(Pose(*map(float, pose)) for pose in rows.poses[row])
        return int(rows.chunks[row]), poses, rows.footprints[row]

    def first_poses(self, block_ids: Sequence[int]) -> Array:
        """[n, 5] float64: where each of these ancestors' blocks was seen from first."""
        rows = self._rows()
        return rows.poses[np.searchsorted(rows.ids[: self.line.num_rows], block_ids), 0]

    def view(self, window_start: int) -> Catalog:
        """The catalog as it is now, for a head whose attention window begins at chunk `window_start`."""
        rows, num = self._rows(), self.line.num_rows
        return Catalog(
            rows.ids[:num],
            rows.chunks[:num],
            rows.poses[:num],
            rows.footprints[:num],
            window_start,
            self._alive_rows(rows, num),
        )

    def _row_of(self, block_id: int) -> int:
        """-1: no ancestor left it."""
        num, ids = self.line.num_rows, self._rows().ids
        row = int(np.searchsorted(ids[:num], block_id))
        return row if row < num and int(ids[row]) == block_id else -1

    def _rows(self) -> Rows:
        """All rows of the line in one piece; laid out anew only where the last layout does not serve."""
        stretch = self.line.stretch
        if stretch.base is None:
            self._flat, self._flat_of = stretch.rows, stretch
        elif self._flat_of is not stretch or self._flat.num_rows < self.line.num_rows:
            self._flat, self._flat_of = self.line.flat(2 * self.line.num_rows), stretch
        return self._flat

    def _alive_rows(self, rows: Rows, num: int) -> Array:
        if self._alive_of is not rows or self._num_alive > num:
            self._alive, self._alive_of, self._num_alive, self._num_buried = np.ones(0, np.bool_), rows, 0, 0
        if self._num_alive < num:
            fresh = ~self._gone.among(rows.ids[self._num_alive : num])
            self._alive = np.concatenate([self._alive, fresh])
            self._num_alive = num
        if self._num_buried < len(self._gone.ids):
            gone = self._gone.among(rows.ids[:num], self._num_buried)
            self._alive = self._alive & ~gone
            self._num_buried = len(self._gone.ids)
        return self._alive
