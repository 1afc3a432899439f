"""Weights packed once for many products, for as long as their storage lives and nobody writes to it."""

from __future__ import annotations

import threading
import weakref
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
    end: Any  # of the storage: what forgets the entry
    refused: object = None  # the state of the budget in which it had no room


_weak: Any = StorageWeakRef
_lock = threading.Lock()
_budget = 1 << 30
_state = object()  # of the budget: another one whenever there may be room again

#: By address, shape and dtype; the extension module looks here before it calls pack().
entries: dict[bytes, _Entry] = {}


def set_packing_budget(size: int) -> None:
    """How many bytes packed copies of weights may take in all (default 1 GiB); 0: none, and none are kept.

    Never changes a bit. Raises ValueError if it is negative."""
    global _budget, _state
    if size < 0:
        raise ValueError(f"the budget is {size} bytes; want 0 or more")
    with _lock:
        _budget, _state = size, object()
        if _used() > size:
            entries.clear()


def _used() -> int:
    """What packed copies take."""
    return sum(entry.size for entry in list(entries.values()))


def _forget(key: bytes, end: Any) -> None:
    """Drops the entry of a storage that is gone. Called wherever Python collects it, so without the lock."""
    global _state
    entry = entries.get(key)
    if entry is not None and entry.end is end:
        entries.pop(key, None)
        _state = object()


def _sweep() -> None:
    """Forgets weights whose storage went without telling, as it may where only PyTorch's own code held it."""
    for key, entry in list(entries.items()):
        if entry.storage.expired():
            entries.pop(key, None)


def pack(b: torch.Tensor, key: bytes, version: int) -> _core.Weights | None:
    """The packed form of b (K, N), the transpose of weights (N, K) that lie row by row; from its second use on. None
    if it is not to be packed."""
    if not _budget:
        return None
    with _lock:
        entry = entries.get(key)
        if entry is None or entry.version != version:
            storage = b.untyped_storage()
            end = weakref.ref(storage, lambda end: _forget(key, end))
            entries[key] = _Entry(version, None, 0, _weak(storage), end)
            return None
        if entry.weights is not None or entry.refused is _state:
            return entry.weights
        size = b.numel() * b.element_size()
        if _used() + size > _budget:
            _sweep()
        if _used() + size > _budget:
            entries[key] = entry._replace(refused=_state)
            return None
        weights = Weights(b.t())._core
        entries[key] = entry._replace(weights=weights, size=size)
        return weights
