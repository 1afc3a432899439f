"""MLX on the CPU with samebits' kernels: the same row gives the same bits in any batch.

    import samebits.mlx

    with samebits.mlx.batch_invariant_mode():
        logits = model(tokens)

The functions of this module follow a written order of arithmetic. Inside a mode, or below a process-wide limit of rows,
MLX's own do too: products, quantised products, products with experts, attention, and what is made of them. They are
primitives of MLX's graphs, so that laziness, mx.compile, mx.grad and mx.vmap work as ever.

The extension is compiled against the MLX that is installed: python -m samebits.build_mlx.
"""

from __future__ import annotations

from . import _load  # noqa: F401  (first: says what is missing)
from ._functions import (
    addmm,
    gather_mm,
    gather_qmm,
    linear,
    matmul,
    quantized_matmul,
    scaled_dot_product_attention,
)
from ._modes import (
    Mode,
    Report,
    batch_invariant_mode,
    get_batch_invariant_limit,
    limit_from_environment,
    report,
    set_batch_invariant_limit,
    set_packing_budget,
)

__all__ = [
    "Mode",
    "Report",
    "addmm",
    "batch_invariant_mode",
    "gather_mm",
    "gather_qmm",
    "get_batch_invariant_limit",
    "linear",
    "matmul",
    "quantized_matmul",
    "report",
    "scaled_dot_product_attention",
    "set_batch_invariant_limit",
    "set_packing_budget",
]

limit_from_environment()
