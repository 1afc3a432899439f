"""The operators that samebits has, as functions of a mode and the operator's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from .._functions import _context
from ._modes import Mode

Tensor = torch.Tensor
Function = Callable[..., Any]
WRONG = object()  #: what a function returns for arguments that do not fit: PyTorch's own kernel is to say so
FLOATS = frozenset((torch.float32, torch.float16, torch.bfloat16))

functions: dict[str, Function] = {}


def _overrides(*names: str) -> Callable[[Function], Function]:
    """Registers a function for operators. It gets the mode and the operator's arguments, and returns NotImplemented for
    what it does not take."""

    def register(function: Function) -> Function:
        for name in names:
            functions[name] = function
        return function

    return register


def _threads() -> _core.Context:
    return _context(torch.get_num_threads())


# These run at every call of an operator, so they are loops and not comprehensions.
_lend: Any = torch._C._to_dlpack


def borrow(tensor: Tensor | None) -> Any:
    return None if tensor is None else _lend(tensor)


def _takes(*tensors: Tensor | None) -> bool:
    for t in tensors:
        if t is not None and (t.dtype not in FLOATS or t.layout is not torch.strided):
            return False
    return True


def _alike(first: Tensor, *others: Tensor | None) -> bool:
    dtype = first.dtype
    if not _takes(first):
        return False
    for t in others:
        if t is not None and (t.dtype is not dtype or t.layout is not torch.strided):
            return False
    return True


# --- products ---


def _product(a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
    """alpha * (a @ b) + beta * c with batch dimensions, by packed weights where b is the transpose of some."""
    columns = b.shape[-1]
    weights = None
    if a.ndim == 2:
        out = a.new_empty((a.shape[0], columns))
        if b.ndim == 2 and b.stride(0) == 1:
            weights = _core.torch_packed(b, _lend(b))
    else:
        out = a.new_empty((*a.shape[:-1], columns))
    addend = None if c is None else _lend(c)
    context = _context(torch.get_num_threads())
    if weights is not None:
        _core.linear_prepared(context, _lend(a), weights, _lend(out), "portable-1", addend, None, alpha, beta)
    else:
        _core.matmul(context, _lend(a), _lend(b), _lend(out), addend, None, alpha, beta)
    return out


def _fit(a: Tensor, b: Tensor) -> bool:
    if a.ndim == 2 and b.ndim == 2:
        return a.shape[1] == b.shape[0]
    return a.ndim == b.ndim and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]


@_overrides("mm", "bmm")
def _mm(mode: Mode, a: Tensor, b: Tensor) -> Any:
    if not _fit(a, b):
        return WRONG
    if not _alike(a, b) or (mode.limit is not None and a.shape[-2] > mode.limit):
        return NotImplemented
    return _product(a, b)


@_overrides("addmm", "baddbmm")
def _addmm(mode: Mode, c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
    if not _fit(a, b):
        return WRONG
    if not _alike(c, a, b) or (mode.limit is not None and a.shape[-2] > mode.limit):
        return NotImplemented
    return _product(a, b, c if beta else None, float(alpha), float(beta))


@_overrides("addmv")
def _addmv(mode: Mode, c: Tensor, a: Tensor, x: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
    if x.ndim != 1 or a.ndim != 2 or a.shape[1] != x.shape[0]:
        return WRONG
    if not _alike(c, a, x):
        return NotImplemented
    addend = c.expand(a.shape[0])[:, None] if beta else None
    return _product(a, x[:, None], addend, float(alpha), float(beta))[:, 0]


@_overrides("dot", "vdot")
def _dot(mode: Mode, a: Tensor, b: Tensor) -> Any:
    if a.shape != b.shape:
        return WRONG
    if not _alike(a, b):
        return NotImplemented
    return _product(a[None], b[:, None])[0, 0]


# --- sums along dimensions: products with ones ---


def _dims(x: Tensor, dim: Any) -> list[int] | None:
    """The dimensions to reduce; None for those that x has not, or that come twice."""
    dims = range(x.ndim) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    if any(not -x.ndim <= d < x.ndim for d in dims):
        return None
    found = sorted({d % x.ndim for d in dims})
    return found if len(found) == len(dims) else None


def _sum(x: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None, mean: bool) -> Any:
    if not _takes(x) or dtype not in (None, *FLOATS) or x.ndim == 0:
        return NotImplemented
    if dtype is not None and dtype != x.dtype:
        x = x.to(dtype)
    dims = _dims(x, dim)
    if dims is None:
        return WRONG
    kept = [d for d in range(x.ndim) if d not in dims]
    count = math.prod(x.shape[d] for d in dims)
    if count == 0:
        return NotImplemented
    rows = x.permute(*kept, *dims).reshape(-1, count)
    total = _product(rows, x.new_ones(1).expand(count, 1), alpha=1.0 / count if mean else 1.0)
    return total.view(
        [1 if d in dims else x.shape[d] for d in range(x.ndim)] if keepdim else [x.shape[d] for d in kept]
    )


@_overrides("sum.dim_IntList")
def _sum_dim(mode: Mode, x: Tensor, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    return _sum(x, dim, keepdim, dtype, mean=False)


@_overrides("mean.dim")
def _mean_dim(mode: Mode, x: Tensor, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    if dtype is None and type(dim) is list and len(dim) == 1 and dim[0] in (-1, x.ndim - 1) and x.numel() and _takes(x):
        out = x.new_empty((*x.shape[:-1], 1) if keepdim else x.shape[:-1])
        _core.mean(_threads(), _lend(x), _lend(out))
        return out
    return _sum(x, dim, keepdim, dtype, mean=True)


@_overrides("linalg_vector_norm")
def _vector_norm(
    mode: Mode, x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    if ord not in (1, 2) or not _takes(x) or dtype not in (None, *FLOATS):
        return NotImplemented
    if _dims(x, dim) is None:
        return WRONG
    wide = x.to(torch.float32)
    total = _sum(wide.square() if ord == 2 else wide.abs(), dim, keepdim, None, mean=False)
    if total is NotImplemented:
        return total
    return (total.sqrt() if ord == 2 else total).to(dtype or x.dtype)


def _moments(x: Tensor, dim: Any, correction: Any, keepdim: bool) -> Any:
    """Variance and mean: the mean first, then the sum of the squared distances from it."""
    if not _takes(x) or x.ndim == 0 or x.numel() == 0:
        return NotImplemented
    dims = _dims(x, dim)
    if dims is None:
        return WRONG
    wide = x.to(torch.float32)
    count = math.prod(x.shape[d] for d in dims)
    mean = _sum(wide, dim, True, None, mean=True)
    squares = _sum((wide - mean).square(), dim, keepdim, None, mean=False)
    freedom = count - (1 if correction is None else correction)
    return squares / max(freedom, 0), mean if keepdim else mean.reshape(squares.shape)


@_overrides("var.correction")
def _var(mode: Mode, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    moments = _moments(x, dim, correction, keepdim)
    return moments if not isinstance(moments, tuple) else moments[0].to(x.dtype)


@_overrides("std.correction")
def _std(mode: Mode, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    moments = _moments(x, dim, correction, keepdim)
    return moments if not isinstance(moments, tuple) else moments[0].sqrt().to(x.dtype)


@_overrides("var_mean.correction")
def _var_mean(mode: Mode, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    moments = _moments(x, dim, correction, keepdim)
    return moments if not isinstance(moments, tuple) else (moments[0].to(x.dtype), moments[1].to(x.dtype))


@_overrides("logsumexp")
def _logsumexp(mode: Mode, x: Tensor, dim: Any, keepdim: bool = False) -> Any:
    if not _takes(x) or x.ndim == 0 or x.numel() == 0:
        return NotImplemented
    dims = _dims(x, dim)
    if dims is None:
        return WRONG
    wide = x.to(torch.float32)
    most = wide.amax(dims, keepdim=True)
    most = torch.where(most.isinf(), torch.zeros_like(most), most)
    total = _sum((wide - most).exp(), dims, keepdim, None, mean=False)
    return (total.log() + most.reshape(total.shape)).to(x.dtype)


# --- rows ---


def _along(x: Tensor, dim: int, function: Callable[[Tensor, Tensor], None]) -> Tensor:
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    if dim in (-1, x.ndim - 1):
        function(x, out)
    else:
        function(x.movedim(dim, -1), out.movedim(dim, -1))
    return out


@_overrides("_softmax")
def _softmax(mode: Mode, x: Tensor, dim: int, half_to_float: bool) -> Any:
    if not _takes(x) or half_to_float or x.ndim == 0:
        return NotImplemented
    return _along(x, dim, lambda i, o: _core.softmax(_threads(), borrow(i), borrow(o)))


@_overrides("_log_softmax")
def _log_softmax(mode: Mode, x: Tensor, dim: int, half_to_float: bool) -> Any:
    if not _takes(x) or half_to_float or x.ndim == 0:
        return NotImplemented
    return _along(x, dim, lambda i, o: _core.log_softmax(_threads(), borrow(i), borrow(o)))


@_overrides("native_layer_norm")
def _layer_norm(mode: Mode, x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    if not _takes(x, weight, bias) or x.numel() == 0:
        return NotImplemented
    rows = x
    if len(shape) > 1:
        rows = x.reshape(*x.shape[: x.ndim - len(shape)], math.prod(shape))
        weight, bias = (None if t is None else t.reshape(-1) for t in (weight, bias))
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    _core.layer_norm(_threads(), borrow(rows), borrow(weight), borrow(bias), eps, borrow(out))
    if torch.is_inference_mode_enabled():
        unused = x.new_empty(0, dtype=torch.float32)
        return out.reshape(x.shape), unused, unused
    # What the gradient takes, which may follow although none is recorded here: a compiled function's does. Its sums are
    # row by row too.
    wide = rows.to(torch.float32)
    mean = _sum(wide, -1, True, None, mean=True)
    rstd = (_sum((wide - mean).square(), -1, True, None, mean=True) + eps).rsqrt()
    dims = (*x.shape[: x.ndim - len(shape)], *[1] * len(shape))
    return out.reshape(x.shape), mean.reshape(dims), rstd.reshape(dims)


@_overrides("native_group_norm")
def _group_norm(
    mode: Mode,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: int,
    channels: int,
    spatial: int,
    groups: int,
    eps: float,
) -> Any:
    if not _takes(x, weight, bias) or x.numel() == 0:
        return NotImplemented
    rows = x.reshape(n, groups, channels // groups * spatial)
    out, mean, rstd = _layer_norm(mode, rows, [rows.shape[-1]], None, None, eps)
    out = out.view(n, channels, spatial)
    if weight is not None:
        out = out * weight[:, None]
    if bias is not None:
        out = out + bias[:, None]
    shape = (n, groups) if mean.numel() else (0,)
    return out.reshape(x.shape), mean.reshape(shape), rstd.reshape(shape)


# --- attention ---


@_overrides("_fused_sdp_choice")
def _sdp_choice(
    mode: Mode, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0, *args: Any, **kw: Any
) -> Any:
    """Ours stands behind the flash kernel's name. The other choice is built of products and softmax."""
    flash, math_ = 1, 0
    return math_ if dropout > 0 or not _attention_takes(q, k, v, mask) else flash


def _attention_takes(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    return (
        _alike(q, k, v)
        and q.ndim == k.ndim == v.ndim == 4
        and q.shape[0] == k.shape[0]
        and k.shape[1] > 0
        and q.shape[1] % k.shape[1] == 0
        and max(q.shape[-1], v.shape[-1]) <= 576
        and (mask is None or mask.dtype == torch.bool or _takes(mask))
    )


@_overrides("_scaled_dot_product_flash_attention_for_cpu")
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
        _threads(),
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


@_overrides("_scaled_dot_product_flash_attention_for_cpu_backward")
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


def tensors_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    return [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]


# --- element by element: PyTorch's own kernels, on whole vectors ---

# Their vector bodies and scalar tails differ in the last bit (measured with PyTorch 2.15 on AVX2), so where a row falls
# decides. On a contiguous copy whose length is a multiple of a vector in every thread's share only the bodies run.
ELEMENTWISE = (
    "elu",
    "elu_backward",
    "exp2",
    "gelu",
    "gelu_backward",
    "mish",
    "mish_backward",
    "pow.Tensor_Scalar",
    "rsqrt",
    "sigmoid",
    "silu",
    "silu_backward",
    "softplus",
    "softplus_backward",
)


def _whole_vectors(x: Tensor, length: int) -> Tensor:
    flat = x.reshape(-1)
    if flat.numel() == length and flat.is_contiguous():
        return flat
    padded = x.new_zeros(length)
    padded[: flat.numel()] = flat
    return padded


def _exact(name: str, x: Tensor, args: tuple[Any, ...]) -> bool:
    """Whether body and tail round the same operations in the same places."""
    return (name == "pow.Tensor_Scalar" and args[1] == 2) or (name == "rsqrt" and x.dtype is torch.float32)


def elementwise(name: str, stock: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    first = args[0] if args else next(iter(kwargs.values()))
    if not _takes(first):
        return NotImplemented
    if _exact(name, first, args):
        return stock(*args, **kwargs)
    order = sorted(range(first.ndim), key=first.stride, reverse=True)
    if order != list(range(first.ndim)):
        # The result has the first tensor's order of strides.
        moved = [a.permute(order) if isinstance(a, Tensor) and a.ndim == first.ndim else a for a in args]
        out = elementwise(name, stock, tuple(moved), kwargs)
        return out if out is NotImplemented else out.permute([order.index(d) for d in range(first.ndim)])
    tensors = tensors_of(args, kwargs)
    shape, numel = first.shape, first.numel()
    length = _core.torch_whole_length(numel, torch.get_num_threads())
    ready = length == numel
    for t in tensors:
        if t.shape != shape or not _takes(t):
            return NotImplemented
        ready = ready and t.is_contiguous()
    if ready:
        return stock(*args, **kwargs)
    whole = {id(t): _whole_vectors(t, length) for t in tensors}
    out = stock(
        *[whole.get(id(a), a) for a in args], **{key: whole.get(id(value), value) for key, value in kwargs.items()}
    )
    return out[:numel].view(shape)
