"""The codec's fast decoding on CUDA: a Triton kernel. Imported only where Triton is: CUDA builds of torch bring it.

It does what codec.py's reference does, operation for operation, and gives the same bytes: no division takes place, and
a code times an fp16 scale is exact, so that contraction changes nothing.
"""

# pyright: basic, reportMissingImports=false
# ruff: noqa: ANN001, ANN202  # Triton reads a kernel's annotations as its own language

from typing import Any

import torch
import triton
import triton.language as tl

TILE = 16  # groups that one program decodes


@triton.jit
def _decode(
    codes,
    scales,
    out,
    num_groups,
    undo,
    GROUP: tl.constexpr,
    STAGES: tl.constexpr,
    TILE: tl.constexpr,
    IS_WIDE: tl.constexpr,
):
    """Group t: codes [t, GROUP / 2], scales [t, 2] (scale, zero), out [t, GROUP]: float32, or bfloat16 as uint16."""
    half: tl.constexpr = GROUP // 2
    group = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    is_one = group < num_groups
    at = group[:, None] * half + tl.arange(0, half)[None, :]
    packed = tl.load(codes + at, mask=is_one[:, None], other=0)
    scale = tl.load(scales + 2 * group, mask=is_one, other=0.0).to(tl.float32)[:, None]
    zero = tl.load(scales + 2 * group + 1, mask=is_one, other=0.0).to(tl.float32)[:, None]
    low = (packed & 15).to(tl.float32) * scale + zero
    high = (packed >> 4).to(tl.float32) * scale + zero
    values = tl.reshape(tl.permute(tl.join(low, high), (0, 2, 1)), (TILE, GROUP))
    for _ in tl.static_range(STAGES):
        first, second = tl.split(tl.reshape(values, (TILE, half, 2)))
        dealt = tl.permute(tl.join(first + second, first - second), (0, 2, 1))
        values = tl.reshape(dealt, (TILE, GROUP))
    to = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    values *= undo
    if IS_WIDE:
        tl.store(out + to, values, mask=is_one[:, None])
    else:
        bits = values.to(tl.uint32, bitcast=True)
        nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to the nearest bfloat16, ties to even
        tl.store(out + to, nearest.to(tl.uint16), mask=is_one[:, None])


def decode(codes: torch.Tensor, scales: torch.Tensor, undo: float, out: torch.Tensor) -> None:
    """Codes [R, D/2] uint8 and scales [R, D/G, 2] fp16 into out [R, D], all contiguous, on the current stream.

    `out` is float32 or bfloat16.
    """
    num_groups = scales.numel() // 2
    group = out.numel() // num_groups
    is_wide = out.dtype is torch.float32
    launch: Any = _decode[(triton.cdiv(num_groups, TILE),)]  # pyright: ignore[reportIndexIssue]  # Triton's own syntax
    launch(
        codes,
        scales,
        out if is_wide else out.view(torch.uint16),
        num_groups,
        undo,
        GROUP=group,
        STAGES=group.bit_length() - 1,
        TILE=TILE,
        IS_WIDE=is_wide,
    )
