"""The memory of a tier: fixed slots in page-aligned, pre-faulted pieces. Owns the bytes, not the free list.

Pieces are kept out of children, so that a fork() of this process during direct IO cannot leave a page behind, and are
at most 1 GiB so that registering them with CUDA wastes nothing to rounding. They are private and in huge pages: what
is shared gets none where the kernel has its default, and hashing then takes three times as long
(docs/decisions/storage.md). Any thread may use a slot's views; who may when is the pager thread's business.
"""

import mmap
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import torch

from models.base import Array
from server.pager.layout import PAGE_BYTES, SlotLayout

PIECE_BYTES = 1 << 30


class Arena:
    """`num_slots` slots of `layout.slot_bytes` each. Fewer than asked for when the machine gave less: see `note`."""

    def __init__(self, layout: SlotLayout, num_slots: int, *, piece_bytes: int = PIECE_BYTES) -> None:
        self.note: str | None = None
        self._slot_bytes = layout.slot_bytes
        self._per_piece = max(1, piece_bytes // layout.slot_bytes)
        self.pieces: list[mmap.mmap] = []
        self._arrays: list[Array] = []
        self.num_slots = 0
        while self.num_slots < num_slots:
            count = min(self._per_piece, num_slots - self.num_slots)
            try:
                piece = _map_piece(count * layout.slot_bytes)
            except OSError as error:
                self.note = f"memory for {num_slots} slots was asked for, {self.num_slots} could be mapped: {error}"
                break
            self.pieces.append(piece)
            self._arrays.append(np.frombuffer(piece, dtype=np.uint8))
            self.num_slots += count

    def register(self, pin: Callable[[int, int], bool]) -> None:
        """Register each piece (address, bytes) with a device, once. The first that fails ends it: the rest is let go.

        Trying on after a failure is known to poison later calls of the device.
        """
        for index, piece in enumerate(self._arrays):
            if not pin(piece.ctypes.data, piece.nbytes):
                self.num_slots = index * self._per_piece
                del self._arrays[index:], self.pieces[index:]
                self.note = f"the device could register memory for {self.num_slots} slots only: the tier is that small"
                return

    def array(self, slot: int) -> Array:
        """[slot_bytes] uint8, a view."""
        piece, index = divmod(slot, self._per_piece)
        return self._arrays[piece][index * self._slot_bytes : (index + 1) * self._slot_bytes]

    def view(self, slot: int) -> memoryview:
        """The slot's bytes, for a file call."""
        return memoryview(self.array(slot).data)

    def tensor(self, slot: int) -> torch.Tensor:
        """[slot_bytes] uint8, a view of the same memory."""
        return torch.from_numpy(self.array(slot))  # pyright: ignore[reportUnknownMemberType]  # torch leaves it untyped


def _map_piece(num_bytes: int) -> mmap.mmap:
    piece = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    piece.madvise(mmap.MADV_DONTFORK)  # a child that shared it would make the next write go to a copy, away from the IO
    with suppress(OSError):  # only an advice: a kernel without huge pages refuses it
        piece.madvise(mmap.MADV_HUGEPAGE)
    np.frombuffer(piece, dtype=np.uint8)[::PAGE_BYTES] = 0  # now, and not in the middle of a walk
    return piece
