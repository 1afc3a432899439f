"""PyTorch's CPU kernels, each with ours in front of it while a mode is active.

They are registered below autograd, so that gradients, whose formulas are products again, take the same way; what lowers
to them (linear, einsum, matmul, bilinear, nn.MultiheadAttention) needs nothing of its own."""

from __future__ import annotations

import threading
from functools import cache, partial
from typing import Any

import torch

from .. import _core
from .._functions import _context, _contexts
from . import _attention, _products, _rows
from ._compiled import watch
from ._dispatcher import (
    Key,
    below,
    beneath,
    composite,
    device_of,
    devices,
    full,
    has,
    has_any,
    kernel,
    overload,
    register,
    schema,
    short,
    taking_numbers,
    variants,
)
from ._elements import ACTIVATIONS, COMPLEX, ELEMENTWISE, complex_elementwise, elementwise
from ._modes import KEY, Mode, current
from ._ops import ABOVE, WRONG, Function, Tensor, functions
from ._packing import MIN_ELEMENTS, entries, pack
from ._refusals import (
    LAYOUTS,
    OF_LAYOUTS,
    inputs_of,
    library_of,
    moving_with,
    of_complex,
    of_elsewhere,
    refusal,
    refuse_in_all_threads,
    refuse_operators,
    refuse_packed,
    refuse_unknown,
    refused,
)
from ._still import stands_still

_lock = threading.Lock()
_libraries: dict[str, Any] = {}
#: The operators that Python had made when they were last looked at.
_made: set[str] = set()

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


#: What moves on CPUs alone, where vector bodies and scalar tails differ, or only asks.
STILL_ELSEWHERE = frozenset((*ELEMENTWISE, *ACTIVATIONS, "_fused_sdp_choice"))
#: Reductions that are computed in the dtype of the tensor that they go into.
TO_OUTS_DTYPE = ("sum.dim_IntList", "mean.dim", "linalg_vector_norm")
#: Operators that move for complex numbers alone, and that models call too often for a function in Python.
REAL_IN_C = ("mul.Tensor", "mul_.Tensor", "div.Tensor", "div_.Tensor", "neg")
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
            refused(active, name, NotImplemented, (*args, out), inputs)
            return stock(keys, *args, **kwargs)
        active.invariant[name] += 1
        if out.shape != result.shape:
            out.resize_(result.shape)
        return out.copy_(result)

    return run


def _operators() -> list[str]:
    """Those that autograd does not look through."""
    return [name for name in (*functions, *ELEMENTWISE) if not composite(name, ("CPU",))]


def _install_operator(library: Any, name: str, key: str) -> list[str]:
    """Registers an operator and its variants; returns their names."""

    def stock_of(operator: str) -> Function:
        return beneath(operator) if key == KEY else taking_numbers(operator, kernel(operator, key))

    names, plain = [name], stock_of(name)
    for variant, in_place in variants(name):
        if has(variant, "CPU"):
            register(library, variant, _wrap_into(name, stock_of(variant), plain, in_place), key)
            names.append(variant)
    run = _wrap(name, plain)
    if _level and key != "CUDA":
        run = _core.TorchKernel(name, taking_numbers(name, kernel(name, "CPU")), run, name in ELEMENTWISE)
    register(library, name, run, key)
    return names


def _pass_others(libraries: dict[str, Any], ours: set[str]) -> None:
    """Operators that stand still take no notice of the key; others, in full names, pass our refusal."""
    fallback: Any = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
    # For operators that are known to none, such as those that are made later.
    fallback.fallback(refuse_unknown, KEY, with_keyset=True)
    libraries["_"] = fallback
    _made.update(torch.library._defs)
    for operator in torch._C._dispatch_get_all_op_names():
        if operator not in ours and not composite(operator, devices()):
            _pass_other(libraries, operator)


def _pass_new() -> None:
    """Operators that Python made since: the fallback is for those alone that have no default kernel."""
    new = torch.library._defs - _made
    if not new:
        return
    _made.update(new)
    names = {"".join(name.split()) for name in new}  # some are as they stand in a schema of several lines
    for operator in names.intersection(torch._C._dispatch_get_all_op_names()):
        if not composite(operator, devices()):
            _pass_other(_libraries[KEY], operator)


def _pass_other(libraries: dict[str, Any], operator: str) -> None:
    namespace, _, name = operator.partition("::")
    library = library_of(libraries, namespace)
    default = any(has(operator, f"CompositeExplicitAutograd{kind}") for kind in ("", "NonFunctional"))
    if composite(operator, ("CPU",)):  # another device has a kernel for the whole of it
        register(library, name, refusal(short(operator), beneath(operator), of_elsewhere), KEY)
    elif not stands_still(operator):
        # Others get there by the fallback; these would run the operator's default kernel instead.
        if default:
            register(library, name, refusal(short(operator), beneath(operator)), KEY)
    elif moving_with(operator) is not None:
        run = _in_part(operator, beneath(operator))
        if _level and name in REAL_IN_C:
            run = _core.TorchKernel(name, kernel(name, "CPU"), run, False)
        register(library, name, run, KEY)
    elif not has(operator, "BackendSelect"):
        library.impl(name, torch.library.fallthrough_kernel, KEY)
    # PyTorch collects the keys of such a call anew, and minds no fallthrough.
    elif not default and any("Tensor" in str(a.type) for a in schema(operator).arguments):
        register(library, name, _passing(operator), KEY)


def _passing(operator: str) -> Function:
    redispatch = overload(operator).redispatch
    return lambda keys, *args, **kwargs: redispatch(keys & below, *args, **kwargs)


def _in_part(operator: str, stock: Function) -> Function:
    """An operator that moves for some arguments alone, or for all."""
    name = short(operator)
    run = refusal(name, stock, moving_with(operator))
    base, in_place = name.replace("_.", ".").removesuffix("_"), "_." in name or name.endswith("_")
    return _with_complex(base, run, in_place) if base in COMPLEX else run


@cache
def _stock_complex(name: str) -> Function:
    """PyTorch's kernel, as it was before we came."""
    return kernel(name, "CPU")


def _with_complex(name: str, refuse: Function, in_place: bool) -> Function:
    stock = _stock_complex(name)

    def run(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        active = current()
        if active is None or kwargs or device_of(keys) != Key.CPU or not of_complex(*args):
            return refuse(keys, *args, **kwargs)
        result = complex_elementwise(partial(stock, keys), args)
        if (
            result is NotImplemented
            or result is WRONG
            or (in_place and (result.dtype, result.shape) != (args[0].dtype, args[0].shape))
        ):
            return refuse(keys, *args)
        active.invariant[name] += 1
        return args[0].copy_(result) if in_place else result

    return run


def install(process: bool = False) -> None:
    """Registers the functions, once: under a thread's own key, which a mode turns on, so that calls outside of modes do
    not meet them; for all threads of the process also in front of PyTorch's kernels, where they pass calls on when they
    are not wanted."""
    global _level
    with _lock:
        if _level is None:
            _level = _configure()
            watch()
        # First, since its functions call PyTorch's own kernels, which the others are to cover.
        for key in (KEY, *PROCESS_KEYS) if process else (KEY,):
            if key != "CUDA" or key in devices():
                _install(key)
        _pass_new()


def _install(key: str) -> None:
    if key in _libraries:
        return
    libraries: dict[str, Any] = {}
    library, operators = library_of(libraries, "aten"), _operators()
    ours: set[str] = set()
    _libraries[key] = libraries
    if key == "QuantizedCPU":
        refuse_operators(library, operators, key)
        refuse_packed(libraries, key)
        return
    for name in operators:
        if key == KEY or has_any(name, key):  # some are of CPUs alone
            ours.update(map(full, _install_operator(library, name, key)))
    if key != KEY:
        refuse_in_all_threads(libraries, ours, key, _in_part, REAL_IN_C if _level and key == "CPU" else ())
        return
    _pass_others(libraries, ours)
    for layout in LAYOUTS:
        moving = [name for name in operators if layout == "MkldnnCPU" or name not in STILL_ELSEWHERE]
        of_layout: dict[str, Any] = {}
        refuse_operators(library_of(of_layout, "aten"), [*moving, *OF_LAYOUTS], layout)
        refuse_packed(of_layout, layout)
        _libraries[layout] = of_layout
