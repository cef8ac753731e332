"""KV to int4 bytes and back: the one encoding of a block. Owns the arithmetic, not the memory.

Each group of G values along D is rotated by a Hadamard transform, then stored as 4-bit codes with an fp16 scale and
zero. Every operation is exact or rounded once, so that all implementations give the same bytes: the butterfly only
adds and subtracts, its normalisation is a power of two, a code times an fp16 scale is exact in float32. `encode` and
`decode` may run on any thread, each call with memory of its own.
"""

import math
from collections.abc import Mapping
from importlib.util import find_spec

import numpy as np
import torch

from models.base import Array
from server.pager.layout import SlotLayout

_MAX_HALF = 65504.0
HAS_TRITON = find_spec("triton") is not None


def normaliser(group: int) -> float:
    """The power of two by which encoding scales the butterfly, so that fp16 can hold its results."""
    return 2.0 ** -math.ceil(math.log2(group) / 2)


def butterfly(values: torch.Tensor) -> torch.Tensor:
    """[..., G] float32, not normalised. Neighbours first, then wider and wider: the order decides the rounding."""
    group = values.shape[-1]
    for _ in range(group.bit_length() - 1):
        first, second = values[..., 0::2], values[..., 1::2]
        values = torch.cat((first + second, first - second), dim=-1)  # dealt into halves; the last stage ends in order
    return values


def encode_rows(rows: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """[R, D] bfloat16 to codes [R, D/2] uint8 and scales [R, D/G, 2] fp16 (scale, zero). The reference."""
    values = butterfly(rows.float().reshape(rows.shape[0], -1, group)) * normaliser(group)
    low, high = values.amin(-1), values.amax(-1)
    # A tensor divides exactly; by a plain number CUDA would multiply with a rounded reciprocal. Adding 0.0 turns
    # minus zero, whose sign depends on the order of comparison, into zero.
    scale = ((high - low + 0.0) / torch.full_like(low, 15.0)).clamp(max=_MAX_HALF).half()
    zero = (low + 0.0).clamp(-_MAX_HALF, _MAX_HALF).half()
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


def encode_fast(rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> None:
    """`encode_rows` into given tensors, by the fastest way there is on their device."""
    group = rows.shape[1] // scales.shape[1]
    if rows.device.type == "cpu":
        from server.pager import kernels  # noqa: PLC0415 - numba is not needed where all is on the GPU

        args = (_words(rows), codes.numpy(), _words(scales), kernels.half_table())
        kernels.encoder(group)(*args, np.float32(normaliser(group)))
    else:
        codes[:], scales[:] = encode_rows(rows, group)


def decode_fast(codes: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> None:
    """`decode_rows` into a given tensor, by the fastest way there is on its device."""
    group = out.shape[1] // scales.shape[1]
    undo = 1.0 / (group * normaliser(group))
    if out.dtype not in (torch.bfloat16, torch.float32):
        out.copy_(decode_rows(codes, scales, group, out.dtype))
    elif out.device.type == "cpu":
        from server.pager import kernels  # noqa: PLC0415 - as above

        is_wide = out.dtype is torch.float32
        args = (codes.numpy(), _words(scales), kernels.half_table(), np.float32(undo))
        kernels.decoder(group, is_wide=is_wide)(*args, out.numpy() if is_wide else _words(out))
    elif HAS_TRITON:
        from server.pager import cuda_kernels  # noqa: PLC0415  # only where there is Triton

        cuda_kernels.decode(codes, scales, undo, out)
    else:
        out.copy_(decode_rows(codes, scales, group, out.dtype))


def _words(tensor: torch.Tensor) -> Array:
    """A 2-byte tensor as uint16, the same memory."""
    return tensor.view(torch.uint16).numpy()


class Codec:
    """Encodes into and decodes from slots of one layout: numba on a CPU, the reference on anything else."""

    def __init__(self, layout: SlotLayout) -> None:
        self._layout = layout

    def warm_up(self, dtype: torch.dtype) -> None:
        """Compile what `encode` and a `decode` into `dtype` need, so that no walk waits for it."""
        group = self._layout.group
        rows = torch.zeros((1, group), dtype=torch.bfloat16)
        codes, scales = torch.empty((1, group // 2), dtype=torch.uint8), torch.empty((1, 1, 2), dtype=torch.float16)
        encode_fast(rows, codes, scales)
        decode_fast(codes, scales, torch.empty((1, group), dtype=dtype))

    def encode(self, kv: torch.Tensor, slot: torch.Tensor) -> None:
        """K,V [L, 2, N, D] bfloat16 into the planes and scales of `slot`, uint8. Raises ValueError on wrong shapes."""
        layout = self._layout
        if tuple(kv.shape) != layout.spec.shape or kv.dtype is not torch.bfloat16:
            raise ValueError(f"a block of {layout.spec.shape} bfloat16 was expected, not {tuple(kv.shape)} {kv.dtype}")
        codes, scales = self._parts(slot)
        planes = kv.reshape(layout.num_planes, layout.spec.tokens, layout.spec.width)
        for index, plane in enumerate(planes):  # one at a time: temporaries stay small
            rows = torch.nn.functional.pad(plane, (0, layout.padded_width - layout.spec.width))
            encode_fast(rows.contiguous(), codes[index], scales[index])

    def decode(self, slot: torch.Tensor, out: torch.Tensor) -> None:
        """The planes of `slot` into out [L, 2, N, D] of any float dtype, in place."""
        layout = self._layout
        codes, scales = self._parts(slot)
        planes = out.view(layout.num_planes, layout.spec.tokens, layout.spec.width)
        for index, plane in enumerate(planes):
            if layout.padded_width == layout.spec.width:
                decode_fast(codes[index], scales[index], plane)
            else:
                padded = decode_rows(codes[index], scales[index], layout.group, out.dtype)
                plane.copy_(padded[:, : layout.spec.width])

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
