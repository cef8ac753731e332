"""The manifest `blocks.log`: which slot holds which block, durably. Owns that file; called by the opener, then only by
the disk writer's thread.

The file has two regions of equal size, allocated when it is made, so that compaction never needs space. A region is a
header page and 64-byte records; the region with the higher salt counts. Its header covers its first `num_base` records
by one hash; every later record checks itself, with the salt as the seed, so that nothing left from an older use is
ever taken for a record. The first record that does not check ends the log: a torn, zeroed or flipped tail.

The free list is not stored: whatever slot no live record names is free.
"""

import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import xxhash

from server.pager.layout import PAGE_BYTES, round_up
from server.pager.move.disk import DiskIO, read_fully, write_fully
from server.pager.moves import Held

RECORD_BYTES = 64
_RECORD = struct.Struct("<4sB3xIQQQ12x")  # magic, kind, slot, block, generation, sequence
_RECORD_MAGIC = b"WPrc"
_HEADER = struct.Struct("<8sI4xQQ16s16sQ16s")  # magic, version, slots, salt, fingerprint, store id, num_base, base hash
_HEADER_MAGIC = b"WPLOG001"
_VERSION = 1
_CHECK_BYTES = 16
_SPARE_RECORDS = 2048
MAX_OPENINGS = 1 << 31
MAX_GENERATION = 1 << 63
_MAX_LOG_BYTES = 1 << 30  # of four million slots; a file beyond that is not read


class Kind(IntEnum):
    """What a record says."""

    OPENED = 1  # the world was opened; `generation` is the number of the opening, `block` the newest generation so far
    PUT = 2
    DROPPED = 3
    CLOSED = 4  # the world was closed in order: nothing can be missing before this


class Record(NamedTuple):
    """One line of the log."""

    kind: Kind
    slot: int
    block: int
    generation: int


@dataclass(frozen=True, slots=True)
class Terms:
    """Whose log it is. A log of other terms is not ours."""

    fingerprint: bytes  # 16 bytes
    store_id: bytes  # 16 bytes
    num_slots: int


@dataclass(slots=True)
class LogState:
    """What the log says: replaying its records gives this."""

    held: dict[int, Held] = field(default_factory=dict[int, Held])  # by slot
    opening: int = 0  # how often the world was opened
    newest: int = 0  # the newest generation that was ever put
    floor: int = 0  # what `newest` was when the log was rewritten: older blocks that it does not name are dropped
    dropped: set[int] = field(default_factory=set[int])  # generations dropped since
    is_closed: bool = False  # the last record is CLOSED
    is_tail_clean: bool = True  # False: something that is no record follows the last one

    def apply(self, record: Record) -> None:
        self.is_closed = record.kind is Kind.CLOSED
        match record.kind:
            case Kind.CLOSED:
                pass
            case Kind.PUT:
                self.held[record.slot] = Held(record.block, record.generation)
                self.newest = max(self.newest, record.generation)
            case Kind.DROPPED:
                if held := self.held.pop(record.slot, None):
                    self.dropped.add(held.generation)
            case Kind.OPENED:
                self.opening = record.generation
                self.floor = max(self.floor, record.block)
                self.newest = max(self.newest, record.block)

    @property
    def is_whole(self) -> bool:
        """Whether the log was ended in order, so that the slots need not be asked."""
        return self.is_closed and self.is_tail_clean

    def may_adopt(self, generation: int) -> bool:
        """Whether a block that the log does not name may be one whose record was torn, rather than a dropped one."""
        return generation > self.floor and generation not in self.dropped


def region_bytes(num_slots: int) -> int:
    """Space for a full base and as many records again, plus some."""
    return PAGE_BYTES + round_up((2 * num_slots + _SPARE_RECORDS) * RECORD_BYTES, PAGE_BYTES)


def pack_record(record: Record, salt: int, sequence: int) -> bytes:
    """The record's 64 bytes at its place in its log."""
    body = _RECORD.pack(_RECORD_MAGIC, record.kind, record.slot, record.block, record.generation, sequence)
    return body + xxhash.xxh3_128_digest(body, seed=salt)


def unpack_record(data: bytes, salt: int, sequence: int) -> Record | None:
    """The record, or None when these bytes are not the record of this place in this log."""
    body, check = data[: _RECORD.size], data[_RECORD.size :]
    if len(check) != _CHECK_BYTES or xxhash.xxh3_128_digest(body, seed=salt) != check:
        return None
    magic, kind, slot, block, generation, found = _RECORD.unpack(body)
    limit = MAX_OPENINGS if kind == Kind.OPENED else MAX_GENERATION  # a hash is no signature: anybody can write one
    if magic != _RECORD_MAGIC or found != sequence or not Kind.OPENED <= kind <= Kind.CLOSED or generation >= limit:
        return None
    return Record(Kind(kind), slot, block, generation)


class Manifest:
    """The open log. `state` is what is durable; `append` returns only when its records are.

    After an append has raised OSError nothing more is appended to that region: the next append rewrites the log into
    the other one first.
    """

    def __init__(self, disk: DiskIO, fd: int, terms: Terms, state: LogState, salt: int) -> None:
        self._disk = disk
        self.fd = fd
        self._region_bytes = region_bytes(terms.num_slots)
        self.terms = terms
        self.state = state
        self._salt = salt
        self._num_records = 0
        self._is_region_suspect = True  # a fresh opening starts a fresh region

    def append(self, records: Iterable[Record]) -> None:
        """Append and sync. Raises OSError when that could not be made durable."""
        batch = list(records)
        if self._is_region_suspect or self._is_full(len(batch)):
            self._compact()
        data = b"".join(
            pack_record(record, self._salt, self._num_records + index) for index, record in enumerate(batch)
        )
        self._is_region_suspect = True
        offset = self._region_at(self._salt) + PAGE_BYTES + self._num_records * RECORD_BYTES
        write_fully(self._disk, self.fd, memoryview(data), offset)
        self._disk.sync(self.fd)
        self._is_region_suspect = False
        self._num_records += len(batch)
        for record in batch:
            self.state.apply(record)

    def close(self) -> None:
        """End the log in order, if the disk still lets us."""
        with suppress(OSError):  # without its last record, the next opening asks the slots
            self.append([Record(Kind.CLOSED, 0, 0, 0)])
        self._disk.close(self.fd)

    def _is_full(self, num_more: int) -> bool:
        return PAGE_BYTES + (self._num_records + num_more) * RECORD_BYTES > self._region_bytes

    def _region_at(self, salt: int) -> int:
        return (salt % 2) * self._region_bytes

    def _compact(self) -> None:
        """Write the state into the other region. The old one counts until the new header is durable."""
        salt = self._salt + 1
        base = base_records(self.state)
        body = b"".join(pack_record(record, salt, index) for index, record in enumerate(base))
        at = self._region_at(salt)
        zeros = bytes(self._region_bytes - PAGE_BYTES - len(body))
        self._is_region_suspect = True
        write_fully(self._disk, self.fd, memoryview(body + zeros), at + PAGE_BYTES)
        self._disk.sync(self.fd)
        header = _pack_header(self.terms, salt, len(base), body)
        write_fully(self._disk, self.fd, memoryview(header), at)
        self._disk.sync(self.fd)
        self._salt = salt
        self._num_records = len(base)
        self.state.floor = self.state.newest
        self.state.dropped.clear()
        self._is_region_suspect = False


def base_records(state: LogState) -> list[Record]:
    """The shortest log that gives this state."""
    puts = (Record(Kind.PUT, slot, held.block, held.generation) for slot, held in sorted(state.held.items()))
    return [Record(Kind.OPENED, 0, state.newest, state.opening), *puts]


def _pack_header(terms: Terms, salt: int, num_base: int, base: bytes) -> bytes:
    body = _HEADER.pack(
        _HEADER_MAGIC,
        _VERSION,
        terms.num_slots,
        salt,
        terms.fingerprint,
        terms.store_id,
        num_base,
        xxhash.xxh3_128_digest(base),
    )
    return (body + xxhash.xxh3_128_digest(body)).ljust(PAGE_BYTES, b"\0")


@dataclass(frozen=True, slots=True)
class _Region:
    terms: Terms
    salt: int
    state: LogState


def read_region(data: bytes) -> _Region | None:
    """What one region says, or None when its header or its base does not check."""
    body = data[: _HEADER.size]
    if xxhash.xxh3_128_digest(body) != data[_HEADER.size : _HEADER.size + _CHECK_BYTES]:
        return None
    magic, version, num_slots, salt, fingerprint, store_id, num_base, base_hash = _HEADER.unpack(body)
    if magic != _HEADER_MAGIC or version != _VERSION:
        return None
    records = data[PAGE_BYTES:]
    if xxhash.xxh3_128_digest(records[: num_base * RECORD_BYTES]) != base_hash:
        return None
    return _Region(Terms(fingerprint, store_id, num_slots), salt, replay(records, salt))


def replay(records: bytes, salt: int) -> LogState:
    """What the records say, up to the first that does not check."""
    state = LogState()
    num_read = 0
    while record := unpack_record(records[num_read * RECORD_BYTES : (num_read + 1) * RECORD_BYTES], salt, num_read):
        state.apply(record)
        num_read += 1
    tail = records[num_read * RECORD_BYTES :]
    state.is_tail_clean = tail.count(0) == len(tail)
    return state


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A log read back: its terms, what it says, and the salt to go on from."""

    terms: Terms
    state: LogState
    salt: int


def read_log(disk: DiskIO, fd: int) -> FoundLog | None:
    """The newest valid region of the log, or None when neither can be read."""
    size = disk.size(fd)
    if size > _MAX_LOG_BYTES:
        return None
    data = bytearray(size)
    read_fully(disk, fd, memoryview(data), 0)
    halves = (data[: size // 2], data[size // 2 :])
    regions = [region for half in halves if (region := read_region(bytes(half)))]
    if not regions:
        return None
    newest = max(regions, key=lambda region: region.salt)
    return FoundLog(newest.terms, newest.state, newest.salt)


def make_log(disk: DiskIO, path: Path, terms: Terms, state: LogState, salt: int) -> Manifest:
    """Make the file anew beside the old one, fill it, and put it in its place in one step."""
    fresh = path.with_suffix(".log.new")
    disk.unlink(fresh)
    fd = disk.open(fresh, is_direct=False, create=True)
    try:
        disk.allocate(fd, 2 * region_bytes(terms.num_slots))
        manifest = Manifest(disk, fd, terms, state, salt)
        manifest.append([Record(Kind.OPENED, 0, 0, state.opening)])
        disk.rename(fresh, path)
        disk.sync_folder(path.parent)
    except OSError:
        disk.close(fd)
        disk.unlink(fresh)
        raise
    return manifest


def reopen_log(disk: DiskIO, fd: int, found: FoundLog) -> Manifest:
    """Go on with a log. Its first append writes `found.state` into the other region, leaving this one as it was."""
    return Manifest(disk, fd, found.terms, found.state, found.salt)


def live_blocks(held: Mapping[int, Held]) -> dict[int, int]:
    """Slot of each block, the newest generation where two slots claim one."""
    newest: dict[int, tuple[int, int]] = {}
    for slot, (block, generation) in held.items():
        if block not in newest or generation > newest[block][0]:
            newest[block] = (generation, slot)
    return {block: slot for block, (_, slot) in newest.items()}
