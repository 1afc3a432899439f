"""Looks for PyTorch, or says what is missing."""

from __future__ import annotations

import warnings

TESTED = ("2.15", "2.15")  #: the first and the last minor version of PyTorch that the tests have run with

try:
    import torch
except ImportError as error:
    raise ImportError(f"samebits.torch needs PyTorch ({error}): pip install 'samebits[torch]'") from error

_version = str(torch.__version__)
_minor = tuple(int(n) for n in _version.split(".")[:2])
if not tuple(map(int, TESTED[0].split("."))) <= _minor <= tuple(map(int, TESTED[1].split("."))):
    warnings.warn(f"samebits.torch is tested with PyTorch {TESTED[0]} to {TESTED[1]}; this is {_version}", stacklevel=3)
