"""Softmax attention over heads. Any thread.

Training uses plain matrix products, which a CPU differentiates fastest. So does drawing where a CPU multiplies bfloat16
without AMX: torch's fused attention takes 3 times as long there (1,344 keys, a core of an EPYC with AVX512-bf16: 3.9 ms
against 1.2).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from models.rooms.precision import has_matrix_unit


@dataclass(frozen=True, slots=True)
class KeyValueBuffer:
    """Remembered keys and values with place behind them for a chunk's own, which each look writes there.

    So memory need not be joined to them anew at each look. It belongs to the drawing of one chunk and is gone with it.
    """

    keys: torch.Tensor  # [F, H, R + K, d]
    values: torch.Tensor  # [F, H, R + K, d]
    num_remembered: int  # R

    def joined(self, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the chunk's own [F, H, K, d] behind what is remembered; return all, good until the next call."""
        self.keys[:, :, self.num_remembered :], self.values[:, :, self.num_remembered :] = key, value
        return self.keys, self.values


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    remembered: tuple[torch.Tensor, torch.Tensor] | KeyValueBuffer | None = None,
) -> torch.Tensor:
    """Return what queries [F, H, N, d] gather from keys and values [F, H, K, d]: [F, H, N, d].

    `remembered` are keys and values that come before the others. They get a gradient only where they ask for one;
    from a buffer (drawing only) there is none.
    """
    if isinstance(remembered, KeyValueBuffer):
        return _gathered(query, *remembered.joined(key, value))
    if remembered is not None and torch.is_grad_enabled() and not remembered[0].requires_grad:
        return _Attend.apply(query, key, value, *remembered)  # type: ignore[no-any-return]
    if remembered is not None:
        key, value = torch.cat([remembered[0], key], dim=2), torch.cat([remembered[1], value], dim=2)
    if torch.is_grad_enabled():
        return _Attend.apply(query, key, value, None, None)  # type: ignore[no-any-return]
    return _gathered(query, key, value)


def _gathered(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    if query.dtype == torch.bfloat16 and query.device.type == "cpu" and not has_matrix_unit():
        shares = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2)).softmax(dim=-1)
        return torch.matmul(shares, value)
    return functional.scaled_dot_product_attention(query, key, value)


class _Attend(torch.autograd.Function):
    """Attention with its gradient written out: every product reads contiguous matrices."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        fixed_key: torch.Tensor | None,
        fixed_value: torch.Tensor | None,
    ) -> torch.Tensor:
        ctx.num_fixed = 0
        if fixed_key is not None and fixed_value is not None:
            ctx.num_fixed = fixed_key.shape[2]
            key, value = torch.cat([fixed_key, key], dim=2), torch.cat([fixed_value, value], dim=2)
        q, k, v = (x.flatten(0, 1) for x in (query, key, value))
        q = q * q.shape[-1] ** -0.5
        shares = torch.bmm(q, k.transpose(1, 2).contiguous()).softmax(dim=-1)
        ctx.save_for_backward(q, k, v, shares)
        return torch.bmm(shares, v).view(query.shape)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, shares = ctx.saved_tensors
        g = grad.flatten(0, 1)
        grad_shares = torch.bmm(g, v.transpose(1, 2).contiguous())
        grad_logits = torch._softmax_backward_data(grad_shares, shares, -1, shares.dtype)  # noqa: SLF001 - the one op for it
        grad_v = torch.bmm(shares[..., ctx.num_fixed :].transpose(1, 2), g)
        grad_k = torch.bmm(grad_logits[..., ctx.num_fixed :].transpose(1, 2), q)
        grad_q = torch.bmm(grad_logits, k) * q.shape[-1] ** -0.5
        heads = grad.shape[:2]
        return grad_q.unflatten(0, heads), grad_k.unflatten(0, heads), grad_v.unflatten(0, heads), None, None
