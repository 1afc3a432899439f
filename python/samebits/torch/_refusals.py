"""What may move and has no kernel here: modes count it, strict ones raise."""

from __future__ import annotations

import re
from typing import Any

import torch

from ._dispatcher import Key, beneath, device_of, has, has_any, kernel, variants
from ._modes import KEY, Mode, current
from ._ops import ABOVE, WRONG, Function, tensors_of

#: Operators of dense tensors.
MOVING = (
    "convolution",
    "native_batch_norm",
    "prod.dim_int",
    "_cdist_forward",
    "_addmm_activation",
    "_embedding_bag",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
    "mkldnn_rnn_layer",  # nn.LSTM
    "quantized_lstm.input",
    "quantized_lstm.data",
    "quantized_gru.input",
    "quantized_gru.data",
    "_weight_int8pack_mm",
    "_weight_int4pack_mm_for_cpu",
    "_dyn_quant_matmul_4bit",
)
#: The namespaces of operators on quantised tensors and on weights that are quantised or packed for oneDNN and MKL.
NAMESPACES = ("quantized", "_quantized", "sparse", "mkl", "mkldnn", "mkldnn_prepacked", "onednn")
#: Those of them that make and take apart packed weights, or ask.
PACKING = re.compile(r"(prepack|unpack)(?!ed)|pack_|::make_|reorder|data_ptr|nbytes|serialized")
#: Layouts whose kernels the dispatcher takes before it looks at a thread's own keys.
LAYOUTS = ("SparseCPU", "SparseCsrCPU", "NestedTensorCPU", "MkldnnCPU")
#: Operators that only tensors of such layouts have.
OF_LAYOUTS = (
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


def refused(active: Mode, name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Counts a call that stock is to run, or raises, unless it is stock that is to say what is wrong with it."""
    if result is WRONG:
        return
    tensors = tensors_of(args, kwargs)
    if result is ABOVE:
        active.count(name, tensors)
        return
    # Sums of integers have no order.
    if any(t.is_floating_point() or t.is_complex() or t.is_quantized for t in tensors):
        active.refuse(name, tensors)


def refusal(name: str, stock: Function) -> Function:
    """The operator where samebits has no kernel for it."""

    def run(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        active = current()
        # On the meta device there are no bits.
        if active is not None and device_of(keys) != Key.Meta:
            refused(active, name, NotImplemented, args, inputs_of(kwargs))
        return stock(keys, *args, **kwargs)

    return run


def _moving(operators: list[str], key: str) -> dict[str, str]:
    """What moves under the key of a layout: operators and their variants, each with the name that it is refused by."""
    names = {variant: name for name in operators for variant in (name, *(other for other, _ in variants(name)))}
    if key != "MkldnnCPU":
        return {variant: name for variant, name in names.items() if has(variant, key)}
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
        short = name.removeprefix("aten::")
        if "::" not in short and short not in EXACT_IN_MKLDNN:
            names.setdefault(short, short)
    return {variant: name for variant, name in names.items() if has_any(variant, key)}


def refuse_operators(library: Any, operators: list[str], key: str) -> None:
    """Registers operators of PyTorch's own under the key of a layout."""
    for variant, name in _moving(operators, key).items():
        library.impl(variant, refusal(name, kernel(variant, key)), key, with_keyset=True)


def packed_operators() -> list[str]:
    """The operators of NAMESPACES that compute, where autograd does not look through them."""
    return [
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.partition("::")[0] in NAMESPACES
        and not PACKING.search(name)
        and not has(name, "CompositeImplicitAutograd")
    ]


def refuse_packed(names: list[str], key: str) -> list[Any]:
    """Registers them under a key: KEY, or that of a device or a layout."""
    libraries: dict[str, Any] = {}
    for name in names:
        namespace, _, rest = name.partition("::")
        if key != KEY and not has(name, key):
            continue
        if namespace not in libraries:
            libraries[namespace] = torch.library.Library(namespace, "IMPL")  # type: ignore[no-untyped-call]
        stock = beneath(name) if key == KEY else kernel(name, key)
        libraries[namespace].impl(rest, refusal(name, stock), key, with_keyset=True)
    return list(libraries.values())
