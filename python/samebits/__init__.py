"""samebits: same row, same bits.

Matrix products, attention, softmax and norms in which the bits of a row depend on that row alone: not on its
neighbours, the batch, padding, threads or the CPU. The functions take and give NumPy arrays and PyTorch CPU tensors,
and read anything with ``__dlpack__`` or the buffer protocol, without copies; the GIL is released while they run.

    >>> import numpy as np, samebits
    >>> x, w = np.ones((4, 256), np.float32), np.ones((8, 256), np.float32)
    >>> bool((samebits.linear(x, w)[0] == samebits.linear(x[:1], w)[0]).all())
    True
"""

from __future__ import annotations

from . import _load as _load
from ._core import version as __version__
from ._functions import (
    Weights,
    attention,
    formats,
    get_num_threads,
    layer_norm,
    linear,
    log_softmax,
    matmul,
    rms_norm,
    set_num_threads,
    softmax,
)
from ._limits import get_limit, set_limit

__all__ = [
    "Weights",
    "__version__",
    "attention",
    "formats",
    "get_limit",
    "get_num_threads",
    "layer_norm",
    "linear",
    "log_softmax",
    "matmul",
    "rms_norm",
    "set_limit",
    "set_num_threads",
    "softmax",
]
