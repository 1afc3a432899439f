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
from . import _attention, _products, _rows
from ._dispatcher import Key, below, beneath, device_of, full, has, has_any, kernel, overload, variants
from ._elements import ACTIVATIONS, ELEMENTWISE, elementwise
from ._modes import KEY, Mode, current
from ._ops import ABOVE, WRONG, Function, Tensor, functions
from ._packing import MIN_ELEMENTS, entries, pack
from ._refusals import (
    LAYOUTS,
    MOVING,
    OF_LAYOUTS,
    inputs_of,
    packed_operators,
    refuse_operators,
    refuse_packed,
    refused,
)

_lock = threading.Lock()
_libraries: dict[str, Any] = {}

#: The library with PyTorch's stable C interface.
SHIMS = "libtorch_python.so"
#: The dtypes of the C functions, in their sequence.
C_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64)
#: How much is done in C, by what _core.torch_configure returns.
LEVELS = ("Python", "C, new tensors in Python", "C")
_level: int | None = None


def dispatch() -> str:
    """How calls in a mode reach the library."""
    return LEVELS[_level or 0]


def _configure() -> int:
    """Gives the C functions what they call."""
    return _core.torch_configure(
        getattr(torch.Tensor, "__dlpack_c_exchange_api__", None),
        SHIMS,
        tensor=torch.Tensor,
        parameter=torch.nn.Parameter,
        empty_strided=torch.empty_strided,
        as_strided=torch.as_strided,
        get_num_threads=torch.get_num_threads,
        is_grad_enabled=torch.is_grad_enabled,
        is_inference=torch.is_inference_mode_enabled,
        is_conj=torch.is_conj,
        contexts=_contexts,
        context=_context,
        entries=entries,
        pack=pack,
        # With the device, so that a default one, which torch.set_default_device sets, is not taken.
        options=tuple({"dtype": dtype, "device": torch.device("cpu")} for dtype in C_DTYPES),
        packed_from=MIN_ELEMENTS,
    )


#: What moves on CPUs alone, where vector bodies and scalar tails differ.
STILL_ELSEWHERE = frozenset((*ELEMENTWISE, *ACTIVATIONS))
#: Reductions that are computed in the dtype of the tensor that they go into.
TO_OUTS_DTYPE = ("sum.dim_IntList", "mean.dim", "linalg_vector_norm")
#: Where calls of all threads of the process pass.
PROCESS_KEYS = ("CPU", "QuantizedCPU", "CUDA")

#: What fills `functions`, and is named for that alone.
FILLED_BY = (_attention, _products, _rows)


def _attempt(active: Mode, name: str, stock: Function, keys: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator in a mode: a new tensor, or NotImplemented or WRONG."""
    device = device_of(keys)
    if device != Key.CPU:
        # On the meta device there are no bits.
        return WRONG if device == Key.Meta or name in STILL_ELSEWHERE else NotImplemented
    function = functions.get(name)
    if function is not None:
        return function(active, *args, **kwargs)
    return elementwise(name, partial(stock, keys), args, kwargs) if name in ELEMENTWISE else NotImplemented


def _wrap(name: str, stock: Function) -> Function:
    """The operator itself: returns a new tensor."""

    def run(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        active = current()
        if active is None:
            return stock(keys, *args, **kwargs)
        result = _attempt(active, name, stock, keys, args, kwargs)
        if result is NotImplemented or result is WRONG or result is ABOVE:
            refused(active, name, result, args, kwargs)
            return stock(keys, *args, **kwargs)
        active.invariant[name] += 1
        return result

    return run


def _wrap_into(name: str, stock: Function, plain: Function, in_place: bool) -> Function:
    """Its variants that write into a tensor: `out`, or the first argument."""

    def run(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        active = current()
        if active is None:
            return stock(keys, *args, **kwargs)
        inputs = inputs_of(kwargs)
        out: Tensor = args[0] if in_place else kwargs["out" if "out" in kwargs else "grad_input"]
        if name in TO_OUTS_DTYPE and not in_place and inputs.get("dtype") is None:
            inputs["dtype"] = out.dtype
        result = _attempt(active, name, plain, keys, args, inputs)
        if result is NotImplemented or result is WRONG or result is ABOVE:
            refused(active, name, result, args, inputs)
            return stock(keys, *args, **kwargs)
        if in_place and (result.dtype != out.dtype or out.shape != result.shape):
            return stock(keys, *args, **kwargs)  # which says what is wrong
        if result.dtype != out.dtype and name not in STILL_ELSEWHERE:
            # Stock's says that it is wrong, or rounds in another place.
            stock(keys, *args, **{**kwargs, next(k for k in kwargs if kwargs[k] is out): torch.empty_like(out)})
            refused(active, name, NotImplemented, [*args, out], inputs)
            return stock(keys, *args, **kwargs)
        active.invariant[name] += 1
        if out.shape != result.shape:
            out.resize_(result.shape)
        return out.copy_(result)

    return run


def _operators() -> list[str]:
    """Those that autograd does not look through."""
    return [name for name in (*functions, *ELEMENTWISE, *MOVING) if not has(name, "CompositeImplicitAutograd")]


def _install_operator(library: Any, name: str, key: str) -> list[str]:
    """Registers an operator and its variants; returns their names."""
    stock_of = beneath if key == KEY else partial(kernel, key=key)
    names, plain = [name], stock_of(name)
    for variant, in_place in variants(name):
        if has(variant, "CPU"):
            library.impl(variant, _wrap_into(name, stock_of(variant), plain, in_place), key, with_keyset=True)
            names.append(variant)
    run = _wrap(name, plain)
    if _level and key != "CUDA":
        run = _core.TorchKernel(name, kernel(name, "CPU"), run, name in ELEMENTWISE)
    library.impl(name, run, key, with_keyset=True)
    return names


def _passing(operator: str) -> Function:
    redispatch = overload(operator).redispatch
    return lambda keys, *args, **kwargs: redispatch(keys & below, *args, **kwargs)


def _pass_others(library: Any, ours: set[str]) -> None:
    """All operators but ours, in full, take no notice of the key."""
    fallback: Any = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
    fallback.fallback(torch.library.fallthrough_kernel, KEY)
    libraries = {"_": fallback, "aten": library}
    for operator in torch._C._dispatch_get_all_op_names():
        namespace, _, name = operator.partition("::")
        if operator in ours or has(operator, "CompositeImplicitAutograd"):
            continue
        if namespace not in libraries:
            libraries[namespace] = torch.library.Library(namespace, "IMPL")  # type: ignore[no-untyped-call]
        default = any(has(operator, f"CompositeExplicitAutograd{kind}") for kind in ("", "NonFunctional"))
        if not has(operator, "BackendSelect"):
            # Without this they would run the operator's default kernel instead of the device's.
            if default:
                libraries[namespace].impl(name, torch.library.fallthrough_kernel, KEY)
        elif not default and any("Tensor" in str(a.type) for a in overload(operator)._schema.arguments):
            # PyTorch collects the keys of such a call anew, and minds no fallthrough.
            libraries[namespace].impl(name, _passing(operator), KEY, with_keyset=True)
    _libraries["others"] = libraries


def install(process: bool = False) -> None:
    """Registers the functions, once: under a thread's own key, which a mode turns on, so that calls outside of modes do
    not meet them; for all threads of the process also in front of PyTorch's kernels, where they pass calls on when they
    are not wanted."""
    global _level
    with _lock:
        if _level is None:
            _level = _configure()
        # First, since its functions call PyTorch's own kernels, which the others are to cover.
        for key in (KEY, *PROCESS_KEYS) if process else (KEY,):
            if key != "CUDA" or torch.cuda.is_available():
                _install(key)


def _install(key: str) -> None:
    if key in _libraries:
        return
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    ours, operators, packed = set(), _operators(), packed_operators()
    if key == "QuantizedCPU":
        refuse_operators(library, operators, key)
    else:
        for name in operators:
            if key == KEY or has_any(name, key):  # some are of CPUs alone
                ours.update(_install_operator(library, name, key))
    _libraries[key] = library, refuse_packed(packed, key)
    if key != KEY:
        return
    _pass_others(library, {*map(full, ours), *packed})
    for layout in LAYOUTS:
        moving = [name for name in operators if layout == "MkldnnCPU" or name not in STILL_ELSEWHERE]
        of_layout: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
        refuse_operators(of_layout, [*moving, *OF_LAYOUTS], layout)
        _libraries[layout] = of_layout, refuse_packed(packed, layout)
