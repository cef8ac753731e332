"""The blocks that lie in a world's slab, for commands that read a world which no server has open. Changes nothing.

The log `blocks.log` alone says what is held: what a killed server wrote and did not record is found when a server
opens the world the next time.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from server.faults import WorldFault
from server.pager.header import Identity, fault_in
from server.pager.layout import SlotLayout
from server.pager.move.disk import RealDisk, read_fully
from server.pager.move.manifest import FoundLog, live_blocks, read_log
from server.pager.move.slab import slot_at
from server.pager.moves import Held

if TYPE_CHECKING:  # torch only when a block is read
    import torch


class StoredBlocks:
    """The live blocks of one slab, open for reading. Use it as a context."""

    def __init__(self, folder: Path) -> None:
        """Raises WorldFault when there are blocks and their log cannot be read."""
        self._disk = RealDisk()
        self._slab: int | None = None
        self.held: dict[int, Held] = {}  # by slot
        self.slots: dict[int, int] = {}  # by block
        self.log = _read_log(folder)
        path = folder / "blocks.slab"
        if self.log is None:
            if path.exists():
                raise WorldFault(
                    f"the log of the blocks in {folder} cannot be read. Open the world in a server once: it finds the "
                    "blocks by their own headers."
                )
            return
        self.held = self.log.state.held
        self.slots = live_blocks(self.held)
        if path.exists():
            self._slab = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __contains__(self, block: int) -> bool:
        return block in self.slots

    def __len__(self) -> int:
        return len(self.slots)

    def generation(self, block: int) -> int:
        return self.held[self.slots[block]].generation

    def read(self, block: int, layout: SlotLayout) -> "tuple[torch.Tensor, str]":
        """The block's encoded bytes [moved_bytes] uint8, and what is wrong with them in words (empty: nothing).

        Raises KeyError when the slab does not hold the block.
        """
        import torch  # noqa: PLC0415 - to count blocks takes none

        slot, log = self.slots[block], self.log
        packed = torch.empty(layout.moved_bytes, dtype=torch.uint8)
        if log is None or self._slab is None:
            return packed, "the slab is gone"
        view = packed.numpy().data
        try:
            read_fully(self._disk, self._slab, view, slot_at(layout, slot))
        except OSError as error:
            return packed, f"the disk could not read it: {error}"
        owner = Identity(log.terms.fingerprint, log.terms.store_id, block, self.generation(block))
        return packed, fault_in(view, layout, owner) or ""

    def close(self) -> None:
        if self._slab is not None:
            os.close(self._slab)
            self._slab = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read_log(folder: Path) -> FoundLog | None:
    path = folder / "blocks.log"
    if not path.exists():
        return None
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_log(RealDisk(), fd)
    finally:
        os.close(fd)
