"""Opening a world's slab: make it, or recover what a stop of any kind left. Runs on the opener's thread.

The log is the authority where it was ended in order. After a kill, or where it ends in something that is no record,
each slot's own header is asked too; a slot that the log does not name is taken when its whole content checks and the
log does not rule it out as dropped.
"""

import errno
import os
from dataclasses import dataclass, replace
from mmap import mmap
from pathlib import Path

from server.pager.errors import WorldFault
from server.pager.header import Identity, fault_in, read_identity
from server.pager.layout import PAGE_BYTES, SlotLayout
from server.pager.move.disk import DiskIO, read_fully, write_fully
from server.pager.move.manifest import (
    MAX_GENERATION,
    FoundLog,
    Kind,
    LogState,
    Manifest,
    Record,
    Terms,
    live_blocks,
    make_log,
    read_log,
    reopen_log,
)
from server.pager.move.slab import NUM_HANDS, PIECE_BYTES, Slab, slot_at, slots_at
from server.pager.moves import Held

GENERATIONS_PER_OPENING = 1 << 32


@dataclass(frozen=True, slots=True)
class OpenSlab:
    """A slab ready for use, and what was found in it."""

    slab: Slab
    lock_fd: int
    num_slots: int
    held: dict[int, Held]  # by slot; one slot per block
    first_generation: int  # for the blocks of this opening
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlabOpener:
    """What every world's slab has in common."""

    disk: DiskIO
    layout: SlotLayout
    fingerprint: bytes
    nvme_bytes: int
    piece_bytes: int = PIECE_BYTES
    num_hands: int = NUM_HANDS

    def open(self, folder: Path) -> OpenSlab:
        """Lock the folder and open its slab. Raises WorldFault in words, leaving nothing locked or open."""
        lock_fd = self._lock(folder)
        fds: list[int] = [lock_fd]
        try:
            return self._open_locked(folder, fds)
        except WorldFault:
            self._close(fds)
            raise
        except OSError as error:
            self._close(fds)
            raise WorldFault(f"{folder}: the disk failed while the world was opened: {error}") from error

    def _lock(self, folder: Path) -> int:
        try:
            return self.disk.lock(folder)
        except BlockingIOError as error:
            raise WorldFault(f"{folder} is open in another process. Close that one first.") from error
        except OSError as error:
            raise WorldFault(f"{folder} cannot be opened: {error}") from error

    def _close(self, fds: list[int]) -> None:
        for fd in fds:
            self.disk.close(fd)

    def _open_locked(self, folder: Path, fds: list[int]) -> OpenSlab:
        slab_path, log_path = folder / "blocks.slab", folder / "blocks.log"
        found = self._find_log(log_path)
        is_new = not self.disk.exists(slab_path)
        fd = self.disk.open(slab_path, is_direct=False, create=True)
        fds.append(fd)
        num_slots, notes = self._reserve(fd, slab_path, is_new=is_new)
        if is_new and found is not None:
            notes += (f"{slab_path.name} was gone: the world's blocks are lost",)
            found = replace(found, state=LogState(opening=found.state.opening))
        manifest, more = self._recover(fd, log_path, num_slots, found)
        fds.append(manifest.fd)
        _retire_doubles(manifest)
        manifest.append([Record(Kind.OPENED, 0, 0, manifest.state.opening + 1)])
        self._write_head(fd, manifest.terms)
        direct_fd = self._probe_direct(slab_path)
        if direct_fd is None:
            notes += ("direct IO does not work here: blocks go through the page cache, which is dropped after each",)
        else:
            self.disk.close(fd)
            fds[1] = fd = direct_fd
        is_direct = direct_fd is not None
        slab = Slab(
            self.disk,
            fd,
            manifest,
            self.layout,
            is_direct=is_direct,
            piece_bytes=self.piece_bytes,
            num_hands=self.num_hands,
        )
        first = manifest.state.opening * GENERATIONS_PER_OPENING
        return OpenSlab(slab, fds[0], num_slots, dict(manifest.state.held), first, notes + more)

    def _find_log(self, path: Path) -> FoundLog | None:
        """What the log says, or None without one that can be read. Raises WorldFault when it is not ours."""
        if not self.disk.exists(path):
            return None
        fd = self.disk.open(path, is_direct=False, create=False)
        try:
            found = read_log(self.disk, fd)
        finally:
            self.disk.close(fd)
        if found is not None and found.terms.fingerprint != self.fingerprint:
            raise self._foreign(path.parent)
        return found

    def _foreign(self, folder: Path) -> WorldFault:
        return WorldFault(
            f"{folder} was walked with another model, other weights or another block layout: its memory cannot be "
            "used. Start the server with the weights it was made with, or make a new world."
        )

    def _reserve(self, fd: int, path: Path, *, is_new: bool) -> tuple[int, tuple[str, ...]]:
        """Reserve the file's space; returns how many slots it has."""
        wanted = max(0, (self.nvme_bytes - slots_at(self.layout)) // self.layout.slot_bytes)
        existing = max(0, (self.disk.size(fd) - slots_at(self.layout)) // self.layout.slot_bytes)
        num_slots = max(wanted, existing)
        notes: tuple[str, ...] = ()
        if existing > wanted:
            notes = (f"{path.name} has {existing} slots, more than --nvme asks for: it is used as it is",)
        needed = slot_at(self.layout, num_slots)
        try:
            self.disk.allocate(fd, needed)
        except OSError as error:
            free = self.disk.free_bytes(path.parent)
            if is_new:
                self.disk.unlink(path)
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            raise WorldFault(
                f"{path} needs {needed:,} bytes and its disk has {free:,} free. Free some, or give a smaller --nvme."
            ) from error
        return num_slots, notes

    def _recover(
        self, fd: int, log_path: Path, num_slots: int, found: FoundLog | None
    ) -> tuple[Manifest, tuple[str, ...]]:
        state = LogState() if found is None else found.state
        store_id = self._store_id(fd, log_path.parent) if found is None else found.terms.store_id
        notes: tuple[str, ...] = ()
        if store_id is not None and not state.is_whole:
            known, state = state, self._rebuild(fd, num_slots, store_id, state)
            if state.held != known.held:
                notes = (f"the log was damaged: {len(state.held)} blocks were found by their own headers",)
        beyond = [slot for slot in state.held if slot >= num_slots]
        if beyond:
            state.held = {slot: held for slot, held in state.held.items() if slot < num_slots}
            notes += (f"the slab was cut short: {len(beyond)} blocks beyond its end are lost",)
        if found is not None and found.terms.num_slots == num_slots:
            log_fd = self.disk.open(log_path, is_direct=False, create=False)
            return reopen_log(self.disk, log_fd, replace(found, state=state)), notes
        terms = Terms(self.fingerprint, store_id or os.urandom(16), num_slots)
        return make_log(self.disk, log_path, terms, state, 0 if found is None else found.salt), notes

    def _store_id(self, fd: int, folder: Path) -> bytes | None:
        """Whose slab page 0 says this is; None for a new file. Raises WorldFault when it is not ours."""
        head = bytearray(PAGE_BYTES)
        read_fully(self.disk, fd, memoryview(head), 0)
        store_id, fingerprint = bytes(head[:16]), bytes(head[16:32])
        if any(fingerprint) and fingerprint != self.fingerprint:
            raise self._foreign(folder)
        return store_id if any(store_id) else None

    def _write_head(self, fd: int, terms: Terms) -> None:
        head = (terms.store_id + terms.fingerprint).ljust(PAGE_BYTES, b"\0")
        found = bytearray(PAGE_BYTES)
        read_fully(self.disk, fd, memoryview(found), 0)
        if bytes(found) != head:
            write_fully(self.disk, fd, memoryview(head), 0)
            self.disk.sync(fd)

    def _rebuild(self, fd: int, num_slots: int, store_id: bytes, log: LogState) -> LogState:
        """What the slots hold by their own headers. A slot that the log does not vouch for is read whole."""
        state = LogState(opening=log.opening, newest=log.newest)
        slot_view = _scratch(self.layout.slot_bytes)
        for slot in range(num_slots):
            head = slot_view[: self.layout.header_bytes]
            read_fully(self.disk, fd, head, slot_at(self.layout, slot))
            found = read_identity(head)
            if found is None or found.store_id != store_id or found.fingerprint != self.fingerprint:
                continue
            if found.generation >= MAX_GENERATION:  # no server of ours has lived so long
                continue
            state.opening = max(state.opening, found.generation // GENERATIONS_PER_OPENING)
            held = Held(found.block, found.generation)
            state.newest = max(state.newest, found.generation)
            is_logged = log.held.get(slot) == held
            if is_logged or (log.may_adopt(held.generation) and self._is_whole(fd, slot, slot_view, found)):
                state.held[slot] = held
        return state

    def _is_whole(self, fd: int, slot: int, into: memoryview, expected: Identity) -> bool:
        data, at = into[: self.layout.moved_bytes], slot_at(self.layout, slot)
        read_fully(self.disk, fd, data, at)
        self.disk.drop_cache(fd, at, len(data))
        return fault_in(data, self.layout, expected) is None

    def _probe_direct(self, path: Path) -> int | None:
        """Open for direct IO and try it with a real write and read; None when this file system cannot."""
        try:
            fd = self.disk.open(path, is_direct=True, create=False)
        except OSError:
            return None
        try:
            page = _scratch(PAGE_BYTES)
            page[:16] = os.urandom(16)
            sent = bytes(page)
            write_fully(self.disk, fd, page, PAGE_BYTES)
            page[:16] = bytes(16)
            read_fully(self.disk, fd, page, PAGE_BYTES)
            if bytes(page) == sent:
                return fd
        except OSError:
            pass  # some file systems accept O_DIRECT when opening and refuse the first write
        self.disk.close(fd)
        return None


def _retire_doubles(manifest: Manifest) -> None:
    """Where two slots claim one block, the newer generation has it."""
    state = manifest.state
    keep = set(live_blocks(state.held).values())
    doubles = [Record(Kind.DROPPED, slot, 0, 0) for slot in state.held if slot not in keep]
    if doubles:
        manifest.append(doubles)


def _scratch(num_bytes: int) -> memoryview:
    """Page-aligned memory for a moment; unmapped with its last view."""
    return memoryview(mmap(-1, num_bytes))
