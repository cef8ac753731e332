"""One slot's layout, the same in all tiers, so that a move is a copy. Pure arithmetic; any thread.

    header page(s) | packed planes [L, 2, N, D/2] | scales [L, 2, N, D/G, 2] fp16 | side planes, each at 64 bytes

Each part starts on a page. Planes of Matrix-Game 2.0 are whole pages; smaller ones follow one another without gaps.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what is stored is looked at without torch
    from models.base import KVSpec

PAGE_BYTES = 4096
MAX_GROUP = 128
MIN_GROUP = 16
HEADER_FIXED_BYTES = 128
HASH_BYTES = 16
_HUGE_BYTES = 2 << 20
_SIDE_ALIGN_BYTES = 64


def round_up(value: int, step: int) -> int:
    """The least multiple of `step` that is not below `value`."""
    return -(-value // step) * step


@dataclass(frozen=True, slots=True)
class Section:
    """A hashed stretch of a slot."""

    name: str
    offset: int
    num_bytes: int


@dataclass(frozen=True)
class SlotLayout:
    """Offsets and sizes of one slot for blocks of `spec`. Every offset of a part is a multiple of the page."""

    spec: "KVSpec"

    @cached_property
    def padded_width(self) -> int:
        """D as it is stored: widths that 16 does not divide are padded with zeros."""
        return round_up(self.spec.width, MIN_GROUP)

    @cached_property
    def group(self) -> int:
        """G: values that share a scale and a zero, and over which keys are rotated. A power of two, at most 128."""
        return math.gcd(self.padded_width, MAX_GROUP)

    @property
    def num_rows(self) -> int:
        """Rows of D values: L * 2 * N."""
        return self.spec.layers * 2 * self.spec.tokens

    @property
    def plane_bytes(self) -> int:
        return self.spec.tokens * self.padded_width // 2

    @property
    def num_planes(self) -> int:
        return self.spec.layers * 2

    @property
    def planes_bytes(self) -> int:
        return self.plane_bytes * self.num_planes

    @property
    def scales_bytes(self) -> int:
        return self.num_rows * (self.padded_width // self.group) * 4

    @property
    def bits_per_value(self) -> float:
        return 8.0 * (self.planes_bytes + self.scales_bytes) / math.prod(self.spec.shape)

    @cached_property
    def header_bytes(self) -> int:
        sections = self.num_planes + 1 + len(self.spec.side)
        return round_up(HEADER_FIXED_BYTES + HASH_BYTES * sections, PAGE_BYTES)

    @property
    def planes_at(self) -> int:
        return self.header_bytes

    @cached_property
    def scales_at(self) -> int:
        return round_up(self.planes_at + self.planes_bytes, PAGE_BYTES)

    @cached_property
    def side(self) -> tuple[Section, ...]:
        """The side planes, in the spec's order."""
        at = round_up(self.scales_at + self.scales_bytes, PAGE_BYTES)
        found: list[Section] = []
        for plane in self.spec.side:
            found.append(Section(plane.name, at, plane.num_bytes))
            at = round_up(at + plane.num_bytes, _SIDE_ALIGN_BYTES)
        return tuple(found)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Everything that is hashed: each plane, the scales, each side plane."""
        planes = (
            Section(f"plane {index}", self.planes_at + index * self.plane_bytes, self.plane_bytes)
            for index in range(self.num_planes)
        )
        return (*planes, Section("scales", self.scales_at, self.scales_bytes), *self.side)

    @cached_property
    def moved_bytes(self) -> int:
        """Bytes of a slot that carry something: what a move copies, whole pages."""
        last = self.sections[-1]
        return round_up(last.offset + last.num_bytes, PAGE_BYTES)

    @cached_property
    def slot_bytes(self) -> int:
        """Bytes from one slot to the next. Big slots are whole huge pages, which also suits a file's extents."""
        return round_up(self.moved_bytes, _HUGE_BYTES if self.moved_bytes > 32 * _HUGE_BYTES else PAGE_BYTES)
