"""Writing the slab of an imported world: each block is checked, then put into the next slot; the log comes last.

What is made is what a server leaves behind when it closes a world: it opens it, and makes it as large as its budget.
"""

import os
from pathlib import Path

from server.faults import WorldFault
from server.pager.header import Identity, fault_in, read_identity
from server.pager.layout import PAGE_BYTES, SlotLayout
from server.pager.move.disk import RealDisk, write_fully
from server.pager.move.manifest import LogState, Terms, make_log
from server.pager.move.slab import slot_at
from server.pager.moves import Held


class ImportedSlab:
    """A slab in the making. `close` makes it durable; without it, it is worthless."""

    def __init__(self, folder: Path, layout: SlotLayout, terms: Terms, opening: int, newest: int) -> None:
        """`terms.num_slots` is how many blocks come; `opening` and `newest` are what the world's own log said."""
        self._folder = folder
        self._layout = layout
        self._terms = terms
        self._state = LogState(opening=opening, newest=newest)
        self._blocks: set[int] = set()
        self._disk = RealDisk()
        self._fd = self._disk.open(folder / "blocks.slab", is_direct=False, create=True)
        head = (terms.store_id + terms.fingerprint).ljust(PAGE_BYTES, b"\0")
        try:
            self._disk.allocate(self._fd, slot_at(layout, terms.num_slots))
            write_fully(self._disk, self._fd, memoryview(head), 0)
        except OSError:
            self.abandon()
            raise

    def put(self, block: int, data: bytes) -> None:
        """The next block. Raises WorldFault when it is not the one that it is said to be, comes twice or is damaged."""
        slot = len(self._blocks)
        found = None
        if len(data) == self._layout.moved_bytes:
            found = read_identity(memoryview(data)[: self._layout.header_bytes])
        if found is None or block in self._blocks or slot >= self._terms.num_slots:
            raise WorldFault(f"block {block} of the exported world is damaged or comes twice")
        owner = Identity(self._terms.fingerprint, self._terms.store_id, block, found.generation)
        if fault := fault_in(memoryview(data), self._layout, owner):
            raise WorldFault(f"block {block} of the exported world is damaged: {fault}")
        write_fully(self._disk, self._fd, memoryview(data), slot_at(self._layout, slot))
        self._blocks.add(block)
        self._state.held[slot] = Held(block, found.generation)
        self._state.newest = max(self._state.newest, found.generation)

    def close(self) -> None:
        """Make the slab durable, then the log that names what is in it."""
        self._disk.sync(self._fd)
        self.abandon()
        make_log(self._disk, self._folder / "blocks.log", self._terms, self._state, 0).close()

    def abandon(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
