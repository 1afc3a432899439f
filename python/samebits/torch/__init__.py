"""PyTorch on the CPU with samebits' kernels: the same row gives the same bits in any batch.

    import samebits.torch

    with samebits.torch.mode():
        logits = model(tokens)

Inside a mode matrix products (and linear, einsum and all that lowers to them), attention, softmax, sums, means and
norms follow a written order of arithmetic; gradients do too. Operations whose bits may depend on the batch and that
samebits does not have run as they are and are counted (``report``), or raise NotImplementedError in a strict mode.
CPU tensors only: those of other devices run on PyTorch's kernels, and a strict mode refuses them.
"""

from __future__ import annotations

import os

from .. import _limits
from . import _load as _load
from ._modes import Report, disable, enable, mode, report
from ._packing import set_packing_budget

__all__ = ["Report", "disable", "enable", "mode", "report", "set_packing_budget"]

if (_limit := _limits.from_environment("SAMEBITS_LIMIT")) is not None:
    _limits.set_limit(_limit)
if os.environ.get("SAMEBITS_TORCH", "0") not in ("", "0"):
    enable()
