"""A slot's header page: whose block it is, and the hash of each part. Pure bytes; any thread.

It is written once, by the codec thread, and travels with the block through all tiers. Nothing that comes from a disk
is offered before `fault_in` has found nothing wrong with it.
"""

import struct
from dataclasses import dataclass

import xxhash

from server.pager.layout import HASH_BYTES, HEADER_FIXED_BYTES, SlotLayout

MAGIC = b"WPBLOCK1"
VERSION = 1
CODEC = "hadamard-int4-asym-1"
_FIELDS = struct.Struct("<8sII16s16sQQ")  # magic, version, sections, fingerprint, store id, block, generation
_SELF_AT = 96  # hash of everything else in the header
assert _FIELDS.size <= _SELF_AT <= HEADER_FIXED_BYTES - HASH_BYTES


@dataclass(frozen=True, slots=True)
class Identity:
    """What a reader must find in a header: otherwise the bytes are not the ones it asked for."""

    fingerprint: bytes  # 16 bytes, of weights, layout and codec
    store_id: bytes  # 16 bytes, of the world's slab
    block: int
    generation: int


def block_fingerprint(model_fingerprint: str, layout: SlotLayout) -> bytes:
    """16 bytes that change with the weights, the layout or the codec."""
    return xxhash.xxh3_128_digest(f"{model_fingerprint}|{layout.spec!r}|{layout.group}|{CODEC}".encode())


def seal(slot: memoryview, layout: SlotLayout, identity: Identity) -> None:
    """Hash every section of an encoded slot and write its header."""
    head = bytearray(layout.header_bytes)
    _FIELDS.pack_into(
        head,
        0,
        MAGIC,
        VERSION,
        len(layout.sections),
        identity.fingerprint,
        identity.store_id,
        identity.block,
        identity.generation,
    )
    for index, section in enumerate(layout.sections):
        at = HEADER_FIXED_BYTES + index * HASH_BYTES
        head[at : at + HASH_BYTES] = section_hash(slot, section.offset, section.num_bytes)
    head[_SELF_AT : _SELF_AT + HASH_BYTES] = xxhash.xxh3_128_digest(head)
    slot[: layout.header_bytes] = head


def section_hash(slot: memoryview, offset: int, num_bytes: int) -> bytes:
    """xxh3_128 of a stretch of a slot. Releases the GIL."""
    return xxhash.xxh3_128_digest(slot[offset : offset + num_bytes])


def read_identity(header: memoryview) -> Identity | None:
    """Whose block this header says it is, or None when the header itself is damaged or not one."""
    magic, version, _, fingerprint, store_id, block, generation = _FIELDS.unpack_from(header)
    if magic != MAGIC or version != VERSION:
        return None
    copy = bytearray(header)
    found = bytes(copy[_SELF_AT : _SELF_AT + HASH_BYTES])
    copy[_SELF_AT : _SELF_AT + HASH_BYTES] = bytes(HASH_BYTES)
    if xxhash.xxh3_128_digest(copy) != found:
        return None
    return Identity(fingerprint, store_id, block, generation)


def fault_in(slot: memoryview, layout: SlotLayout, expected: Identity) -> str | None:
    """What is wrong with these bytes, in words, or None: header, owner, generation, and the hash of every section."""
    check = Check(layout, expected)
    return check.arrived(slot, len(slot))


class Check:
    """Checks a slot while its bytes arrive from the front, so that hashing runs beside the next read."""

    def __init__(self, layout: SlotLayout, expected: Identity) -> None:
        self._layout = layout
        self._expected = expected
        self._has_header = False
        self._num_checked = 0  # sections found good

    def arrived(self, slot: memoryview, num_bytes: int) -> str | None:
        """The first `num_bytes` are there. Returns what is wrong with them, or None so far."""
        if not self._has_header and num_bytes >= self._layout.header_bytes:
            found = read_identity(slot[: self._layout.header_bytes])
            if found != self._expected:
                return "its header is damaged" if found is None else "it holds another block"
            self._has_header = True
        sections = self._layout.sections
        while self._num_checked < len(sections):
            section = sections[self._num_checked]
            if section.offset + section.num_bytes > num_bytes:
                return None
            at = HEADER_FIXED_BYTES + self._num_checked * HASH_BYTES
            if section_hash(slot, section.offset, section.num_bytes) != bytes(slot[at : at + HASH_BYTES]):
                return f"its {section.name} is damaged"
            self._num_checked += 1
        return None
