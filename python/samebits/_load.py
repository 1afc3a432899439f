"""Looks for the compiled parts of the package, or says which is missing."""

from __future__ import annotations

import importlib
import pathlib

_folder = pathlib.Path(__file__).parent

try:
    importlib.import_module("samebits._core")
except ImportError as error:
    _parts = {"_core*.so": "the extension module", "lib/libsamebits.so.*": "the C library"}
    _missing = [f"{name} ({_folder / place})" for place, name in _parts.items() if not any(_folder.glob(place))]
    raise ImportError(
        f"samebits is not whole: {' and '.join(_missing) + ' is missing' if _missing else error}; install it again"
    ) from error
