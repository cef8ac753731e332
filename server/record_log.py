"""An append-only file of self-checked records. Owns framing and checks; not what a record means, nor when it is synced.

A record is a 16 byte header (payload length, hash) and a msgpack payload. A torn, zeroed or flipped tail is the end of
the log: `read_records` stops there and `RecordLog` cuts it off before it appends. Used by one thread at a time.
"""

import errno
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import xxhash

_HEADER = struct.Struct("<II8s")  # magic, payload bytes, first 8 bytes of xxh3_128
_MAGIC = 0x4C525057  # "WPRL"
MAX_RECORD_BYTES = 1 << 22  # one of rooms has 3 kB; a hostile one takes 60 times its size when it is parsed
_PIECE_BYTES = 1 << 20


def _seal(payload: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, len(payload), xxhash.xxh3_128_digest(payload)[:8]) + payload


def _packed(record: dict[str, Any]) -> bytes:
    payload = msgpack.packb(record, use_bin_type=True)
    if len(payload) > MAX_RECORD_BYTES:
        raise ValueError(f"a record of {len(payload):,} bytes: {MAX_RECORD_BYTES:,} is the most that is read again")
    return _seal(payload)


def read_records(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Each whole record with the offset at which it ends, until the first that is torn, damaged or not ours."""
    with path.open("rb") as file:
        end = 0
        while True:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return
            magic, num_bytes, digest = _HEADER.unpack(header)
            if magic != _MAGIC or num_bytes > MAX_RECORD_BYTES:
                return
            payload = file.read(num_bytes)
            if len(payload) < num_bytes or xxhash.xxh3_128_digest(payload)[:8] != digest:
                return
            record = msgpack.unpackb(payload, max_ext_len=0)
            if not isinstance(record, dict):
                return
            end += _HEADER.size + num_bytes
            yield record, end


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_aside(path: Path, data: bytes | Iterable[bytes]) -> Path:
    """Write `data`, synced, beside `path`; returns where, to be renamed to `path` before its folder is synced.

    When that fails, nothing is left of it.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        with temporary.open("wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)  # what is left of it would take the space that is missing
        raise
    return temporary


def write_durably(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Replace `path` by `data` so that a crash leaves either the old or the new file."""
    write_aside(path, data).replace(path)
    sync_folder(path.parent)


def _keep_tail(file: int, end: int, path: Path) -> None:
    """What stands behind the last whole record is no record, but it may be all that is left of some: keep it apart."""
    size = os.fstat(file).st_size
    if any(piece.strip(b"\0") for piece in _pieces(file, end, size)):
        write_durably(path, _pieces(file, end, size))


def _pieces(file: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes of a file between two offsets. Raises OSError when they are not all there."""
    while start < end:
        piece = os.pread(file, min(_PIECE_BYTES, end - start), start)
        if not piece:
            raise OSError(errno.EIO, "the log could not be read back")
        start += len(piece)
        yield piece


class RecordLog:
    """An open log, cut to its last whole record. Errors of the disk are raised as OSError."""

    def __init__(self, path: Path, end: int) -> None:
        """Opens `path` for appending after byte `end`, as `read_records` reported it (0 for a new log)."""
        self._path = path
        self._end = end
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _keep_tail(self._file, end, path.with_suffix(".damaged"))
            os.ftruncate(self._file, end)
            sync_folder(path.parent)
        except OSError:
            self.close()
            raise

    def append(self, *records: dict[str, Any]) -> None:
        """Add records: all, or after an error none, so that the next append is whole again.

        Raises ValueError for a record that is too large to be read again.
        """
        data = b"".join(map(_packed, records))
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._file, memoryview(data)[written:], self._end + written)
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(data)

    def sync(self) -> None:
        """Make what was appended durable. After an error the kernel may have dropped pages: `renew` before going on."""
        os.fdatasync(self._file)

    def renew(self) -> None:
        """Write the whole log anew beside itself and take its place, durably."""
        write_durably(self._path, _pieces(self._file, 0, self._end))
        os.close(self._file)
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
