"""Looks for PyTorch, or says what is missing."""

from __future__ import annotations

import warnings

from samebits._tested import TORCH as TESTED
from samebits._tested import is_tested

try:
    import torch
except ImportError as error:
    raise ImportError(f"samebits.torch needs PyTorch ({error}): pip install 'samebits[torch]'") from error

_version = str(torch.__version__)
if not is_tested(_version, TESTED):
    warnings.warn(f"samebits.torch is tested with PyTorch {TESTED[0]} to {TESTED[1]}; this is {_version}", stacklevel=3)
