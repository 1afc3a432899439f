"""MLX's functions, each with ours behind it while a mode or a limit is in force.

A patched function makes stock's graph, with stock's shapes, dtypes and errors, and then has samebits' primitives put
in the place of stock's products. Without a mode it only passes on, so that it may stay for good: which thread is in a
mode is looked up in each call."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from . import _extension
from ._modes import current

Function = Callable[..., Any]

_lock = threading.Lock()
_installed = False

#: Functions of mlx.core whose graphs may have products in them.
FUNCTIONS = (
    "addmm",
    "block_masked_mm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_general",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolve",
    "einsum",
    "gather_mm",
    "gather_qmm",
    "gather_qqmm",
    "inner",
    "matmul",
    "qqmm",
    "quantized_matmul",
    "segmented_mm",
    "tensordot",
    "vecdot",
)
METHODS = ("__matmul__", "__imatmul__")
#: The same of mlx.core.linalg.
LINALG = ("cholesky_inv", "pinv", "solve", "solve_triangular")


def calls(stock: Function) -> Function:
    """Stock's function of settings and its arguments, with samebits' products in its graph."""

    def run(settings: _extension.Settings, *args: Any, **kwargs: Any) -> Any:
        known = _extension.known_of(*args, **kwargs)
        out = stock(*args, **kwargs)
        _extension.take(out, known, settings)
        return out

    return run


def attention(settings: _extension.Settings, q: Any, k: Any, v: Any, **kwargs: Any) -> mx.array:
    """mx.fast.scaled_dot_product_attention in order. Raises what stock raises."""
    given = kwargs.pop("mask", None)
    mode, mask = (given, None) if isinstance(given, str) else ("", given)
    sinks, stream, scale = kwargs.pop("sinks", None), kwargs.pop("stream", None), kwargs.pop("scale")
    kwargs.pop("force_fused", None)
    if kwargs:
        raise TypeError(f"scaled_dot_product_attention has no argument '{next(iter(kwargs))}'")
    return _extension.attention(q, k, v, scale, mode, mask, sinks, settings, stream)


def _patched(stock: Function, ours: Function) -> Function:
    @functools.wraps(stock)
    def run(*args: Any, **kwargs: Any) -> Any:
        settings = current()
        return stock(*args, **kwargs) if settings is None else ours(settings, *args, **kwargs)

    return run


def install() -> None:
    """Puts the functions in place, once a process. Names that other modules have imported from mlx.core before stay as
    they are."""
    global _installed
    with _lock:
        if _installed:
            return
        for owner, names in ((mx, FUNCTIONS), (mx.array, METHODS), (mx.linalg, LINALG)):
            for name in names:
                stock = getattr(owner, name, None)
                if stock is not None:
                    setattr(owner, name, _patched(stock, calls(stock)))
        fast = mx.fast
        stock_attention = fast.scaled_dot_product_attention
        fast.scaled_dot_product_attention = _patched(stock_attention, attention)
        delta = getattr(fast, "gated_delta_update", None)
        if delta is not None:
            fast.gated_delta_update = _patched(delta, calls(delta))
        _installed = True
