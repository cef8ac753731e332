"""Softmax attention over heads. Training uses plain matrix products, which a CPU differentiates fastest. Any thread."""

from typing import Any

import torch
from torch.nn import functional


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return what queries [F, H, N, d] gather from keys and values [F, H, K, d]: [F, H, N, d]."""
    if torch.is_grad_enabled():
        return _Attend.apply(query, key, value)  # type: ignore[no-any-return]
    return functional.scaled_dot_product_attention(query, key, value)


class _Attend(torch.autograd.Function):
    """Attention with its gradient written out: every product reads contiguous matrices."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.flatten(0, 1) for x in (query, key, value))
        q = q * q.shape[-1] ** -0.5
        shares = torch.bmm(q, k.transpose(1, 2).contiguous()).softmax(dim=-1)
        ctx.save_for_backward(q, k, v, shares)
        return torch.bmm(shares, v).view(query.shape)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        q, k, v, shares = ctx.saved_tensors
        g = grad.flatten(0, 1)
        grad_shares = torch.bmm(g, v.transpose(1, 2).contiguous())
        grad_logits = torch._softmax_backward_data(grad_shares, shares, -1, shares.dtype)  # noqa: SLF001 - the one op for it
        grad_v = torch.bmm(shares.transpose(1, 2), g)
        grad_k = torch.bmm(grad_logits.transpose(1, 2), q)
        grad_q = torch.bmm(grad_logits, k) * q.shape[-1] ** -0.5
        heads = grad.shape[:2]
        return grad_q.unflatten(0, heads), grad_k.unflatten(0, heads), grad_v.unflatten(0, heads)
