"""Functions element by element: samebits' activations, and PyTorch's own kernels on whole vectors."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from ._modes import Mode
from ._ops import WRONG, Function, Tensor, lend, overrides, takes, tensors_of, threads

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
    "elu",
    "elu_backward",
    "exp2",
    "gelu_backward",
    "mish",
    "mish_backward",
    "pow.Tensor_Scalar",
    "rsqrt",
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
    if not takes(first):
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
        if t.shape != shape or not takes(t):
            return NotImplemented
        ready = ready and t.is_contiguous()
    if ready:
        return stock(*args, **kwargs)
    whole = {id(t): _whole_vectors(t, length) for t in tensors}
    out = stock(
        *[whole.get(id(a), a) for a in args], **{key: whole.get(id(value), value) for key, value in kwargs.items()}
    )
    return out[:numel].view(shape)
