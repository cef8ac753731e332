"""Positions: rotary angles for any integer position, and where recalled blocks and the window stand. Pure functions.

The published tables hold 1,024 latent frames (spec 4). Inside that range the angles here are bit-identical to the
table; before and behind it they follow the same formula, so neither position 1,024 nor -3 is special.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch

TABLE_LENGTH = 1024  # latent frames in the published table, spec 4
THETA = 10_000.0


def axis_widths(head_width: int) -> tuple[int, int, int]:
    """Real dimensions of a head that turn with time, height and width (44, 42, 42 of 128; spec 4)."""
    third = head_width // 6
    return (head_width - 4 * third, 2 * third, 2 * third)


def angles(positions: Sequence[int], width: int, theta: float = THETA) -> torch.Tensor:
    """exp(i p theta^(-2j/width)) for every position p and pair j: `[P, width/2]` complex128."""
    table = _native_table(width, theta)  # [1024, width/2] complex128
    inside = all(0 <= position < TABLE_LENGTH for position in positions)
    if inside:
        return table[torch.tensor(positions, dtype=torch.long)]  # [P, width/2]
    return _turns(torch.tensor(positions, dtype=torch.int64), width, theta)  # [P, width/2]


@lru_cache(maxsize=16)
def _native_table(width: int, theta: float) -> torch.Tensor:
    return _turns(torch.arange(TABLE_LENGTH), width, theta)


def _turns(positions: torch.Tensor, width: int, theta: float) -> torch.Tensor:
    exponents = torch.arange(0, width, 2).to(torch.float64).div(width)  # [width/2]
    frequencies = 1.0 / torch.pow(theta, exponents)  # [width/2] float64
    turned = torch.outer(positions.to(torch.float64), frequencies)  # [P, width/2]
    return torch.polar(torch.ones_like(turned), turned)


@lru_cache(maxsize=32)
def grid_angles(frames: tuple[int, ...], rows: int, cols: int, head_width: int, device: str = "cpu") -> torch.Tensor:
    """Rotations of all tokens of these latent frames, frame-major then row then column: `[F*S, head_width/2]`."""
    time_w, height_w, width_w = axis_widths(head_width)
    count = len(frames)
    time = angles(frames, time_w).view(count, 1, 1, -1).expand(count, rows, cols, -1)
    height = angles(range(rows), height_w).view(1, rows, 1, -1).expand(count, rows, cols, -1)
    across = angles(range(cols), width_w).view(1, 1, cols, -1).expand(count, rows, cols, -1)
    grid = torch.cat([time, height, across], dim=-1)  # [F, rows, cols, head_width/2] complex128
    return grid.reshape(count * rows * cols, -1).to(device)


def rotate(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """`x [..., N, heads, d]` turned by `turns [N, d/2]`: in float64, cast back to the dtype of `x` (spec 4)."""
    pairs = torch.view_as_complex(x.to(torch.float64).unflatten(-1, (-1, 2)))  # [..., N, heads, d/2]
    return torch.view_as_real(pairs * turns.unsqueeze(-2)).flatten(-2).to(x.dtype)


def action_angles(positions: Sequence[int], dims: Sequence[int], theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of the action module's 1-D rotation, `[P, sum(dims)]` float32 each (spec 5).

    Its height and width positions are always 0, so only the first `dims[0]` dimensions turn.
    """
    time_w, rest = dims[0], sum(dims) - dims[0]
    frequencies = 1.0 / (theta ** (torch.arange(0, time_w, 2).to(torch.float32) / time_w))  # [time_w/2]
    turned = torch.outer(torch.tensor(positions, dtype=torch.float32), frequencies)  # [P, time_w/2]
    turned = turned.repeat_interleave(2, dim=-1)  # [P, time_w]
    still = torch.zeros(len(turned), rest)
    return torch.cat([turned, still], dim=-1).cos(), torch.cat([turned, still], dim=-1).sin()


def rotate_action(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """`x [..., T, heads, d]` turned in float32 by `cos, sin [T, d]`, adjacent pairs; cast back."""
    pairs = x.float().unflatten(-1, (-1, 2))  # [..., T, heads, d/2, 2]
    crossed = torch.stack([-pairs[..., 1], pairs[..., 0]], dim=-1).flatten(-2)  # [..., T, heads, d]
    return (x.float() * cos.unsqueeze(-2) + crossed * sin.unsqueeze(-2)).to(x.dtype)


def past_split(start: int, frames: int, capacity: int, sink: int) -> tuple[int, int]:
    """How many sink frames and how many rolling frames a chunk at `start` still sees in front of itself.

    This is what the native cache's evictions come to (spec 6): `capacity` latent frames hold the chunk of `frames`
    as well, and the first `sink` latent frames are never evicted. A negative capacity never evicts.
    """
    if capacity < 0 or start + frames <= capacity:
        num_sink = min(sink, start)
        return num_sink, start - num_sink
    num_sink = min(sink, capacity - frames)
    return num_sink, capacity - frames - num_sink


def past_frames(start: int, frames: int, capacity: int, sink: int) -> tuple[int, ...]:
    """The latent frames in front of a chunk at `start`, in the order of the cache: sink, then rolling window."""
    num_sink, num_rolling = past_split(start, frames, capacity, sink)
    return (*range(num_sink), *range(start - num_rolling, start))


def window_start(start: int, frames: int, capacity: int, sink: int) -> int:
    """w0: the first latent frame of the rolling window of a chunk at `start`, the sink left out."""
    return start - past_split(start, frames, capacity, sink)[1]


def always_rebase(first: int, block_frames: int, own_starts: Sequence[int]) -> tuple[int, ...]:
    """Where recalled blocks start when each stands right in front of the window: newest next to it.

    `own_starts` are newest first, `first` is w0; block j (0 is the newest) starts at w0 - F(j+1).
    """
    return tuple(first - block_frames * (j + 1) for j in range(len(own_starts)))


def native_then_rebase(first: int, block_frames: int, own_starts: Sequence[int], chunk_start: int) -> tuple[int, ...]:
    """The paper's rule: a block keeps its own place until the chunk leaves the native table, then it is rebased."""
    if chunk_start + block_frames <= TABLE_LENGTH:  # chunk 340 is the last, for chunks of 3 latents
        return tuple(own_starts)
    return always_rebase(first, block_frames, own_starts)


def recall_starts(
    placement: str, first: int, block_frames: int, own_starts: Sequence[int], chunk_start: int
) -> tuple[int, ...]:
    """The first position of each recalled block (newest first) under a placement rule."""
    if placement == "always-rebase":
        return always_rebase(first, block_frames, own_starts)
    if placement == "native-then-rebase":
        return native_then_rebase(first, block_frames, own_starts, chunk_start)
    raise ValueError(f"placement is {placement!r}, not always-rebase or native-then-rebase")
