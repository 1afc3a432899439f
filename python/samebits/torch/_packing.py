"""Weights packed once for many products, for as long as their storage lives and nobody writes to it."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .. import _core
from .._functions import Weights

MIN_ELEMENTS = 1 << 14  #: smaller weights are packed within the call


class _Entry(NamedTuple):
    """Weights that were seen at a version of their tensor, and their packed form if there is one."""

    version: int
    weights: _core.Weights | None
    size: int
    storage: Any  # StorageWeakRef, which has no types: while it is there no other storage has the key's address


_weak: Any = StorageWeakRef
_lock = threading.Lock()
_budget = 1 << 30
_used = 0

#: By address, shape and dtype; the extension module looks here before it calls pack().
entries: dict[bytes, _Entry] = {}


def set_packing_budget(size: int) -> None:
    """How many bytes packed copies of weights may take in all (default 1 GiB); 0: none, and none are kept.

    Never changes a bit. Raises ValueError if it is negative."""
    global _budget, _used
    if size < 0:
        raise ValueError(f"the budget is {size} bytes; want 0 or more")
    with _lock:
        _budget = size
        if _used > size:
            entries.clear()
            _used = 0


def _sweep() -> None:
    """Forgets weights whose tensors are gone."""
    global _used
    for key in [key for key, entry in entries.items() if entry.storage.expired()]:
        _used -= entries.pop(key).size


def pack(b: torch.Tensor, key: bytes, version: int) -> _core.Weights | None:
    """The packed form of b (K, N), the transpose of weights (N, K) that lie row by row; from its second use on. None
    if it is not to be packed."""
    global _used
    if not _budget:
        return None
    with _lock:
        entry = entries.get(key)
        if entry is None or entry.version != version:
            if entry is not None:
                _used -= entry.size
            _sweep()
            entries[key] = _Entry(version, None, 0, _weak(b.untyped_storage()))
            return None
        size = b.numel() * b.element_size()
        if entry.weights is None and _used + size <= _budget:
            entries[key] = entry = entry._replace(weights=Weights(b.t())._core, size=size)
            _used += size
        return entry.weights
