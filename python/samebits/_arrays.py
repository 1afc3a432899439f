"""Arrays of several libraries as the extension module takes them, without copies, and new arrays of the same kind."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

Shape = tuple[int, ...]


@functools.cache
def _library(kind: Any) -> str:
    return str(kind.__module__).partition(".")[0]


def library(array: Any) -> str:
    """The package that an array belongs to, such as "numpy" or "torch"."""
    kind: Any = type(array)
    return _library(kind)


def _refuse(array: Any) -> TypeError:
    return TypeError(
        f"{type(array).__name__} is no array: want NumPy, PyTorch, or anything with __dlpack__ or the buffer protocol"
    )


def layout_name(tensor: Any) -> str:
    """A PyTorch tensor's, such as "strided", "sparse_csr" or "nested"."""
    return "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")


def _check_torch(tensor: Any) -> None:
    """Raises for tensors whose memory is not what they stand for, or that a gradient would be expected of."""
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided or tensor.is_nested:
        layout = layout_name(tensor)
        raise TypeError(f"a tensor of layout {layout} is not taken; want a dense one: to_dense(), unbind()")
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    if tensor.device.type != "cpu" or (fake is not None and isinstance(tensor, fake.FakeTensor)):
        kind = "without memory" if tensor.device.type == "cpu" else f"on {tensor.device}"
        raise BufferError(f"a tensor {kind} is not taken; want CPU memory")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(
            "a tensor that requires grad is not taken, since no gradient flows through the functions of samebits: pass "
            "tensor.detach(), call under torch.no_grad(), or use PyTorch's own in samebits.torch.mode()"
        )


def as_array(array: Any) -> Any:
    """The array itself, or a NumPy view of an object that has only the buffer protocol.

    Raises TypeError; of PyTorch's tensors also BufferError and RuntimeError."""
    if library(array) == "torch":
        _check_torch(array)
        return array
    if hasattr(array, "dtype") and hasattr(array, "shape"):
        return array
    try:
        return np.asarray(memoryview(array))
    except TypeError:
        raise _refuse(array) from None


def constant(array: Any) -> Any:
    """The array without a claim to gradients."""
    return array.detach() if library(array) == "torch" and hasattr(array, "detach") else array


@functools.cache
def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def dtype_name(array: Any) -> str:
    """The dtype without the library's prefix, such as "float32"."""
    return _name(array.dtype)


def _is_marked(tensor: Any) -> bool:
    """Whether a tensor stands for the conjugate or the negative of its memory."""
    return bool(tensor.is_conj() or tensor.is_neg())


def lend(array: Any) -> Any:
    """What the extension module reads the memory of an array through that as_array() or empty() gave."""
    if library(array) == "torch":
        if array.requires_grad:
            array = array.detach()
        if _is_marked(array):
            array = array.resolve_conj().resolve_neg()
        return sys.modules["torch"]._C._to_dlpack(array)
    if isinstance(array, np.ndarray) and dtype_name(array) == "bfloat16":
        return array.view(np.uint16), "bfloat16"  # NumPy's DLPack has no bf16
    return array


def borrow(array: Any) -> Any:
    """The same of an argument as it came, which may be None. Raises as as_array()."""
    if array is None:
        return None
    if library(array) == "torch":
        _check_torch(array)
    return lend(array)


def borrow_output(out: Any) -> Any:
    """The same of an array to write to."""
    if library(out) == "torch":
        _check_torch(out)
        if _is_marked(out):
            raise BufferError(
                "out stands for the conjugate or the negative of its memory; want one that is not so marked"
            )
    return lend(out)


@functools.cache
def _numpy_dtype(dtype: str) -> np.dtype[Any]:
    if dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError("a bfloat16 NumPy array needs the package ml-dtypes") from None
        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(dtype)


def empty(like: Any, shape: Shape, dtype: str) -> Any:
    """A new array of the library that `like` belongs to; a NumPy array for those that have no writable ones."""
    if library(like) == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype))
    return np.empty(shape, _numpy_dtype(dtype))


def finish(like: Any, out: Any) -> Any:
    """The result as an array of the library that `like` belongs to."""
    kind = library(like)
    if kind in ("mlx", "jax", "jaxlib") and isinstance(out, np.ndarray):
        module = sys.modules["mlx.core" if kind == "mlx" else "jax.numpy"]
        return module.array(out)
    return out
