"""Attention of a transformer block: over the window of chunks, and over the context tokens. Engine thread.

Owns the projections. Which keys are in the window, and at what positions, is decided by the caller (`window.py`): what
comes out of `SelfAttention.project` is what memory keeps, after `norm_k` and before rotation.
"""

import torch
from torch import nn
from torch.nn import functional


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the full width; the norm in float32, cast back before the weight (spec 4)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x [..., width]` normalised."""
        return unit_rms(x.float(), self.eps).to(x.dtype) * self.weight


def unit_rms(x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Of `x`: x / sqrt(mean(x^2) + eps) over the last axis, in the dtype of `x`, without any weight."""
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Softmax attention without a mask: `q [B, Q, H, d]` over `k, v [B, T, H, d]` gives `[B, Q, H*d]`."""
    out = functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    )  # [B, H, Q, d]
    return out.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """The four projections and the two norms, which self and cross attention share under the same key names."""

    def __init__(self, dim: int, heads: int, eps: float) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v, self.o = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.norm_q, self.norm_k = RMSNorm(dim, eps), RMSNorm(dim, eps)

    def project_q(self, x: torch.Tensor) -> torch.Tensor:
        """`x [N, D]` to queries `[N, H, d]`, not rotated."""
        return self.norm_q(self.q(x)).unflatten(-1, (self.heads, -1))

    def project_kv(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`x [N, D]` to keys and values `[N, H, d]`, not rotated."""
        return self.norm_k(self.k(x)).unflatten(-1, (self.heads, -1)), self.v(x).unflatten(-1, (self.heads, -1))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attention of `q [N, H, d]` over `k, v [T, H, d]`, projected back: `[N, D]`."""
        return self.o(attend(q[None], k[None], v[None])[0])
