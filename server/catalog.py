"""The catalog of a head: which blocks its own ancestors left, as arrays that only grow. Engine thread.

A published Catalog is a view of the first rows: later appends never touch them, so other threads may read it.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from models.base import Array, Catalog
from shared.pose import Pose

_FIRST_ROWS = 64


class GrowingCatalog:
    """Append-only rows with amortised doubling. Block ids and chunk indices ascend."""

    def __init__(self, frames_per_block: int, footprint_shape: tuple[int, ...], footprint_dtype: str) -> None:
        self._rows = 0
        self._ids = np.zeros(_FIRST_ROWS, np.int64)
        self._chunks = np.zeros(_FIRST_ROWS, np.int64)
        self._poses = np.zeros((_FIRST_ROWS, frames_per_block, 5), np.float64)
        self._footprints = np.zeros((_FIRST_ROWS, *footprint_shape), footprint_dtype)
        self._alive: Array = np.ones(0, np.bool_)  # replaced, never written: published catalogs share it

    def __len__(self) -> int:
        return self._rows

    @property
    def num_bytes(self) -> int:
        """Bytes of RAM that the footprints and poses take."""
        return sum(array.nbytes for array in (self._ids, self._chunks, self._poses, self._footprints))

    def append(self, block_id: int, chunk_index: int, poses: Sequence[Pose], footprint: Array) -> None:
        """Add the newest block."""
        if self._rows == len(self._ids):
            self._grow()
        row = self._rows
        self._ids[row] = block_id
        self._chunks[row] = chunk_index
        self._poses[row] = [pose.as_tuple() for pose in poses]
        self._footprints[row] = footprint
        self._rows += 1
        self._alive = np.append(self._alive, True)

    def bury(self, block_ids: Iterable[int]) -> None:
        """Mark blocks that no tier holds any more; they are never wanted again."""
        gone = np.isin(self._ids[: self._rows], list(block_ids))
        if gone.any():
            self._alive = self._alive & ~gone

    def __contains__(self, block_id: int) -> bool:
        row = int(np.searchsorted(self._ids[: self._rows], block_id))
        return row < self._rows and int(self._ids[row]) == block_id

    def place(self, block_id: int) -> tuple[int, tuple[Pose, ...], Array]:
        """(chunk index, poses, footprint) of a block. Raises KeyError when no ancestor left it."""
        if block_id not in self:
            raise KeyError(block_id)
        row = int(np.searchsorted(self._ids[: self._rows], block_id))
        poses = tuple(Pose(*map(float, pose)) for pose in self._poses[row])
        return int(self._chunks[row]), poses, self._footprints[row]

    def view(self, window_start: int) -> Catalog:
        """The catalog as it is now, for a head whose attention window begins at chunk `window_start`."""
        rows = self._rows
        return Catalog(
            self._ids[:rows],
            self._chunks[:rows],
            self._poses[:rows],
            self._footprints[:rows],
            window_start,
            self._alive,
        )

    def _grow(self) -> None:
        def doubled(array: Array) -> Array:
            return np.concatenate([array, np.zeros_like(array)])

        self._ids, self._chunks = doubled(self._ids), doubled(self._chunks)
        self._poses, self._footprints = doubled(self._poses), doubled(self._footprints)
