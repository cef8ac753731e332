"""Untrusted msgpack: its size and depth are read from its bytes before anything is built from it. Pure; any thread."""

from typing import Any

import msgpack

MAX_DEPTH = 6
MAX_ITEMS = 4_096  # of one array or map


class ProtocolError(Exception):
    """The peer broke the rules. `code` is one of docs/protocol.md's error codes; the text is safe to show."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


_FIXED_BYTES = {  # type byte -> bytes that follow it
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4,
    0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
_SIZED = {  # type byte -> (bytes of the length, bytes beside it): bin, ext, str
    0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1),
    0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0),
}  # fmt: skip
_ARRAYS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}


def _token(data: bytes, at: int) -> tuple[int, int]:
    """(bytes of the token at `at`, items that it contains). Raises IndexError past the end of its length bytes."""
    kind = data[at]
    if 0x80 <= kind <= 0x9F:  # small maps, then small arrays
        return (1, 2 * (kind & 0x0F) if kind <= 0x8F else kind & 0x0F)
    if 0xA0 <= kind <= 0xBF:
        return (1 + (kind & 0x1F), 0)
    if kind in _SIZED:
        length_bytes, extra = _SIZED[kind]
        return (1 + length_bytes + extra + _length(data, at, length_bytes), 0)
    if kind in _ARRAYS:
        return (1 + _ARRAYS[kind], _length(data, at, _ARRAYS[kind]))
    if kind in _MAPS:
        return (1 + _MAPS[kind], 2 * _length(data, at, _MAPS[kind]))
    return (1 + _FIXED_BYTES.get(kind, 0), 0)  # the small integers are one byte; 0xC1 is refused by the parser


def _length(data: bytes, at: int, length_bytes: int) -> int:
    if at + 1 + length_bytes > len(data):
        raise IndexError("length is cut short")
    return int.from_bytes(data[at + 1 : at + 1 + length_bytes], "big")


def is_too_deep(data: bytes, max_depth: int) -> bool:
    """True when `data` nests deeper than `max_depth` containers, or ends inside a value. Builds nothing."""
    open_items = [1]  # values still expected at each open level
    at = 0
    while open_items:
        if at >= len(data):
            return True
        try:
            num_bytes, num_items = _token(data, at)
        except IndexError:
            return True
        at += num_bytes
        open_items[-1] -= 1
        if num_items:
            open_items.append(num_items)
            if len(open_items) - 1 > max_depth:
                return True
        while open_items and open_items[-1] == 0:
            open_items.pop()
    return at > len(data)


def parse(data: bytes, limit_bytes: int) -> Any:
    """The msgpack value in `data`. Raises ProtocolError when it is too large, too deep or malformed."""
    if len(data) > limit_bytes:
        raise ProtocolError("too_large", f"a message of {len(data)} bytes; at most {limit_bytes} are taken")
    if is_too_deep(data, MAX_DEPTH):
        raise ProtocolError("too_deep", f"a message nested deeper than {MAX_DEPTH} levels, or cut short")
    try:
        return msgpack.unpackb(data, use_list=True, max_array_len=MAX_ITEMS, max_map_len=MAX_ITEMS, max_ext_len=0)
    except (ValueError, msgpack.UnpackException) as error:
        raise ProtocolError("malformed", "not one msgpack value within the limits of docs/protocol.md") from error
