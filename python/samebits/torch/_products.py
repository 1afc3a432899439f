"""Matrix products."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from .._functions import Weights, _context
from ._modes import Mode
from ._ops import ABOVE, FLOATS, WRONG, Tensor, lend, overrides

PRODUCTS = FLOATS | {torch.float64, torch.complex64}  #: the dtypes of products


def product(
    a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 0.0, order: str = "portable-1"
) -> Tensor:
    """alpha * (a @ b) + beta * c with batch dimensions, by packed weights where b is the transpose of some."""
    columns = b.shape[-1]
    weights = None
    if a.ndim == 2:
        out = a.new_empty((a.shape[0], columns))
        if b.ndim == 2 and b.stride(0) == 1:
            weights = _core.torch_packed(b, lend(b))
    else:
        out = a.new_empty((*a.shape[:-1], columns))
    addend = None if c is None else lend(c)
    context = _context(torch.get_num_threads())
    if weights is not None:
        _core.linear_prepared(context, lend(a), weights, lend(out), order, addend, None, alpha, beta)
    elif order != "portable-1" and b.numel():
        _product_packed(a, b, out, c, alpha, beta, order)
    else:
        _core.matmul(context, lend(a), lend(b), lend(out), addend, None, alpha, beta)
    return out


def _product_packed(a: Tensor, b: Tensor, out: Tensor, c: Tensor | None, alpha: float, beta: float, order: str) -> None:
    """For orders of packed weights: b is packed for this call, batch by batch, unless the batches share it."""
    if b.ndim == 3 and b.stride(0) == 0:
        b = b[0]
    if b.ndim == 3:
        addend = None if c is None else c.expand(out.shape)
        for i in range(b.shape[0]):
            _product_packed(a[i], b[i], out[i], None if addend is None else addend[i], alpha, beta, order)
        return
    weights = Weights(b.t())._core
    context, addend = _context(torch.get_num_threads()), None if c is None else lend(c)
    _core.linear_prepared(context, lend(a), weights, lend(out), order, addend, None, alpha, beta)


def _order(mode: Mode, a: Tensor) -> str:
    """amx-1 is an order of bfloat16 alone."""
    return "amx-1" if mode.amx and a.dtype is torch.bfloat16 else "portable-1"


def _fit(a: Tensor, b: Tensor, ndim: int) -> bool:
    return a.ndim == b.ndim == ndim and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]


def _broadcasts(c: Tensor, *shape: int) -> bool:
    return c.ndim <= len(shape) and all(
        have in (1, want) for have, want in zip(reversed(c.shape), reversed(shape), strict=False)
    )


def _plain(first: Tensor, *others: Tensor) -> Any:
    """The operands of a product, without marks that they stand for their conjugates; WRONG if their dtypes differ, and
    NotImplemented for those that have no product here."""
    for t in others:
        if t.dtype is not first.dtype:
            return WRONG
    for t in (first, *others):
        if t.dtype not in PRODUCTS or t.layout is not torch.strided:
            return NotImplemented
    return (first, *others) if first.dtype is not torch.complex64 else [t.resolve_conj() for t in (first, *others)]


def _real(alpha: Any, beta: Any) -> tuple[float, float] | None:
    """The factors of a product; None for complex ones, which the order of complex64 has not."""
    alpha, beta = complex(alpha), complex(beta)
    return (alpha.real, beta.real) if alpha.imag == beta.imag == 0 else None


def _mm_of(mode: Mode, a: Tensor, b: Tensor, ndim: int) -> Any:
    if not _fit(a, b, ndim):
        return WRONG
    plain = _plain(a, b)
    if plain is NotImplemented or plain is WRONG:
        return plain
    if mode.above(a.shape[-2]):
        return ABOVE
    a, b = plain
    return product(a, b, order=_order(mode, a))


@overrides("mm")
def _mm(mode: Mode, a: Tensor, b: Tensor) -> Any:
    return _mm_of(mode, a, b, 2)


@overrides("bmm")
def _bmm(mode: Mode, a: Tensor, b: Tensor) -> Any:
    return _mm_of(mode, a, b, 3)


def _addmm_of(mode: Mode, c: Tensor, a: Tensor, b: Tensor, alpha: Any, beta: Any, ndim: int) -> Any:
    if not _fit(a, b, ndim) or not _broadcasts(c, *a.shape[:-1], b.shape[-1]):
        return WRONG
    plain, factors = _plain(a, b, c), _real(alpha, beta)
    if plain is NotImplemented or plain is WRONG:
        return plain
    if mode.above(a.shape[-2]):
        return ABOVE
    if factors is None:
        return NotImplemented
    a, b, c = plain
    return product(a, b, c if factors[1] else None, *factors, _order(mode, a))


@overrides("addmm")
def _addmm(mode: Mode, c: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _addmm_of(mode, c, a, b, alpha, beta, 2)


@overrides("baddbmm")
def _baddbmm(mode: Mode, c: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _addmm_of(mode, c, a, b, alpha, beta, 3)


@overrides("addmv")
def _addmv(mode: Mode, c: Tensor, a: Tensor, x: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if x.ndim != 1 or a.ndim != 2 or a.shape[1] != x.shape[0] or not _broadcasts(c, a.shape[0]):
        return WRONG
    plain, factors = _plain(a, x, c), _real(alpha, beta)
    if plain is NotImplemented or plain is WRONG:
        return plain
    if factors is None:
        return NotImplemented
    a, x, c = plain
    addend = c.expand(a.shape[0])[:, None] if factors[1] else None
    return product(a, x[:, None], addend, *factors, _order(mode, a))[:, 0]


@overrides("dot")
def _dot(mode: Mode, a: Tensor, b: Tensor) -> Any:
    if a.shape != b.shape or a.ndim != 1:
        return WRONG
    plain = _plain(a, b)
    if plain is NotImplemented or plain is WRONG:
        return plain
    a, b = plain
    return product(a[None], b[:, None], order=_order(mode, a))[0, 0]


@overrides("vdot")
def _vdot(mode: Mode, a: Tensor, b: Tensor) -> Any:
    return _dot(mode, a.conj(), b)
