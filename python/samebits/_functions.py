"""The functions of the package. Orders of arithmetic: spec/ops in the sources."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from . import _arrays, _core

_lock = threading.Lock()
_contexts: dict[int, _core.Context] = {}
_threads = 0


def _context(threads: int | None = None) -> _core.Context:
    """The context of a number of threads; contexts may be shared by any number of callers."""
    number = _threads if threads is None else threads
    context = _contexts.get(number)
    if context is None:
        with _lock:
            context = _contexts.setdefault(number, _core.Context(threads=number))
    return context


def set_num_threads(threads: int) -> None:
    """Sets how many threads later calls may use; 0: one per CPU. Never changes a bit.

    Raises ValueError if the number is negative or above 1024."""
    global _threads
    _context(threads)
    _threads = threads


def get_num_threads() -> int:
    """How many threads a call may use."""
    return _context().threads


def formats() -> dict[str, tuple[int, int]]:
    """The weight formats: weights a block, and bytes a block."""
    return _core.formats()


_FLOATS = ("float32", "float16", "bfloat16")
# Products of these have operands, results, c and bias of one dtype.
_WIDE = ("float64", "complex64")


def _packable(array: Any) -> Any:
    """The memory of an array that is packed, so that no gradient is expected of it."""
    return _arrays.borrow(_arrays.constant(array))


class Weights:
    """Weights packed once for many products. Packing never changes a bit.

    w: (N, K) for a float format; for a GGUF format uint8 (N, bytes of a row). ``format`` defaults to w's own dtype.
    MLX's formats have constructors of their own. The arrays are not needed afterwards, and no gradient flows to them.
    Raises ValueError, TypeError, BufferError."""

    __slots__ = ("_core",)

    def __init__(self, w: Any, format: str | None = None) -> None:
        names = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
        w = _arrays.as_array(_arrays.constant(w))
        if format is None:
            dtype = _arrays.dtype_name(w)
            if dtype in _WIDE:
                raise TypeError(f"w is {dtype}, which has no packed form: call linear with w itself")
            if dtype not in names:
                raise TypeError(f"w is {dtype}; name its format, one of {', '.join(formats())}")
            format = names[dtype]
        self._core = _core.Weights(_context(), _arrays.lend(w), format)

    @classmethod
    def from_affine(cls, w: Any, scales: Any, biases: Any, *, bits: int, group_size: int) -> Weights:
        """Weights of what mlx.core.quantize gives in mode "affine".

        w: uint32 (N, K * bits / 32); scales, biases: (N, K / group_size), float32, float16 or bfloat16; bits: 2, 3, 4,
        5, 6 or 8; group_size: 32, 64 or 128. Raises as Weights."""
        return cls._of(
            _core.weights_affine(_context(), _packable(w), _packable(scales), _packable(biases), bits, group_size)
        )

    @classmethod
    def from_scaled(cls, w: Any, scales: Any, format: str) -> Weights:
        """Weights of what mlx.core.quantize gives in a mode of small floats.

        format: "mlx_mxfp4", "mlx_mxfp8" or "mlx_nvfp4"; w: uint32 (N, K * bits / 32), or its bytes; scales: uint8
        (N, K / 32), of mlx_nvfp4 (N, K / 16). Raises as Weights."""
        return cls._of(_core.weights_scaled(_context(), _packable(w), _packable(scales), format))

    @classmethod
    def _of(cls, core: _core.Weights) -> Weights:
        weights = cls.__new__(cls)
        weights._core = core
        return weights

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K): outputs and inputs."""
        return self._core.shape

    @property
    def format(self) -> str:
        return self._core.format

    def __repr__(self) -> str:
        return f"samebits.Weights(shape={self.shape}, format={self.format!r})"


def _float_name(array: Any) -> str:
    dtype = _arrays.dtype_name(array)
    if dtype not in _FLOATS:
        raise TypeError(f"an array of {dtype} is not taken; want float32, float16 or bfloat16")
    return dtype


def _common_dtype(a: Any, b: Any) -> str:
    """The dtype of a product: the operands', or float32 where they differ."""
    first, second = _arrays.dtype_name(a), _arrays.dtype_name(b)
    if first == second and first in _WIDE:
        return first
    if first in _WIDE and second in (*_FLOATS, *_WIDE) or second in _WIDE and first in _FLOATS:
        raise TypeError(f"{first} and {second} have no product: want operands of one dtype")
    first, second = _float_name(a), _float_name(b)
    return first if first == second else "float32"


def _output(like: Any, shape: tuple[int, ...], dtype: str, out: Any) -> tuple[Any, Any]:
    """The array that the result goes into, and its memory."""
    if out is not None:
        return out, _arrays.borrow_output(out)
    out = _arrays.empty(like, shape, dtype)
    return out, _arrays.lend(out)


def _epilogue(c: Any, bias: Any, alpha: float, beta: float, activation: str) -> dict[str, Any]:
    return {
        "c": _arrays.borrow(c),
        "bias": _arrays.borrow(bias),
        "alpha": alpha,
        "beta": beta,
        "activation": activation,
    }


def matmul(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    bias: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    activation: str = "none",
    out: Any = None,
) -> Any:
    """activation(alpha * (a @ b) + beta * c + bias), rounded once.

    a (..., M, K), b (..., K, N); batch dimensions broadcast; any strides. c broadcasts to the result, bias is (N,).
    dtypes float32, float16, bfloat16; float32 results from operands of different dtypes. Or all of them float64
    (activation none or relu) or complex64 (none). activation: none, relu, silu, gelu, gelu_tanh, gelu_quick, sigmoid,
    tanh, exp. Raises ValueError, TypeError, BufferError; out is then untouched."""
    a, b = _arrays.as_array(a), _arrays.as_array(b)
    dtype = _common_dtype(a, b)
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise ValueError(f"a is {tuple(a.shape)} and b {tuple(b.shape)}; both want two dimensions or more")
    batch = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    result, memory = _output(a, (*batch, a.shape[-2], b.shape[-1]), dtype, out)
    _core.matmul(
        _context(),
        _arrays.lend(a),
        _arrays.lend(b),
        memory,
        **_epilogue(c, bias, alpha, beta, activation),
    )
    return _arrays.finish(a, result)


def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    order: str = "portable-1",
    activation: str = "none",
    out: Any = None,
) -> Any:
    """activation(x @ w^T + bias), rounded once.

    x (..., K); w (N, K), or Weights. With quantised weights the result has x's dtype; order "int8-1" rounds x to int8
    in blocks of 32 and is faster. Order "amx-1", for bfloat16 x and Weights, is what AMX's matrix unit computes.
    Raises as matmul."""
    x = _arrays.as_array(x)
    if isinstance(w, Weights):
        result, memory = _output(x, (*x.shape[:-1], w.shape[0]), _float_name(x), out)
        _core.linear_prepared(
            _context(),
            _arrays.lend(x),
            w._core,
            memory,
            order,
            **_epilogue(None, bias, 1.0, 0.0, activation),
        )
        return _arrays.finish(x, result)
    if order != "portable-1":
        raise ValueError(f"order '{order}' is for packed weights: prepare them with samebits.Weights")
    w = _arrays.as_array(w)
    dtype = _common_dtype(x, w)
    result, memory = _output(x, (*x.shape[:-1], w.shape[0]), dtype, out)
    _core.linear(
        _context(),
        _arrays.lend(x),
        _arrays.lend(w),
        memory,
        **_epilogue(None, bias, 1.0, 0.0, activation),
    )
    return _arrays.finish(x, result)


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float | None = None,
    mask: Any = None,
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
    slopes: Any = None,
    sinks: Any = None,
    key_index: Any = None,
    key_length: Any = None,
    k_format: str = "q8_0",
    v_format: str = "q8_0",
    out: Any = None,
) -> Any:
    """softmax(mask(scale * q k^T)) v, each sum over keys exact.

    q (B, H, Lq, D), k (B, Hkv, Lk, D), v (B, Hkv, Lk, Dv), H a multiple of Hkv. scale defaults to D^-0.5. mask: bool
    (True keeps) or added, broadcasting to (B, H, Lq, Lk). causal aligns to the lower right; window keeps the last
    positions. key_index (B, L) int32 and key_length (B,) int32 list the rows of k and v of each sequence. A hidden key
    is never read. A cache of blocks is a uint8 k or v, its last dimension the bytes of a row; k_format and v_format say
    which: q4_0, q4_1, q5_0, q5_1, q8_0 or iq4_nl. Raises as matmul."""
    q, k, v = _arrays.as_array(q), _arrays.as_array(k), _arrays.as_array(v)
    width = v.shape[-1]
    if _arrays.dtype_name(v) == "uint8" and v_format in formats():
        block, size = formats()[v_format]
        width = width // size * block
    result, memory = _output(q, (*q.shape[:-1], width), _float_name(q), out)
    _core.attention(
        _context(),
        _arrays.lend(q),
        _arrays.lend(k),
        _arrays.lend(v),
        memory,
        scale=q.shape[-1] ** -0.5 if scale is None else scale,
        softcap=softcap,
        causal=causal,
        window=window,
        mask=_arrays.borrow(mask),
        slopes=_arrays.borrow(slopes),
        sinks=_arrays.borrow(sinks),
        key_index=_arrays.borrow(key_index),
        key_length=_arrays.borrow(key_length),
        k_format=k_format,
        v_format=v_format,
    )
    return _arrays.finish(q, result)


def softmax(x: Any, *, scale: float = 1.0, mask: Any = None, out: Any = None) -> Any:
    """softmax(scale * x + mask) along the last dimension. Raises as matmul."""
    x = _arrays.as_array(x)
    result, memory = _output(x, tuple(x.shape), _float_name(x), out)
    _core.softmax(_context(), _arrays.lend(x), memory, scale, _arrays.borrow(mask))
    return _arrays.finish(x, result)


def log_softmax(x: Any, *, out: Any = None) -> Any:
    """log(softmax(x)) along the last dimension. Raises as matmul."""
    x = _arrays.as_array(x)
    result, memory = _output(x, tuple(x.shape), _float_name(x), out)
    _core.log_softmax(_context(), _arrays.lend(x), memory)
    return _arrays.finish(x, result)


def rms_norm(x: Any, weight: Any = None, *, eps: float = 1e-6, out: Any = None) -> Any:
    """x / sqrt(mean(x^2) + eps) * weight along the last dimension. Raises as matmul."""
    x = _arrays.as_array(x)
    result, memory = _output(x, tuple(x.shape), _float_name(x), out)
    _core.rms_norm(_context(), _arrays.lend(x), _arrays.borrow(weight), eps, memory)
    return _arrays.finish(x, result)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5, out: Any = None) -> Any:
    """(x - mean) / sqrt(var + eps) * weight + bias along the last dimension. Raises as matmul."""
    x = _arrays.as_array(x)
    result, memory = _output(x, tuple(x.shape), _float_name(x), out)
    _core.layer_norm(_context(), _arrays.lend(x), _arrays.borrow(weight), _arrays.borrow(bias), eps, memory)
    return _arrays.finish(x, result)
