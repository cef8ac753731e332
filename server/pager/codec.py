"""KV to int4 bytes and back: the one encoding of a block. Owns the arithmetic, not the memory.

Each group of G values along D is rotated by a Hadamard transform, then stored as 4-bit codes with an fp16 scale and
zero. Every operation is exact or rounded once, so that all implementations give the same bytes: the butterfly only
adds and subtracts, its normalisation is a power of two, a code times an fp16 scale is exact in float32. `encode` and
`decode` may run on any thread, each call with memory of its own.
"""

import math
from collections.abc import Mapping

import torch

from server.pager.layout import SlotLayout

_MAX_HALF = 65504.0


def normaliser(group: int) -> float:
    """The power of two by which encoding scales the butterfly, so that fp16 can hold its results."""
    return 2.0 ** -math.ceil(math.log2(group) / 2)


def butterfly(values: torch.Tensor) -> torch.Tensor:
    """[..., G] float32, not normalised. Stages in a fixed order, widest first: the order decides the rounding."""
    group = values.shape[-1]
    half = group // 2
    while half >= 1:
        pairs = values.reshape(*values.shape[:-1], group // (2 * half), 2, half)
        low, high = pairs[..., 0, :], pairs[..., 1, :]
        values = torch.stack((low + high, low - high), dim=-2).reshape(values.shape)
        half //= 2
    return values


def encode_rows(rows: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """[R, D] bfloat16 to codes [R, D/2] uint8 and scales [R, D/G, 2] fp16 (scale, zero). The reference."""
    values = butterfly(rows.float().reshape(rows.shape[0], -1, group)) * normaliser(group)
    low, high = values.amin(-1), values.amax(-1)
    scale = ((high - low) / 15.0).clamp(max=_MAX_HALF).half()
    zero = low.clamp(-_MAX_HALF, _MAX_HALF).half()
    step = torch.where(scale == 0, 1.0, scale.float())
    codes = torch.round((values - zero.float().unsqueeze(-1)) / step.unsqueeze(-1)).clamp(0.0, 15.0).to(torch.uint8)
    packed = codes[..., : group // 2] | (codes[..., group // 2 :] << 4)  # low nibbles: first half of the group
    return packed.reshape(rows.shape[0], -1), torch.stack((scale, zero), dim=-1)


def decode_rows(codes: torch.Tensor, scales: torch.Tensor, group: int, dtype: torch.dtype) -> torch.Tensor:
    """Codes [R, D/2] uint8 and scales [R, D/G, 2] fp16 to [R, D] values. The reference."""
    packed = codes.reshape(codes.shape[0], -1, group // 2)
    nibbles = torch.cat((packed & 15, packed >> 4), dim=-1).float()
    wide = scales.float()
    values = nibbles * wide[..., 0:1] + wide[..., 1:2]
    undo = 1.0 / (group * normaliser(group))
    return (butterfly(values) * undo).reshape(codes.shape[0], -1).to(dtype)


class Codec:
    """Encodes into and decodes from slots of one layout, a plane at a time so that temporaries stay small."""

    def __init__(self, layout: SlotLayout) -> None:
        self._layout = layout

    def encode(self, kv: torch.Tensor, slot: torch.Tensor) -> None:
        """K,V [L, 2, N, D] bfloat16 into the planes and scales of `slot`, uint8. Raises ValueError on wrong shapes."""
        layout = self._layout
        if tuple(kv.shape) != layout.spec.shape or kv.dtype is not torch.bfloat16:
            raise ValueError(f"a block of {layout.spec.shape} bfloat16 was expected, not {tuple(kv.shape)} {kv.dtype}")
        codes, scales = self._parts(slot)
        for index, plane in enumerate(kv.reshape(layout.num_planes, layout.spec.tokens, layout.spec.width)):
            rows = torch.nn.functional.pad(plane, (0, layout.padded_width - layout.spec.width))
            codes[index], scales[index] = encode_rows(rows, layout.group)

    def decode(self, slot: torch.Tensor, out: torch.Tensor) -> None:
        """The planes of `slot` into out [L, 2, N, D] of any float dtype, in place."""
        layout = self._layout
        codes, scales = self._parts(slot)
        planes = out.view(layout.num_planes, layout.spec.tokens, layout.spec.width)
        for index in range(layout.num_planes):
            rows = decode_rows(codes[index], scales[index], layout.group, out.dtype)
            planes[index].copy_(rows[:, : layout.spec.width])

    def store_side(self, side: Mapping[str, torch.Tensor], slot: torch.Tensor) -> None:
        """Side planes into `slot`, byte for byte. Raises ValueError when one does not fit its place."""
        views = self.side_of(slot)
        for name, view in views.items():
            plane = side.get(name)
            if plane is None or plane.shape != view.shape or plane.dtype != view.dtype:
                raise ValueError(f"side plane {name!r} of {tuple(view.shape)} {view.dtype} was expected")
            view.copy_(plane)

    def side_of(self, slot: torch.Tensor) -> dict[str, torch.Tensor]:
        """The side planes of `slot` as views, by name."""
        return {
            plane.name: slot[at.offset : at.offset + at.num_bytes].view(plane.dtype).view(plane.shape)
            for plane, at in zip(self._layout.spec.side, self._layout.side, strict=True)
        }

    def _parts(self, slot: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Codes [2L, N, D/2] uint8 and scales [2L, N, D/G, 2] fp16: views of `slot`."""
        layout = self._layout
        tokens, width = layout.spec.tokens, layout.padded_width
        codes = slot[layout.planes_at : layout.planes_at + layout.planes_bytes]
        scales = slot[layout.scales_at : layout.scales_at + layout.scales_bytes].view(torch.float16)
        return (
            codes.view(layout.num_planes, tokens, width // 2),
            scales.view(layout.num_planes, tokens, width // layout.group, 2),
        )
