"""Functions element by element: samebits' activations, and PyTorch's own kernels on whole vectors."""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import _core
from ._modes import Mode
from ._ops import FLOATS, WRONG, Function, Tensor, lend, overrides, takes, tensors_of, threads

#: Those that samebits computes.
ACTIVATIONS = ("gelu", "sigmoid", "silu")


def _activation(x: Tensor, name: str) -> Any:
    if not takes(x):
        return NotImplemented
    # The result has x's order of strides.
    order = sorted(range(x.ndim), key=x.stride, reverse=True)
    out = torch.empty_like(x.permute(order), memory_format=torch.contiguous_format)
    out = out.permute([order.index(d) for d in range(x.ndim)])
    flat = x.ndim == 0
    _core.activate(threads(), lend(x[None] if flat else x), lend(out[None] if flat else out), name)
    return out


@overrides("gelu")
def _gelu(mode: Mode, x: Tensor, *, approximate: str = "none") -> Any:
    if approximate not in ("none", "tanh"):
        return WRONG
    return _activation(x, "gelu" if approximate == "none" else "gelu_tanh")


@overrides("silu")
def _silu(mode: Mode, x: Tensor) -> Any:
    return _activation(x, "silu")


@overrides("sigmoid")
def _sigmoid(mode: Mode, x: Tensor) -> Any:
    return _activation(x, "sigmoid")


# The others are PyTorch's own kernels, on whole vectors.
# Their vector bodies and scalar tails differ in the last bit (measured with PyTorch 2.15 on AVX2), so where a row falls
# decides. On a contiguous copy whose length is a multiple of a vector in every thread's share only the bodies run.
ELEMENTWISE = (
    "atan2",
    "atanh",
    "cosh",
    "elu",
    "elu_backward",
    "exp2",
    "gelu_backward",
    "hypot",
    "huber_loss_backward",
    "logaddexp",
    "logaddexp2",
    "logit",
    "mish",
    "mish_backward",
    "pow.Scalar",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "rsqrt",
    "sgn",
    "silu_backward",
    "sinh",
    "softplus",
    "softplus_backward",
    "softshrink",
    "special_i0e",
)
#: Of those: the dtypes, and what also takes integers and other dtypes, which become one floating dtype first.
DTYPES = FLOATS | {torch.float64}
PROMOTING = frozenset(
    ("atan2", "hypot", "logaddexp", "logaddexp2", "pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor")
)
OF_INTEGERS = frozenset(("atanh", "cosh", "exp2", "logit", "rsqrt", "sinh", "special_i0e"))


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


def _promoted(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """With tensors of the dtype that the function is computed in."""
    if name in PROMOTING and len(args) > 1:
        dtype = torch.result_type(args[0], args[1])
    elif name in OF_INTEGERS and not (args[0].is_floating_point() or args[0].is_complex()):
        dtype = torch.get_default_dtype()
    else:
        return args
    # Powers of integers are integers.
    if not dtype.is_floating_point or all(a.dtype is dtype for a in args if isinstance(a, Tensor)):
        return args
    return tuple(a.to(dtype) if isinstance(a, Tensor) else a for a in args)


def elementwise(name: str, stock: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args = _promoted(name, args)
    tensors = tensors_of(args, kwargs)
    for t in tensors:
        if t.dtype is not tensors[0].dtype or t.dtype not in DTYPES or t.layout is not torch.strided:
            return NotImplemented
    return stock(*args, **kwargs) if _exact(name, tensors[0], args) else _by_whole_vectors(stock, args, kwargs)


#: Functions of complex numbers that are treated alike.
COMPLEX = ("mul.Tensor", "div.Tensor", "neg")


def complex_elementwise(stock: Function, args: tuple[Any, ...]) -> Any:
    """One of COMPLEX, of which an argument is complex."""
    dtype = torch.result_type(*args) if len(args) > 1 else args[0].dtype
    if dtype not in (torch.complex64, torch.complex128) or any(
        t.layout is not torch.strided for t in tensors_of(args, {})
    ):
        return NotImplemented
    return _by_whole_vectors(stock, tuple(torch.as_tensor(a).to(dtype).resolve_conj().resolve_neg() for a in args), {})


def _by_whole_vectors(stock: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensors = tensors_of(args, kwargs)
    try:
        shape = torch.broadcast_shapes(*(t.shape for t in tensors))  # type: ignore[no-untyped-call]
    except RuntimeError:
        return WRONG
    full = [t for t in tensors if t.ndim]
    if any(t.shape != shape for t in tensors):
        args = tuple(a.expand(shape) if isinstance(a, Tensor) else a for a in args)
    # The result has the tensors' order of strides if they are of one shape.
    order = list(range(len(shape)))
    if full and all(t.shape == shape for t in full):
        order.sort(key=full[0].stride, reverse=True)
    if order != sorted(order):
        moved = tuple(a.permute(order) if isinstance(a, Tensor) else a for a in args)
        return _by_whole_vectors(stock, moved, kwargs).permute([order.index(d) for d in range(len(shape))])
    tensors = tensors_of(args, kwargs)
    numel = math.prod(shape)
    length = _core.torch_whole_length(numel, torch.get_num_threads())
    if length == numel and all(t.is_contiguous() for t in tensors):
        return stock(*args, **kwargs)
    whole = {id(t): _whole_vectors(t, length) for t in tensors}
    out = stock(
        *[whole.get(id(a), a) for a in args], **{key: whole.get(id(value), value) for key, value in kwargs.items()}
    )
    return out[:numel].view(shape)
