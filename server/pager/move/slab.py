"""The slab `blocks.slab`: one preallocated file of fixed slots, the NVME tier of one world. Owns that file and the log.

`read` may be called by several disk readers at once; `write`, `erase` and `close` by one thread at a time. Which slot
is free is the pager thread's business. Order of a write: data, sync, record, sync. A fault is words, never an
exception; whatever does not check is a fault.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from server.pager.header import Check, Identity
from server.pager.layout import SlotLayout, round_up
from server.pager.move.disk import DiskIO, read_fully, write_fully
from server.pager.move.hands import Hands, Readers
from server.pager.move.manifest import Kind, Manifest, Record

PIECE_BYTES = 16 << 20  # also how soon a cancelled read stops
NUM_HANDS = 2  # pieces that the one writer has in the disk at once
SLAB_HEAD_BYTES = 8192  # page 0 says whose slab it is, page 1 is scratch for the probe
WRITE_YIELD_S = 0.05  # the longest that a piece of a write waits for reads


class ReadFault(NamedTuple):
    """Why a block did not come."""

    error: str
    is_damaged: bool = False  # bytes came, and they are not the block's


class Written(NamedTuple):
    """How the write of one slot ended."""

    error: str | None = None
    is_slot_bad: bool = False


@dataclass(frozen=True, slots=True)
class SlotWrite:
    """One encoded, sealed slot to make durable."""

    slot: int
    block: int
    generation: int
    data: memoryview


class Slab:
    """The open slab of one world. Every slot is either named by a live record of the manifest or free."""

    def __init__(
        self,
        disk: DiskIO,
        fd: int,
        manifest: Manifest,
        layout: SlotLayout,
        *,
        is_direct: bool,
        piece_bytes: int = PIECE_BYTES,
        num_hands: int = NUM_HANDS,
    ) -> None:
        self._disk = disk
        self._fd = fd
        self._manifest = manifest
        self._layout = layout
        self._piece_bytes = piece_bytes
        self._hands = Hands(self._write_piece, num_hands) if num_hands > 1 else None
        self._readers = Readers()
        self.is_direct = is_direct

    @property
    def fingerprint(self) -> bytes:
        return self._manifest.terms.fingerprint

    @property
    def store_id(self) -> bytes:
        return self._manifest.terms.store_id

    def read(
        self, slot: int, block: int, generation: int, into: memoryview, is_cancelled: Callable[[], bool]
    ) -> ReadFault | None:
        """Fill `into` with the block and check it. Returns None when it is good; otherwise `into` is undefined."""
        check = Check(self._layout, Identity(self.fingerprint, self.store_id, block, generation))
        with self._readers:
            try:
                return self._read_pieces(slot, into, check, is_cancelled)
            except OSError as error:
                return ReadFault(f"the disk could not read it: {error}")
            finally:
                self._drop_cache([slot])

    def write(self, items: Sequence[SlotWrite]) -> list[Written]:
        """Make a group of slots durable: all data, one sync, all records, one sync."""
        results = self._write_data(items)
        good = [index for index, result in enumerate(results) if result.error is None]
        error = self._sync_data() or self._record(
            [Record(Kind.PUT, items[i].slot, items[i].block, items[i].generation) for i in good]
        )
        if error is not None:
            # A failed sync may have thrown the pages away: it is not tried again, and the slots are not trusted.
            for index in good:
                results[index] = Written(error, is_slot_bad=True)
        self._drop_cache(item.slot for item in items)
        return results

    def erase(self, slots: Sequence[int]) -> str | None:
        """Durably drop the records of these slots."""
        return self._record([Record(Kind.DROPPED, slot, 0, 0) for slot in slots])

    def close(self) -> None:
        if self._hands is not None:
            self._hands.close()
        self._disk.close(self._fd)
        self._manifest.close()

    def _read_pieces(
        self, slot: int, into: memoryview, check: Check, is_cancelled: Callable[[], bool]
    ) -> ReadFault | None:
        at, size = slot_at(self._layout, slot), self._layout.moved_bytes
        for start in range(0, size, self._piece_bytes):
            if is_cancelled():
                return ReadFault("cancelled")
            end = min(size, start + self._piece_bytes)
            read_fully(self._disk, self._fd, into[start:end], at + start)
            if words := check.arrived(into, end):
                return ReadFault(words, is_damaged=True)
        return None

    def _write_data(self, items: Sequence[SlotWrite]) -> list[Written]:
        """All pieces of all slots, `num_hands` at a time, so that the disk does not wait for the next call."""
        size = self._layout.moved_bytes
        pieces = [(item, start) for item in items for start in range(0, size, self._piece_bytes)]
        errors = self._hands.map(pieces) if self._hands else map(self._write_piece, pieces)
        faults: dict[int, str] = {}
        for (item, _), error in zip(pieces, errors, strict=True):
            if error is not None:
                faults.setdefault(item.slot, error)
        return [Written(faults.get(item.slot), is_slot_bad=item.slot in faults) for item in items]

    def _write_piece(self, piece: tuple[SlotWrite, int]) -> str | None:
        item, start = piece
        self._readers.wait_until_none(WRITE_YIELD_S)  # a read has a deadline, a write has none
        data = item.data[start : start + self._piece_bytes]
        try:
            write_fully(self._disk, self._fd, data, slot_at(self._layout, item.slot) + start)
        except OSError as error:
            return f"the disk could not write it: {error}"
        return None

    def _sync_data(self) -> str | None:
        try:
            self._disk.sync(self._fd)
        except OSError as error:
            return f"the disk could not sync the data: {error}"
        return None

    def _record(self, records: Sequence[Record]) -> str | None:
        if not records:
            return None
        try:
            self._manifest.append(records)
        except OSError as error:
            return f"the disk could not write the log: {error}"
        return None

    def _drop_cache(self, slots: Iterable[int]) -> None:
        """Without direct IO, let go of what the page cache holds of these slots, however their move ended."""
        if self.is_direct:
            return
        with suppress(OSError):  # only an advice; the page cache is then bounded by the kernel alone
            for slot in slots:
                self._disk.drop_cache(self._fd, slot_at(self._layout, slot), self._layout.moved_bytes)


def slot_at(layout: SlotLayout, slot: int) -> int:
    """Offset of a slot in the file."""
    return slots_at(layout) + slot * layout.slot_bytes


def slots_at(layout: SlotLayout) -> int:
    """Offset of the first slot: aligned as the slots are."""
    huge = 2 << 20
    return huge if layout.slot_bytes % huge == 0 else round_up(SLAB_HEAD_BYTES, 4096)
