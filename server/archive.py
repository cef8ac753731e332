"""One file that holds others: how an exported world is framed. Owns the frame, not what is in it. One thread.

    WPWORLD1 | entry | entry | … | end
    entry = header length (u32) | header: JSON {"name", "bytes"} | the bytes | seal
    end   = the same with {"end": number of entries} and no bytes

A seal is blake2b over the seal before it, the header and the bytes: what is damaged, cut off, left out or exchanged
does not seal. Every size is checked against what the reader allows before a byte of it is read. No pickle.
"""

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, BinaryIO

from server.faults import WorldFault

MAGIC = b"WPWORLD1"
PIECE_BYTES = 1 << 20
SEAL_BYTES = 32
_LENGTH = struct.Struct("<I")
_MAX_HEADER_BYTES = 1024


class ArchiveWriter:
    """Writes entries one after another, each as it comes. `end` makes the file whole."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._seal = b""
        self._num_entries = 0
        file.write(MAGIC)

    def add(self, name: str, num_bytes: int, pieces: Iterable[bytes | memoryview]) -> None:
        """One entry. Raises ValueError when the pieces are not `num_bytes` together: the file is then worthless."""
        digest = self._begin({"name": name, "bytes": num_bytes})
        written = 0
        for piece in pieces:
            digest.update(piece)
            written += self._file.write(piece)
        if written != num_bytes:
            raise ValueError(f"{name}: {written} bytes instead of {num_bytes}; it changed while it was read")
        self._finish(digest)
        self._num_entries += 1

    def end(self) -> None:
        """Say that nothing is missing."""
        self._finish(self._begin({"end": self._num_entries}))

    def _begin(self, header: dict[str, Any]) -> "blake2b":
        text = json.dumps(header).encode()
        assert len(text) <= _MAX_HEADER_BYTES
        self._file.write(_LENGTH.pack(len(text)) + text)
        return blake2b(self._seal + text, digest_size=SEAL_BYTES)

    def _finish(self, digest: "blake2b") -> None:
        self._seal = digest.digest()
        self._file.write(self._seal)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry that was announced and found allowed. `pieces` must be read to their end: then the seal is checked."""

    name: str
    num_bytes: int
    pieces: Iterator[bytes]

    def whole(self) -> bytes:
        """All its bytes, sealed."""
        return b"".join(self.pieces)


def read_archive(file: BinaryIO, limit_of: Callable[[str], int]) -> Iterator[Entry]:
    """Each entry in turn; take all its pieces before the next. Raises WorldFault at the first thing that is not right.

    `limit_of(name)` is how many bytes an entry of this name may have; below 0: there is no such entry.
    """
    if _exactly(file, len(MAGIC)) != MAGIC:
        raise WorldFault("this file is no exported world: it begins differently")
    seal, num_entries = b"", 0
    while True:
        text = _header(file)
        header = _parsed(text)
        digest = blake2b(seal + text, digest_size=SEAL_BYTES)
        if "end" in header:
            _check_seal(file, digest)
            if header["end"] != num_entries or file.read(1):
                raise WorldFault("the exported world does not end where it says: it is damaged")
            return
        name, num_bytes = header.get("name"), header.get("bytes")
        if not isinstance(name, str) or not isinstance(num_bytes, int) or num_bytes < 0:
            raise WorldFault("an entry of the exported world has no name or size: it is damaged")
        if num_bytes > limit_of(name):
            raise WorldFault(f"the exported world holds {name[:64]!r} with {num_bytes:,} bytes, which is not allowed")
        yield Entry(name, num_bytes, _pieces(file, num_bytes, digest))
        seal, num_entries = digest.digest(), num_entries + 1


def _pieces(file: BinaryIO, num_bytes: int, digest: "blake2b") -> Iterator[bytes]:
    left = num_bytes
    while left:
        piece = _exactly(file, min(left, PIECE_BYTES))
        digest.update(piece)
        left -= len(piece)
        yield piece
    _check_seal(file, digest)


def _header(file: BinaryIO) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(file, _LENGTH.size))
    if length > _MAX_HEADER_BYTES:
        raise WorldFault("an entry's header in the exported world is too long: it is damaged")
    return _exactly(file, length)


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WorldFault(f"an entry's header in the exported world is damaged: {error}") from error
    if not isinstance(header, dict):
        raise WorldFault("an entry's header in the exported world is damaged")
    return header  # pyright: ignore[reportUnknownVariableType] - its values are looked at one by one


def _check_seal(file: BinaryIO, digest: "blake2b") -> None:
    if _exactly(file, SEAL_BYTES) != digest.digest():
        raise WorldFault("the exported world is damaged: its bytes are not the ones that were written")


def _exactly(file: BinaryIO, num_bytes: int) -> bytes:
    data = file.read(num_bytes)
    if len(data) != num_bytes:
        raise WorldFault("the exported world ends too early: it was not copied whole")
    return data
