"""Sums along dimensions, which are products with ones, softmax and norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from ._modes import Mode
from ._ops import FLOATS, WRONG, Tensor, borrow, lend, overrides, takes, threads
from ._products import product

# --- sums ---


def _dims(x: Tensor, dim: Any) -> list[int] | None:
    """The dimensions to reduce; None for those that x has not, or that come twice."""
    dims = range(x.ndim) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    if any(not -x.ndim <= d < x.ndim for d in dims):
        return None
    found = sorted({d % x.ndim for d in dims})
    return found if len(found) == len(dims) else None


def sum_along(x: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None, mean: bool) -> Any:
    if dtype is not None and dtype in FLOATS:
        x = x.to(dtype)
    if not takes(x) or dtype not in (None, *FLOATS) or x.ndim == 0:
        return NotImplemented
    dims = _dims(x, dim)
    if dims is None:
        return WRONG
    kept = [d for d in range(x.ndim) if d not in dims]
    count = math.prod(x.shape[d] for d in dims)
    if count == 0:
        return NotImplemented
    rows = x.permute(*kept, *dims).reshape(-1, count)
    total = product(rows, x.new_ones(1).expand(count, 1), alpha=1.0 / count if mean else 1.0)
    return total.view(
        [1 if d in dims else x.shape[d] for d in range(x.ndim)] if keepdim else [x.shape[d] for d in kept]
    )


@overrides("sum.dim_IntList")
def _sum_dim(mode: Mode, x: Tensor, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    return sum_along(x, dim, keepdim, dtype, mean=False)


@overrides("mean.dim")
def _mean_dim(mode: Mode, x: Tensor, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    if dtype is None and type(dim) is list and len(dim) == 1 and dim[0] in (-1, x.ndim - 1) and x.numel() and takes(x):
        out = x.new_empty((*x.shape[:-1], 1) if keepdim else x.shape[:-1])
        _core.mean(threads(), lend(x), lend(out))
        return out
    return sum_along(x, dim, keepdim, dtype, mean=True)


@overrides("linalg_vector_norm")
def _vector_norm(
    mode: Mode, x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    if ord not in (1, 2) or not takes(x) or dtype not in (None, *FLOATS):
        return NotImplemented
    if _dims(x, dim) is None:
        return WRONG
    wide = x.to(torch.float32)
    total = sum_along(wide.square() if ord == 2 else wide.abs(), dim, keepdim, None, mean=False)
    if total is NotImplemented:
        return total
    return (total.sqrt() if ord == 2 else total).to(dtype or x.dtype)


def _reduced(x: Tensor, dim: Any) -> Any:
    """The dims to reduce of a tensor that has numbers, or what to return instead."""
    if not takes(x) or x.ndim == 0 or x.numel() == 0:
        return NotImplemented
    dims = _dims(x, dim)
    return WRONG if dims is None else dims


def _moments(x: Tensor, dim: Any, correction: Any, keepdim: bool) -> Any:
    """Variance and mean: the mean first, then the sum of the squared distances from it."""
    dims = _reduced(x, dim)
    if not isinstance(dims, list):
        return dims
    wide = x.to(torch.float32)
    count = math.prod(x.shape[d] for d in dims)
    mean = sum_along(wide, dim, True, None, mean=True)
    squares = sum_along((wide - mean).square(), dim, keepdim, None, mean=False)
    freedom = count - (1 if correction is None else correction)
    return squares / max(freedom, 0), mean if keepdim else mean.reshape(squares.shape)


@overrides("var.correction")
def _var(mode: Mode, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    moments = _moments(x, dim, correction, keepdim)
    return moments if not isinstance(moments, tuple) else moments[0].to(x.dtype)


@overrides("std.correction")
def _std(mode: Mode, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    moments = _moments(x, dim, correction, keepdim)
    return moments if not isinstance(moments, tuple) else moments[0].sqrt().to(x.dtype)


@overrides("std_mean.correction")
def _std_mean(mode: Mode, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    moments = _moments(x, dim, correction, keepdim)
    return moments if not isinstance(moments, tuple) else (moments[0].sqrt().to(x.dtype), moments[1].to(x.dtype))


@overrides("var_mean.correction")
def _var_mean(mode: Mode, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    moments = _moments(x, dim, correction, keepdim)
    return moments if not isinstance(moments, tuple) else (moments[0].to(x.dtype), moments[1].to(x.dtype))


@overrides("logsumexp")
def _logsumexp(mode: Mode, x: Tensor, dim: Any, keepdim: bool = False) -> Any:
    dims = _reduced(x, dim)
    if not isinstance(dims, list):
        return dims
    wide = x.to(torch.float32)
    most = wide.amax(dims, keepdim=True)
    most = torch.where(most.isinf(), torch.zeros_like(most), most)
    total = sum_along((wide - most).exp(), dims, keepdim, None, mean=False)
    return (total.log() + most.reshape(total.shape)).to(x.dtype)


# --- rows ---


def _along(x: Tensor, dim: int, function: Callable[[Tensor, Tensor], None]) -> Tensor:
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    if dim in (-1, x.ndim - 1):
        function(x, out)
    else:
        function(x.movedim(dim, -1), out.movedim(dim, -1))
    return out


@overrides("_softmax")
def _softmax(mode: Mode, x: Tensor, dim: int, half_to_float: bool) -> Any:
    if not takes(x) or half_to_float or x.ndim == 0:
        return NotImplemented
    return _along(x, dim, lambda i, o: _core.softmax(threads(), borrow(i), borrow(o)))


@overrides("_log_softmax")
def _log_softmax(mode: Mode, x: Tensor, dim: int, half_to_float: bool) -> Any:
    if not takes(x) or half_to_float or x.ndim == 0:
        return NotImplemented
    return _along(x, dim, lambda i, o: _core.log_softmax(threads(), borrow(i), borrow(o)))


def _of_moments(x: Tensor, *parameters: Tensor | None) -> torch.dtype:
    """The dtype in which PyTorch's norms keep what their gradients take: x's, or float32 beside wider parameters."""
    return torch.float32 if any(t is not None and t.dtype is not x.dtype for t in parameters) else x.dtype


def _normalised(
    rows: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Norms of rows, and each row's mean and 1 / deviation in a dtype."""
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    _core.layer_norm(threads(), borrow(rows), borrow(weight), borrow(bias), eps, borrow(out))
    if torch.is_inference_mode_enabled():
        unused = rows.new_empty(0, dtype=dtype)
        return out, unused, unused
    # What the gradient takes, which may follow although none is recorded here: a compiled function's does. Its sums are
    # row by row too.
    wide = rows.to(torch.float32)
    mean = sum_along(wide, -1, True, None, mean=True)
    rstd = (sum_along((wide - mean).square(), -1, True, None, mean=True) + eps).rsqrt()
    return out, mean.to(dtype), rstd.to(dtype)


@overrides("_softmax_backward_data")
def _softmax_backward(mode: Mode, grad: Tensor, out: Tensor, dim: int, dtype: torch.dtype) -> Any:
    if not takes(grad, out) or dtype not in FLOATS or out.ndim == 0 or out.numel() == 0:
        return NotImplemented
    wide, weights = grad.to(torch.float32), out.to(torch.float32)
    mean = sum_along(wide * weights, dim, True, None, mean=False)
    return WRONG if mean is WRONG else ((wide - mean) * weights).to(dtype)


@overrides("_log_softmax_backward_data")
def _log_softmax_backward(mode: Mode, grad: Tensor, out: Tensor, dim: int, dtype: torch.dtype) -> Any:
    if not takes(grad, out) or dtype not in FLOATS or out.ndim == 0 or out.numel() == 0:
        return NotImplemented
    wide = grad.to(torch.float32)
    total = sum_along(wide, dim, True, None, mean=False)
    return WRONG if total is WRONG else (wide - out.to(torch.float32).exp() * total).to(dtype)


@overrides("native_layer_norm")
def _layer_norm(mode: Mode, x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    if any(t is not None and list(t.shape) != list(shape) for t in (weight, bias)):
        return WRONG
    if not takes(x, weight, bias) or x.numel() == 0:
        return NotImplemented
    dtype, rows = _of_moments(x, weight, bias), x
    if len(shape) > 1:
        rows = x.reshape(*x.shape[: x.ndim - len(shape)], math.prod(shape))
        weight, bias = (None if t is None else t.reshape(-1) for t in (weight, bias))
    out, mean, rstd = _normalised(rows, weight, bias, eps, dtype)
    dims = (*x.shape[: x.ndim - len(shape)], *[1] * len(shape)) if mean.numel() else (0,)
    return out.reshape(x.shape), mean.reshape(dims), rstd.reshape(dims)


@overrides("native_group_norm")
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
    if not takes(x, weight, bias) or x.numel() == 0:
        return NotImplemented
    rows = x.reshape(n, groups, channels // groups * spatial)
    out, mean, rstd = _normalised(rows, None, None, eps, _of_moments(x, weight, bias))
    out = out.view(n, channels, spatial)
    if weight is not None:
        out = out * weight[:, None]
    if bias is not None:
        out = out + bias[:, None]
    shape = (n, groups) if mean.numel() else (0,)
    return out.to(x.dtype).reshape(x.shape), mean.reshape(shape), rstd.reshape(shape)


# --- their gradients ---


def _norm_gradients(
    grad: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None
) -> tuple[Callable[[], Tensor], Tensor]:
    """Of norms of rows (n, size), in float32: x's gradient, to be asked for, and the products that weight's is the sum
    of. The weight is a row, or one for each row."""
    normal = (x - mean) * rstd

    def of_x() -> Tensor:
        inner = grad if weight is None else grad * weight
        mean_inner = sum_along(inner, -1, True, None, mean=True)
        mean_product = sum_along(inner * normal, -1, True, None, mean=True)
        gradient: Tensor = (inner - mean_inner - normal * mean_product) * rstd
        return gradient

    return of_x, grad * normal


def _wide_rows(*tensors: tuple[Tensor, int]) -> list[Tensor]:
    """In float32, as rows of so many numbers."""
    return [t.to(torch.float32).reshape(-1, size) for t, size in tensors]


def _gradients_of(wanted: list[bool], like: list[Tensor | None], *makers: Callable[[], Tensor]) -> tuple[Any, ...]:
    """The gradients that are wanted, of the shapes and dtypes of what they are of."""
    return tuple(
        make().to(t.dtype).reshape(t.shape) if want and t is not None else None
        for want, t, make in zip(wanted, like, makers, strict=True)
    )


@overrides("native_layer_norm_backward")
def _layer_norm_backward(
    mode: Mode,
    grad: Tensor,
    x: Tensor,
    shape: list[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    wanted: list[bool],
) -> Any:
    if not takes(grad, x, mean, rstd, weight, bias) or x.numel() == 0:
        return NotImplemented
    size = math.prod(shape)
    g, rows, mean, rstd = _wide_rows((grad, size), (x, size), (mean, 1), (rstd, 1))
    of_x, products = _norm_gradients(g, rows, mean, rstd, None if weight is None else weight.reshape(-1).float())
    return _gradients_of(
        wanted,
        [x, weight, bias],
        of_x,
        lambda: sum_along(products, 0, False, None, mean=False),
        lambda: sum_along(g, 0, False, None, mean=False),
    )


@overrides("native_group_norm_backward")
def _group_norm_backward(
    mode: Mode,
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    n: int,
    channels: int,
    spatial: int,
    groups: int,
    wanted: list[bool],
) -> Any:
    if not takes(grad, x, mean, rstd, weight) or x.numel() == 0:
        return NotImplemented
    size = channels // groups * spatial
    g, rows, mean, rstd = _wide_rows((grad, size), (x, size), (mean, 1), (rstd, 1))
    each = None if weight is None else weight.float().repeat_interleave(spatial).reshape(groups, size).repeat(n, 1)
    of_x, products = _norm_gradients(g, rows, mean, rstd, each)

    def of_channels(t: Tensor) -> Callable[[], Tensor]:
        return lambda: sum_along(t.reshape(n, channels, spatial), [0, 2], False, None, mean=False)

    # The shift is not an argument; its gradient has the weight's dtype.
    like = x.new_empty(channels, dtype=x.dtype if weight is None else weight.dtype)
    return _gradients_of(wanted, [x, like, like], of_x, of_channels(products), of_channels(g))
