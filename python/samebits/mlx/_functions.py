"""The functions of the module: stock's arguments, shapes, dtypes and errors, samebits' bits, whatever mode is active.

Each raises NotImplementedError for dtypes that samebits does not have, with name, dtypes and shapes."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from .. import _functions
from . import _extension
from ._patches import attention, calls

# Taken before anything is patched.
_matmul = calls(mx.matmul)
_addmm = calls(mx.addmm)
_quantized_matmul = calls(mx.quantized_matmul)
_gather_mm = calls(mx.gather_mm)
_gather_qmm = calls(mx.gather_qmm)


def _settings() -> _extension.Settings:
    return _extension.Settings(0, True, _functions.get_num_threads(), None)


def matmul(a: mx.array, b: mx.array, *, stream: Any = None) -> mx.array:
    """a @ b, as mx.matmul: float32, float16, bfloat16, float64, complex64; a chain over K each, rounded once."""
    return _matmul(_settings(), a, b, stream=stream)  # type: ignore[no-any-return]


def linear(x: mx.array, w: mx.array, bias: mx.array | None = None, *, stream: Any = None) -> mx.array:
    """x @ w^T + bias for w (N, K) and bias (N,), rounded once."""
    if w.ndim != 2 or (bias is not None and bias.shape != w.shape[:1]):
        want = f"want w of two dimensions, and bias ({w.shape[0] if w.ndim else 'N'},)"
        raise ValueError(f"w is {tuple(w.shape)} and bias {None if bias is None else tuple(bias.shape)}; {want}")
    if bias is None:
        return matmul(x, w.T, stream=stream)
    return addmm(bias, x, w.T, stream=stream)


def addmm(
    c: mx.array, a: mx.array, b: mx.array, alpha: float = 1.0, beta: float = 1.0, *, stream: Any = None
) -> mx.array:
    """alpha * (a @ b) + beta * c, rounded once."""
    return _addmm(_settings(), c, a, b, alpha=alpha, beta=beta, stream=stream)  # type: ignore[no-any-return]


def quantized_matmul(
    x: mx.array,
    w: mx.array,
    /,
    scales: mx.array,
    biases: mx.array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    stream: Any = None,
) -> mx.array:
    """x @ w^T (or x @ w) with quantised w, as mx.quantized_matmul. A weight is fma(scale, q, bias) in float32, or
    element * scale in the float modes; the product is that of matmul with those."""
    return _quantized_matmul(  # type: ignore[no-any-return]
        _settings(), x, w, scales, biases, transpose, group_size, bits, mode, stream=stream
    )


def gather_mm(
    a: mx.array,
    b: mx.array,
    /,
    lhs_indices: mx.array | None = None,
    rhs_indices: mx.array | None = None,
    *,
    sorted_indices: bool = False,
    stream: Any = None,
) -> mx.array:
    """Products of the matrices of a and b that indices name, as mx.gather_mm. sorted_indices never moves a bit."""
    return _gather_mm(  # type: ignore[no-any-return]
        _settings(), a, b, lhs_indices, rhs_indices, sorted_indices=sorted_indices, stream=stream
    )


def gather_qmm(
    x: mx.array,
    w: mx.array,
    /,
    scales: mx.array,
    biases: mx.array | None = None,
    lhs_indices: mx.array | None = None,
    rhs_indices: mx.array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    sorted_indices: bool = False,
    stream: Any = None,
) -> mx.array:
    """gather_mm with quantised w, as mx.gather_qmm."""
    return _gather_qmm(  # type: ignore[no-any-return]
        _settings(),
        x,
        w,
        scales,
        biases,
        lhs_indices,
        rhs_indices,
        transpose,
        group_size,
        bits,
        mode,
        sorted_indices=sorted_indices,
        stream=stream,
    )


def scaled_dot_product_attention(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    *,
    scale: float,
    mask: str | mx.array | None = None,
    sinks: mx.array | None = None,
    stream: Any = None,
) -> mx.array:
    """Attention with exact sums over keys, as mx.fast.scaled_dot_product_attention: mask None, "causal", bool (True
    keeps) or added. A row without a visible key is 0. Gradients are those of products and softmax."""
    return attention(_settings(), q, k, v, scale=scale, mask=mask, sinks=sinks, stream=stream)
