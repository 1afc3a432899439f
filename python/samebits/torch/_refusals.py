"""What may move and has no kernel here: modes count it, strict ones raise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any

import torch

from .. import _core
from ._dispatcher import Key, below, device_of, has, has_any, kernel, register, short, taking_numbers, variants
from ._modes import KEY, Mode, current
from ._ops import ABOVE, WRONG, Function, tensors_of
from ._still import moves_complex, moves_elsewhere, stands_still

#: The namespaces of operators on quantised tensors and on weights that are quantised or packed for oneDNN and MKL.
NAMESPACES = ("quantized", "_quantized", "sparse", "mkl", "mkldnn", "mkldnn_prepacked", "onednn")
#: Layouts whose kernels the dispatcher takes before it looks at a thread's own keys.
LAYOUTS = ("SparseCPU", "SparseCsrCPU", "NestedTensorCPU", "MkldnnCPU")
#: Operators that move, and those that only tensors of such layouts have.
OF_LAYOUTS = (
    "convolution",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
    "mv",
    "hspmm",
    "sspaddmm.out",
    "sparse_sampled_addmm",
    "triangular_solve.X",
    "_sparse_softmax",
    "_sparse_softmax_backward_data",
    "_sparse_log_softmax",
    "_sparse_log_softmax_backward_data",
    "_sparse_sparse_matmul",
    "_sparse_mm_reduce_impl",
    "_sparse_mm_reduce_impl_backward",
    "_sparse_csr_sum.dim_dtype",
    "_sparse_csr_prod.dim_dtype",
    "_nested_tensor_softmax_with_shape",
)
#: oneDNN's layout has kernels of its own for whatever it has. These only move numbers, or ask.
EXACT_IN_MKLDNN = frozenset(
    (
        "_mkldnn_reshape",
        "_mkldnn_transpose",
        "_mkldnn_transpose_",
        "_to_dense",
        "clone",
        "copy_",
        "empty.memory_format",
        "mkldnn_max_pool2d",
        "mkldnn_max_pool3d",
        "mkldnn_reorder_conv2d_weight",
        "mkldnn_reorder_conv3d_weight",
        "relu",
        "relu_",
        "view",
        "zero_",
    )
)


def inputs_of(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Without the tensors that the result goes into."""
    return {key: value for key, value in kwargs.items() if key not in ("out", "grad_input")}


class _StockParts(threading.local):
    """Whether this thread is within an operator that was counted: what that is made of is not counted again."""

    inside = False


stock_parts = _StockParts()


def run_stock(stock: Function, *args: Any, **kwargs: Any) -> Any:
    """A call that was counted."""
    if stock_parts.inside:
        return stock(*args, **kwargs)
    stock_parts.inside = True
    try:
        return stock(*args, **kwargs)
    finally:
        stock_parts.inside = False


def refused(active: Mode, name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Counts a call that stock is to run, or raises, unless it is stock that is to say what is wrong with it."""
    if result is WRONG or stock_parts.inside:
        return
    tensors = tensors_of(args, kwargs)
    if result is ABOVE:
        active.count(name, tensors)
        return
    # Sums of integers have no order, unless they are of floats.
    dtype = kwargs.get("dtype")
    if any(t.is_floating_point() or t.is_complex() or t.is_quantized for t in tensors) or (
        tensors and isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex)
    ):
        active.refuse(name, tensors)


def refusal(name: str, stock: Function, only: Callable[..., bool] | None = None) -> Function:
    """The operator where samebits has no kernel for it, or for calls of `only` these arguments."""

    def run(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        active = current()
        if only is not None and not only(*args, **kwargs):
            return stock(keys, *args, **kwargs)
        # On the meta device there are no bits.
        if active is not None and device_of(keys) != Key.Meta:
            refused(active, name, NotImplemented, args, inputs_of(kwargs))
        return run_stock(stock, keys, *args, **kwargs)

    return run


def of_complex(*args: Any, **kwargs: Any) -> bool:
    return any(t.is_complex() for t in tensors_of(args, kwargs))


def _accumulates(x: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False) -> bool:
    return accumulate


def of_elsewhere(*args: Any, **kwargs: Any) -> bool:
    return any(t.device.type not in ("cpu", "meta") for t in tensors_of(args, kwargs))


#: Operators that move for some arguments alone, besides those that stand still but for complex numbers, or on CPUs.
MOVING_WITH = {"aten::_index_put_impl_": _accumulates}


def moving_with(operator: str) -> Callable[..., bool] | None:
    """What of an operator's calls move, if not all or none do. A default kernel is made of others."""
    found = [MOVING_WITH[operator]] if operator in MOVING_WITH else []
    if moves_complex(operator) and not has(operator, "CompositeExplicitAutograd"):
        found.append(of_complex)
    if has_devices() and moves_elsewhere(operator):
        found.append(of_elsewhere)
    if len(found) < 2:
        return found[0] if found else None
    return lambda *args, **kwargs: any(moves(*args, **kwargs) for moves in found)


def has_devices() -> bool:
    """Whether there are other devices than CPUs: where there are none a look at the tensors' takes time alone."""
    return torch.accelerator.is_available()


def refuse_unknown(keys: torch._C.DispatchKeySet, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """What runs in a mode in front of operators that no list knows."""
    active = current()
    if active is not None and device_of(keys) != Key.Meta:
        refused(active, short(operator.name()), NotImplemented, args, inputs_of(kwargs))
    return run_stock(operator.redispatch, keys & below, *args, **kwargs)


def refuse_in_all_threads(
    libraries: dict[str, Any],
    ours: set[str],
    key: str,
    in_part: Callable[[str, Function], Function],
    in_c: Collection[str],
) -> None:
    """Registers what may move under a device's key, for threads that are in no mode of their own. in_part makes the
    refusal of an operator and its stock kernel."""
    for operator in torch._C._dispatch_get_all_op_names():
        if operator in ours or not has(operator, key):
            continue
        if stands_still(operator) and moving_with(operator) is None:
            continue
        namespace, _, name = operator.partition("::")
        stock = taking_numbers(operator, kernel(operator, key))
        run = _in_front(
            in_part(operator, stock) if stands_still(operator) else refusal(short(operator), stock), stock, key
        )
        if short(operator) in in_c:
            run = _core.TorchKernel(name, kernel(operator, key), run, False)
        register(library_of(libraries, namespace), name, run, key)


def _in_front(run: Function, stock: Function, key: str) -> Function:
    """What runs under a device's or layout's key. Calls of a thread in a mode have passed KEY, but for layouts."""
    if key in LAYOUTS:
        return run

    def outside(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        inside = torch._C._dispatch_tls_is_dispatch_key_included(KEY)
        return (stock if inside else run)(keys, *args, **kwargs)

    return outside


def library_of(libraries: dict[str, Any], namespace: str) -> Any:
    """The library of a namespace, made when it is first needed."""
    if namespace not in libraries:
        libraries[namespace] = torch.library.Library(namespace, "IMPL")  # type: ignore[no-untyped-call]
    return libraries[namespace]


def _moving(operators: list[str], key: str) -> dict[str, str]:
    """What moves under the key of a layout: operators and their variants, each with the name that it is refused by."""
    names = {variant: name for name in operators for variant in (name, *(other for other, _ in variants(name)))}
    if key != "MkldnnCPU":
        return {variant: name for variant, name in names.items() if has(variant, key)}
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
        own = short(name)
        if "::" not in own and own not in EXACT_IN_MKLDNN:
            names.setdefault(own, own)
    return {variant: name for variant, name in names.items() if has_any(variant, key)}


def refuse_operators(library: Any, operators: list[str], key: str) -> None:
    """Registers operators of PyTorch's own under the key of a layout."""
    for variant, name in _moving(operators, key).items():
        stock = taking_numbers(variant, kernel(variant, key))
        register(library, variant, _in_front(refusal(name, stock), stock, key), key)


def refuse_packed(libraries: dict[str, Any], key: str) -> None:
    """Registers the operators of NAMESPACES that compute under a key of quantised tensors or a layout."""
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        if namespace in NAMESPACES and not stands_still(name) and has(name, key):
            stock = kernel(name, key)
            run = _in_front(refusal(name, stock), stock, key)
            register(library_of(libraries, namespace), rest, run, key)
