"""PyTorch's CPU kernels, each with ours in front of it while a mode is active.

They are registered below autograd, so that gradients, whose formulas are products again, take the same way; what lowers
to them (linear, einsum, matmul, bilinear, nn.MultiheadAttention) needs nothing of its own."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import torch

from .. import _core
from .._functions import _context, _contexts
from ._modes import Mode, current
from ._ops import ELEMENTWISE, WRONG, Function, Tensor, elementwise, functions, tensors_of
from ._packing import MIN_ELEMENTS, entries, pack

_lock = threading.Lock()
_library: Any = None

#: The library with PyTorch's stable C interface.
SHIMS = "libtorch_python.so"
#: The dtypes of the C functions, in their sequence.
C_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
#: How much is done in C, by what _core.torch_configure returns.
LEVELS = ("Python", "C, new tensors in Python", "C")
_level = 0


def dispatch() -> str:
    """How calls in a mode reach the library."""
    return LEVELS[_level]


def _configure() -> int:
    """Gives the C functions what they call."""
    return _core.torch_configure(
        getattr(torch.Tensor, "__dlpack_c_exchange_api__", None),
        SHIMS,
        tensor=torch.Tensor,
        empty_strided=torch.empty_strided,
        as_strided=torch.as_strided,
        get_num_threads=torch.get_num_threads,
        is_grad_enabled=torch.is_grad_enabled,
        is_inference=torch.is_inference_mode_enabled,
        contexts=_contexts,
        context=_context,
        entries=entries,
        pack=pack,
        # With the device, so that a default one, which torch.set_default_device sets, is not taken.
        options=tuple({"dtype": dtype, "device": torch.device("cpu")} for dtype in C_DTYPES),
        packed_from=MIN_ELEMENTS,
    )

#: What may move and has no kernel here.
MOVING = (
    "convolution",
    "native_batch_norm",
    "prod.dim_int",
    "_cdist_forward",
    "_addmm_activation",
    "_embedding_bag",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
)


def _kernel(name: str) -> Function:
    """What a mode runs: a function of it, stock's kernel, and the operator's arguments."""
    if name in functions:
        function = functions[name]
        return lambda active, stock, *args, **kwargs: function(active, *args, **kwargs)
    if name in ELEMENTWISE:
        return lambda active, stock, *args, **kwargs: elementwise(name, stock, args, kwargs)
    return lambda active, stock, *args, **kwargs: NotImplemented


def _refused(active: Mode, name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Counts a call that stock is to run, or raises, unless it is stock that is to say what is wrong with it."""
    if result is WRONG:
        return
    tensors = tensors_of(args, kwargs)
    # Sums of integers have no order.
    if any(t.is_floating_point() or t.is_complex() for t in tensors):
        active.refuse(name, tensors)


def _front(name: str, stock: Function, run: Function) -> Function:
    """What the dispatcher calls."""
    return _core.TorchKernel(name, stock, run, name in ELEMENTWISE) if _level else run


def _wrap(name: str, kernel: Any) -> Function:
    """The operator itself: returns a new tensor."""
    ours, plain, boxed = _kernel(name), functions.get(name), kernel.call_boxed

    def run(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        active = current()
        if active is None:
            return boxed(keys, *args, **kwargs)
        if plain is not None:
            result = plain(active, *args, **kwargs)
        else:
            result = ours(active, partial(boxed, keys), *args, **kwargs)
        if result is NotImplemented or result is WRONG:
            _refused(active, name, result, args, kwargs)
            return boxed(keys, *args, **kwargs)
        active.invariant[name] += 1
        return result

    return _front(name, boxed, run)


def _wrap_into(name: str, kernel: Any, plain: Any, in_place: bool) -> Function:
    """Its variants that write into a tensor: `out`, or the first argument."""
    ours = _kernel(name)

    def run(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        active = current()
        if active is None:
            return kernel.call_boxed(keys, *args, **kwargs)
        inputs = {key: value for key, value in kwargs.items() if key not in ("out", "grad_input")}
        out: Tensor = args[0] if in_place else kwargs["out" if "out" in kwargs else "grad_input"]
        result = ours(active, partial(plain.call_boxed, keys), *args, **inputs)
        if result is NotImplemented or result is WRONG:
            _refused(active, name, result, args, inputs)
            return kernel.call_boxed(keys, *args, **kwargs)
        if result.dtype != out.dtype:
            return kernel.call_boxed(keys, *args, **kwargs)
        active.invariant[name] += 1
        if out.shape != result.shape:
            if in_place:
                return kernel.call_boxed(keys, *args, **kwargs)
            out.resize_(result.shape)
        return out.copy_(result)

    return _front(f"{name} into a tensor", kernel.call_boxed, run)


def _variants(name: str) -> list[tuple[str, bool]]:
    """The overloads of an operator that write into a tensor, and whether that is the first argument."""
    base, _, overload = name.partition(".")
    found = []
    packet = getattr(torch.ops.aten, base)
    takes = [(a.name, str(a.type)) for a in getattr(packet, overload or "default")._schema.arguments]
    for other in packet.overloads():
        arguments = getattr(packet, other)._schema.arguments
        outs = [a.name for a in arguments if a.is_out]
        if outs in (["out"], ["grad_input"]) and takes == [(a.name, str(a.type)) for a in arguments if not a.is_out]:
            found.append((f"{base}.{other}", False))
    in_place = getattr(torch.ops.aten, f"{base}_", None)
    if in_place is not None and (overload or "default") in in_place.overloads():
        found.append((f"{base}_" + (f".{overload}" if overload else ""), True))
    return found


def _has_kernel(name: str) -> bool:
    """Whether the CPU runs the operator itself, and autograd does not look through it."""
    operator = f"aten::{name}"
    return not torch._C._dispatch_has_kernel_for_dispatch_key(operator, "CompositeImplicitAutograd")


def _refusal(name: str, kernel: Any) -> Function:
    """The operator on a device that samebits has no kernels for."""

    def run(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        active = current()
        if active is not None:
            active.refuse(name, tensors_of(args, kwargs))
        return kernel.call_boxed(keys, *args, **kwargs)

    return run


def _install_cpu(library: Any, name: str) -> None:
    kernel = torch.library.get_kernel(f"aten::{name}", "CPU")
    for variant, in_place in _variants(name):
        if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{variant}", "CPU"):
            into = torch.library.get_kernel(f"aten::{variant}", "CPU")
            library.impl(variant, _wrap_into(name, into, kernel, in_place), "CPU", with_keyset=True)
    library.impl(name, _wrap(name, kernel), "CPU", with_keyset=True)


def install() -> None:
    """Puts the functions in front of PyTorch's kernels, once a process. Without a mode they only pass on."""
    global _library, _level
    with _lock:
        if _library is not None:
            return
        _level = _configure()
        library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
        for name in (*functions, *ELEMENTWISE, *MOVING):
            if not _has_kernel(name):
                continue
            _install_cpu(library, name)
            # Element by element nothing moves there.
            if torch.cuda.is_available() and name not in ELEMENTWISE:
                kernel = torch.library.get_kernel(f"aten::{name}", "CUDA")
                library.impl(name, _refusal(name, kernel), "CUDA", with_keyset=True)
        _library = library
