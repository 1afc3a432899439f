"""Attention, behind the name of PyTorch's flash kernel."""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import _core
from ._modes import Mode
from ._ops import Tensor, alike, borrow, overrides, takes, threads


@overrides("_fused_sdp_choice")
def _sdp_choice(
    mode: Mode, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0, *args: Any, **kw: Any
) -> Any:
    """Ours stands behind the flash kernel's name. The other choice is built of products and softmax."""
    flash, math_ = 1, 0
    return math_ if dropout > 0 or not _attention_takes(q, k, v, mask) else flash


def _attention_takes(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    return (
        alike(q, k, v)
        and q.ndim == k.ndim == v.ndim == 4
        and q.shape[0] == k.shape[0]
        and k.shape[1] > 0
        and q.shape[1] % k.shape[1] == 0
        and max(q.shape[-1], v.shape[-1]) <= 576
        and (mask is None or mask.dtype == torch.bool or takes(mask))
    )


@overrides("_scaled_dot_product_flash_attention_for_cpu")
def _attention(
    mode: Mode,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    if dropout > 0 or not _attention_takes(q, k, v, attn_mask):
        return NotImplemented
    if causal and q.shape[-2] != k.shape[-2]:
        # PyTorch aligns the triangle to the upper left, samebits to the lower right.
        triangle = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        if attn_mask is not None:
            return NotImplemented
        attn_mask, causal = triangle, False
    # With q's order of strides, as PyTorch's kernel lays out its result: compiled functions rely on it.
    out = torch.empty_like(q) if q.shape[-1] == v.shape[-1] else q.new_empty((*q.shape[:-1], v.shape[-1]))
    if attn_mask is not None:
        attn_mask = attn_mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    _core.attention(
        threads(),
        borrow(q),
        borrow(k),
        borrow(v),
        borrow(out),
        scale=q.shape[-1] ** -0.5 if scale is None else scale,
        causal=causal,
        mask=borrow(attn_mask),
    )
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))):
        return out, q.new_empty((0,), dtype=torch.float32)
    # For a gradient that is taken outside of the mode.
    return out, _heads_inside(torch.logsumexp(_scores(q, k, attn_mask, causal, scale), -1))


def _heads_inside(x: Tensor) -> Tensor:
    """x (B, H, L, ...) with a token's heads side by side, as the kernel lays out its other results."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """What the softmax of attention is taken of, in float32; -inf for hidden keys."""
    q, k = q.to(torch.float32), k.to(torch.float32).repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


@overrides("_scaled_dot_product_flash_attention_for_cpu_backward")
def _attention_backward(
    mode: Mode,
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout: float,
    causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """Products, sums and a softmax in float32, each in its order. The weights are computed anew."""
    if dropout > 0 or not _attention_takes(q, k, v, attn_mask):
        return NotImplemented
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    group = q.shape[1] // k.shape[1]
    scores = _scores(q, k, attn_mask, causal, scale)
    # A query that sees no key gave zeros.
    blind = scores.amax(-1, keepdim=True) == -math.inf
    weights = scores.softmax(-1).masked_fill(blind, 0)
    wide = grad.to(torch.float32)
    from_weights = wide @ v.to(torch.float32).repeat_interleave(group, 1).transpose(-1, -2)
    mean = (wide * out.to(torch.float32)).sum(-1, keepdim=True)
    from_scores = weights * (from_weights - mean) * scale

    def of_keys(gradient: Tensor) -> Tensor:
        """The sum over the query heads that share keys."""
        return gradient if group == 1 else gradient.reshape(k.shape[0], k.shape[1], group, *gradient.shape[2:]).sum(2)

    dq = from_scores @ k.to(torch.float32).repeat_interleave(group, 1)
    dk = of_keys(from_scores.transpose(-1, -2) @ q.to(torch.float32))
    dv = of_keys(weights.transpose(-1, -2) @ wide)
    return _heads_inside(dq.to(q.dtype)), _heads_inside(dk.to(k.dtype)), _heads_inside(dv.to(v.dtype))
