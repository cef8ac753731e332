"""An append-only file of self-checked records. Owns framing and checks; not what a record means, nor when it is synced.

A record is a 16 byte header (payload length, hash) and a msgpack payload. A torn, zeroed or flipped tail is the end of
the log: `read_records` stops there and `RecordLog` cuts it off before it appends. Used by one thread at a time.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import xxhash

_HEADER = struct.Struct("<II8s")  # magic, payload bytes, first 8 bytes of xxh3_128
_MAGIC = 0x4C525057  # "WPRL"
MAX_RECORD_BYTES = 1 << 24


def _seal(payload: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, len(payload), xxhash.xxh3_128_digest(payload)[:8]) + payload


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


class RecordLog:
    """An open log, cut to its last whole record. Errors of the disk are raised as OSError."""

    def __init__(self, path: Path, end: int) -> None:
        """Opens `path` for appending after byte `end`, as `read_records` reported it (0 for a new log)."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, end)
        self._end = end

    def append(self, record: dict[str, Any]) -> None:
        """Add one record. After an error the half-written tail is cut off, so that the next append is whole again."""
        data = _seal(msgpack.packb(record, use_bin_type=True))
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._file, memoryview(data)[written:], self._end + written)
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(data)

    def sync(self) -> None:
        os.fdatasync(self._file)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
