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
from ._elements import ACTIVATIONS, ELEMENTWISE, elementwise
from ._modes import KEY, Mode, current
from ._ops import WRONG, Function, Tensor, functions, tensors_of
from ._packing import MIN_ELEMENTS, entries, pack

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
#: What moves on CPUs alone, where vector bodies and scalar tails differ.
STILL_ELSEWHERE = frozenset((*ELEMENTWISE, *ACTIVATIONS))
#: Layouts whose kernels the dispatcher takes before it looks at a thread's own keys. We have none for them.
LAYOUTS = ("SparseCPU", "SparseCsrCPU", "NestedTensorCPU")

#: What fills `functions`, and is named for that alone.
FILLED_BY = (_attention, _products, _rows)

_Key = torch._C.DispatchKey
_key: Any = torch._C._parse_dispatch_key(KEY)
_below: Any = torch._C._dispatch_keyset_full_after(_key)  # with PythonDispatcher, for redispatching
_devices: Any = _below.remove(_Key.PythonDispatcher)


def _refused(active: Mode, name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Counts a call that stock is to run, or raises, unless it is stock that is to say what is wrong with it."""
    if result is WRONG:
        return
    tensors = tensors_of(args, kwargs)
    # Sums of integers have no order.
    if any(t.is_floating_point() or t.is_complex() or t.is_quantized for t in tensors):
        active.refuse(name, tensors)


def _attempt(active: Mode, name: str, stock: Function, keys: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator in a mode: a new tensor, or NotImplemented or WRONG."""
    device = (keys & _devices).highestPriorityTypeId()
    if device != _Key.CPU:
        # On the meta device there are no bits.
        return WRONG if device == _Key.Meta or name in STILL_ELSEWHERE else NotImplemented
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
        if result is NotImplemented or result is WRONG:
            _refused(active, name, result, args, kwargs)
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
        inputs = {key: value for key, value in kwargs.items() if key not in ("out", "grad_input")}
        out: Tensor = args[0] if in_place else kwargs["out" if "out" in kwargs else "grad_input"]
        result = _attempt(active, name, plain, keys, args, inputs)
        if result is NotImplemented or result is WRONG:
            _refused(active, name, result, args, inputs)
            return stock(keys, *args, **kwargs)
        if result.dtype != out.dtype or (in_place and out.shape != result.shape):
            return stock(keys, *args, **kwargs)  # which says what is wrong
        active.invariant[name] += 1
        if out.shape != result.shape:
            out.resize_(result.shape)
        return out.copy_(result)

    return run


def _refusal(name: str, stock: Function) -> Function:
    """The operator in a layout that samebits has no kernels for."""

    def run(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        active = current()
        if active is not None:
            _refused(active, name, NotImplemented, args, {})
        return stock(keys, *args, **kwargs)

    return run


def _full(name: str) -> str:
    return name if "::" in name else f"aten::{name}"


def _overload(name: str) -> Any:
    namespace, _, name = _full(name).partition("::")
    base, _, overload = name.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


def _variants(name: str) -> list[tuple[str, bool]]:
    """The overloads of an operator that write into a tensor, and whether that is the first argument."""
    base, _, overload = name.partition(".")
    found = []
    packet = getattr(torch.ops.aten, base)
    takes = [(a.name, str(a.type)) for a in _overload(name)._schema.arguments]
    for other in packet.overloads():
        arguments = getattr(packet, other)._schema.arguments
        outs = [a.name for a in arguments if a.is_out]
        if outs in (["out"], ["grad_input"]) and takes == [(a.name, str(a.type)) for a in arguments if not a.is_out]:
            found.append((f"{base}.{other}", False))
    in_place = getattr(torch.ops.aten, f"{base}_", None)
    if in_place is not None and (overload or "default") in in_place.overloads():
        found.append((f"{base}_" + (f".{overload}" if overload else ""), True))
    return found


def _has(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(_full(name), key)


def _kernel(name: str, key: str) -> Function:
    """PyTorch's kernel, as it was before we came."""
    boxed: Function = torch.library.get_kernel(f"aten::{name}", key).call_boxed
    return boxed


def _stock(name: str) -> Function:
    """PyTorch's kernel for the devices of a call."""
    kernels = {_Key.CPU: _kernel(name, "CPU")}
    if torch.cuda.is_available():
        kernels[_Key.CUDA] = _kernel(name, "CUDA")
    redispatch = _overload(name).redispatch

    def stock(keys: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = kernels.get((keys & _devices).highestPriorityTypeId())
        return redispatch(keys & _below, *args, **kwargs) if kernel is None else kernel(keys, *args, **kwargs)

    return stock


def _operators() -> list[str]:
    """Those that autograd does not look through."""
    return [name for name in (*functions, *ELEMENTWISE, *MOVING) if not _has(name, "CompositeImplicitAutograd")]


def _install_operator(library: Any, name: str, key: str) -> list[str]:
    """Registers an operator and its variants; returns their names."""
    stock_of = _stock if key == KEY else partial(_kernel, key=key)
    names, plain = [name], stock_of(name)
    for variant, in_place in _variants(name):
        if _has(variant, "CPU"):
            library.impl(variant, _wrap_into(name, stock_of(variant), plain, in_place), key, with_keyset=True)
            names.append(variant)
    run = _wrap(name, plain)
    if _level and key != "CUDA":
        run = _core.TorchKernel(name, _kernel(name, "CPU"), run, name in ELEMENTWISE)
    library.impl(name, run, key, with_keyset=True)
    return names


def _passing(operator: str) -> Function:
    redispatch = _overload(operator).redispatch
    return lambda keys, *args, **kwargs: redispatch(keys & _below, *args, **kwargs)


def _pass_others(library: Any, ours: set[str]) -> None:
    """All other operators take no notice of the key."""
    fallback: Any = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
    fallback.fallback(torch.library.fallthrough_kernel, KEY)
    libraries = {"_": fallback, "aten": library}
    for operator in torch._C._dispatch_get_all_op_names():
        namespace, _, name = operator.partition("::")
        if (namespace == "aten" and name in ours) or _has(operator, "CompositeImplicitAutograd"):
            continue
        if namespace not in libraries:
            libraries[namespace] = torch.library.Library(namespace, "IMPL")  # type: ignore[no-untyped-call]
        default = any(_has(operator, f"CompositeExplicitAutograd{kind}") for kind in ("", "NonFunctional"))
        if not _has(operator, "BackendSelect"):
            # Without this they would run the operator's default kernel instead of the device's.
            if default:
                libraries[namespace].impl(name, torch.library.fallthrough_kernel, KEY)
        elif not default and any("Tensor" in str(a.type) for a in _overload(operator)._schema.arguments):
            # PyTorch collects the keys of such a call anew, and minds no fallthrough.
            libraries[namespace].impl(name, _passing(operator), KEY, with_keyset=True)
    _libraries["others"] = libraries


def _refuse_layouts() -> None:
    """What the thread's key comes too late for."""
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for layout in LAYOUTS:
        for name in _operators():
            for variant in (name, *(variant for variant, _ in _variants(name))):
                if name not in STILL_ELSEWHERE and _has(variant, layout):
                    library.impl(variant, _refusal(name, _kernel(variant, layout)), layout, with_keyset=True)
    _libraries["layouts"] = library


def install(process: bool = False) -> None:
    """Registers the functions, once: under a thread's own key, which a mode turns on, so that calls outside of modes do
    not meet them; for all threads of the process also in front of PyTorch's kernels, where they pass calls on when they
    are not wanted."""
    global _level
    with _lock:
        if _level is None:
            _level = _configure()
        # First, since its functions call PyTorch's own kernels, which the others are to cover.
        _install(KEY)
        if process:
            _install("CPU")
            if torch.cuda.is_available():
                _install("CUDA")


def _install(key: str) -> None:
    if key in _libraries:
        return
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    ours: set[str] = set()
    for name in _operators():
        ours.update(_install_operator(library, name, key))
    if key == KEY:
        _pass_others(library, ours)
        _refuse_layouts()
    _libraries[key] = library
