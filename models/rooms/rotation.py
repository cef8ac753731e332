"""Turning keys, values and queries to a position, and back. Owns the head layout and the fast CPU path; any thread.

A token is heads of HEAD numbers: P first parts, P second parts, and a rest that is not turned. `spread` turns tokens
[B, K, D] for each of Q cameras into heads [B*Q, H, K, HEAD]; `gather` is its transpose, so for one camera its inverse.
On a CPU both are compiled loops (one pass over memory instead of five); elsewhere they are torch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from models.rooms.compiled import HAS_NUMBA, njit
from models.rooms.geometry import PAIRS

Bits = NDArray[np.uint16]  # bfloat16 numbers
Floats = NDArray[np.float32]

HEAD = 64
_SHIFT, _HALF = np.uint32(16), np.uint32(0x8000)  # bfloat16 is the upper half of a float32


@dataclass(frozen=True, slots=True)
class Turn:
    """Cosines and sines [B or 1, Q, K, P] float32 by which tokens are turned."""

    cos: torch.Tensor
    sin: torch.Tensor

    @classmethod
    def by(cls, angles: torch.Tensor) -> "Turn":
        """Return the turn by angles [B or 1, Q, K, P]."""
        return cls(angles.cos().contiguous(), angles.sin().contiguous())

    def to(self, device: torch.device) -> "Turn":
        """Return this turn on a device."""
        return Turn(self.cos.to(device), self.sin.to(device))


def spread(tokens: torch.Tensor, turn: Turn) -> torch.Tensor:
    """Return tokens [B, K, D], turned for every camera, as heads [B*Q, H, K, HEAD]."""
    if _is_compiled(tokens):
        return _Spread.apply(tokens, turn)  # type: ignore[no-any-return]
    return _spread_torch(tokens, turn)


def gather(heads: torch.Tensor, turn: Turn) -> torch.Tensor:
    """Return heads [B, H, K, HEAD] turned back, as tokens [B, K, D]. The turn has one camera."""
    if _is_compiled(heads):
        return _Gather.apply(heads, turn)  # type: ignore[no-any-return]
    back = Turn(turn.cos, -turn.sin)
    tokens = heads.transpose(1, 2).flatten(2)
    return _spread_torch(tokens, back).transpose(1, 2).flatten(2)


def _is_compiled(x: torch.Tensor) -> bool:
    return HAS_NUMBA and x.dtype in {torch.bfloat16, torch.float32} and x.device.type == "cpu"


def _spread_torch(tokens: torch.Tensor, turn: Turn) -> torch.Tensor:
    cos, sin = (part[:, :, None].to(tokens.dtype) for part in (turn.cos, turn.sin))  # [B, Q, 1, K, P]
    heads = tokens.unflatten(-1, (-1, HEAD)).transpose(1, 2)[:, None]  # [B, 1, H, K, HEAD]
    first, second, rest = heads.split((PAIRS, PAIRS, HEAD - 2 * PAIRS), dim=-1)
    shape = (heads.shape[0], cos.shape[1], *heads.shape[2:4], rest.shape[-1])
    turned = (first * cos - second * sin, second * cos + first * sin, rest.expand(shape))
    return torch.cat(turned, dim=-1).flatten(0, 1)


class _Spread(torch.autograd.Function):
    """The compiled `spread` and its gradient."""

    @staticmethod
    def forward(ctx: Any, tokens: torch.Tensor, turn: Turn) -> torch.Tensor:
        ctx.turn = turn
        return _run_spread(tokens, turn)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _run_gather(grad, ctx.turn), None


class _Gather(torch.autograd.Function):
    """The compiled `gather` and its gradient."""

    @staticmethod
    def forward(ctx: Any, heads: torch.Tensor, turn: Turn) -> torch.Tensor:
        ctx.turn = turn
        return _run_gather(heads, turn)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _run_spread(grad, ctx.turn), None


def _bits(x: torch.Tensor) -> Bits:
    """Return bfloat16 numbers as their bits, without a copy when contiguous."""
    return x.detach().contiguous().view(torch.int16).numpy().view(np.uint16)


def _run_spread(tokens: torch.Tensor, turn: Turn) -> torch.Tensor:
    batch, keys, width = tokens.shape
    cameras = turn.cos.shape[1]
    out = torch.empty(batch * cameras, width // HEAD, keys, HEAD, dtype=tokens.dtype)
    shape = (batch, cameras, width // HEAD, keys, HEAD)
    cos, sin = turn.cos.numpy(), turn.sin.numpy()
    if tokens.dtype == torch.float32:
        _spread_floats(tokens.detach().contiguous().numpy(), cos, sin, out.numpy().reshape(shape))
    else:
        _spread_loop(_bits(tokens), cos, sin, _bits(out).reshape(shape))
    return out


def _run_gather(heads: torch.Tensor, turn: Turn) -> torch.Tensor:
    cameras = turn.cos.shape[1]
    batch, num_heads, keys = heads.shape[0] // cameras, heads.shape[1], heads.shape[2]
    out = torch.empty(batch, keys, num_heads * HEAD, dtype=heads.dtype)
    shape = (batch, cameras, num_heads, keys, HEAD)
    cos, sin = turn.cos.numpy(), turn.sin.numpy()
    if heads.dtype == torch.float32:
        _gather_floats(heads.detach().contiguous().numpy().reshape(shape), cos, sin, out.numpy())
    else:
        _gather_loop(_bits(heads).reshape(shape), cos, sin, _bits(out))
    return out


@njit(cache=True, nogil=True, fastmath=True)
def _spread_loop(tokens: Bits, cos: Floats, sin: Floats, heads: Bits) -> None:
    batch, cameras, num_heads, keys, _ = heads.shape
    given, turned = np.empty(HEAD, np.float32), np.empty(HEAD, np.float32)
    given_bits, turned_bits = given.view(np.uint32), turned.view(np.uint32)
    for b in range(batch):
        t = b % len(cos)
        for h in range(num_heads):
            for k in range(keys):
                for i in range(HEAD):
                    given_bits[i] = np.uint32(tokens[b, k, h * HEAD + i]) << _SHIFT
                for q in range(cameras):
                    for i in range(PAIRS):
                        c, s = cos[t, q, k, i], sin[t, q, k, i]
                        turned[i] = given[i] * c - given[PAIRS + i] * s
                        turned[PAIRS + i] = given[PAIRS + i] * c + given[i] * s
                    for i in range(2 * PAIRS):
                        heads[b, q, h, k, i] = np.uint16((turned_bits[i] + _HALF) >> _SHIFT)
                    for i in range(2 * PAIRS, HEAD):
                        heads[b, q, h, k, i] = tokens[b, k, h * HEAD + i]


@njit(cache=True, nogil=True, fastmath=True)
def _gather_loop(heads: Bits, cos: Floats, sin: Floats, tokens: Bits) -> None:
    batch, cameras, num_heads, keys, _ = heads.shape
    given, total = np.empty(HEAD, np.float32), np.empty(HEAD, np.float32)
    given_bits, total_bits = given.view(np.uint32), total.view(np.uint32)
    for b in range(batch):
        t = b % len(cos)
        for h in range(num_heads):
            for k in range(keys):
                for i in range(HEAD):
                    total[i] = 0.0
                for q in range(cameras):
                    for i in range(HEAD):
                        given_bits[i] = np.uint32(heads[b, q, h, k, i]) << _SHIFT
                    for i in range(PAIRS):
                        c, s = cos[t, q, k, i], sin[t, q, k, i]
                        total[i] += given[i] * c + given[PAIRS + i] * s
                        total[PAIRS + i] += given[PAIRS + i] * c - given[i] * s
                    for i in range(2 * PAIRS, HEAD):
                        total[i] += given[i]
                for i in range(HEAD):
                    tokens[b, k, h * HEAD + i] = np.uint16((total_bits[i] + _HALF) >> _SHIFT)


# the same in float32, written out again: with a function for the turn of one head, that all four loops call, numba
# makes no vectors of it (bfloat16 2.7 to 4.3 ms, float32 2.4 to 5.5 for 12 planes of 1,152 tokens)
@njit(cache=True, nogil=True, fastmath=True)
def _spread_floats(tokens: Floats, cos: Floats, sin: Floats, heads: Floats) -> None:
    batch, cameras, num_heads, keys, _ = heads.shape
    for b in range(batch):
        t = b % len(cos)
        for q in range(cameras):
            for h in range(num_heads):
                for k in range(keys):
                    given, turned = tokens[b, k, h * HEAD : (h + 1) * HEAD], heads[b, q, h, k]
                    for i in range(PAIRS):
                        c, s = cos[t, q, k, i], sin[t, q, k, i]
                        turned[i] = given[i] * c - given[PAIRS + i] * s
                        turned[PAIRS + i] = given[PAIRS + i] * c + given[i] * s
                    for i in range(2 * PAIRS, HEAD):
                        turned[i] = given[i]


@njit(cache=True, nogil=True, fastmath=True)
def _gather_floats(heads: Floats, cos: Floats, sin: Floats, tokens: Floats) -> None:
    batch, cameras, num_heads, keys, _ = heads.shape
    tokens[:] = 0.0
    for b in range(batch):
        t = b % len(cos)
        for q in range(cameras):
            for h in range(num_heads):
                for k in range(keys):
                    given, total = heads[b, q, h, k], tokens[b, k, h * HEAD : (h + 1) * HEAD]
                    for i in range(PAIRS):
                        c, s = cos[t, q, k, i], sin[t, q, k, i]
                        total[i] += given[i] * c + given[PAIRS + i] * s
                        total[PAIRS + i] += given[PAIRS + i] * c - given[i] * s
                    for i in range(2 * PAIRS, HEAD):
                        total[i] += given[i]
