"""Weights packed once for many products, for as long as their storage lives and nobody writes to it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .. import _core
from .._functions import Weights

MIN_ELEMENTS = 1 << 14  #: smaller weights are packed within the call


@dataclass
class _Entry:
    storage: Any  # StorageWeakRef, which has no types
    version: int
    weights: _core.Weights | None = None
    size: int = 0


_weak: Any = StorageWeakRef
_lock = threading.Lock()
_entries: dict[tuple[object, ...], _Entry] = {}
_budget = 1 << 30
_used = 0


def set_packing_budget(size: int) -> None:
    """How many bytes packed copies of weights may take in all (default 1 GiB); 0: none, and none are kept.

    Never changes a bit. Raises ValueError if it is negative."""
    global _budget, _used
    if size < 0:
        raise ValueError(f"the budget is {size} bytes; want 0 or more")
    with _lock:
        _budget = size
        if _used > size:
            _entries.clear()
            _used = 0


def _sweep() -> None:
    """Forgets weights whose tensors are gone."""
    global _used
    for key in [key for key, entry in _entries.items() if entry.storage.expired()]:
        _used -= _entries.pop(key).size


def packed(b: torch.Tensor) -> _core.Weights | None:
    """The packed form of b (K, N), the transpose of weights (N, K) that lie row by row; from its second use on. None
    if it is not to be packed."""
    global _used
    if not _budget or b.numel() < MIN_ELEMENTS or b.is_inference():
        return None
    storage = b.untyped_storage()
    key = (storage._cdata, b.storage_offset(), b.shape, b.stride(1), b.dtype)
    with _lock:
        entry = _entries.get(key)
        if entry is None or entry.storage.expired() or entry.version != b._version:
            if entry is not None:
                _used -= entry.size
            _sweep()
            _entries[key] = _Entry(_weak(storage), b._version)
            return None
        size = b.numel() * b.element_size()
        if entry.weights is None and _used + size <= _budget:
            entry.weights = Weights(b.t())._core
            entry.size = size
            _used += size
        return entry.weights
