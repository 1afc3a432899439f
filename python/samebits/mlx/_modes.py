"""Which calls follow the order: modes of a thread, and the process's limit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from .. import _functions, _limits
from . import _extension

set_packing_budget = _extension.set_packing_budget


@dataclass(frozen=True)
class Report:
    """What was called, or traced by mx.compile, since the mode began, by operation."""

    invariant: dict[str, int]  #: calls that samebits took
    stock: dict[str, int]  #: calls that may move and are MLX's own, with dtypes


@dataclass(eq=False)
class Mode:
    """A mode's settings and counts."""

    strict: bool
    limit: int | None
    counts: _extension.Counts = field(default_factory=_extension.Counts)
    _settings: dict[tuple[int, int], _extension.Settings] = field(default_factory=dict, repr=False)

    @property
    def invariant(self) -> dict[str, int]:
        return self.counts.invariant

    @property
    def stock(self) -> dict[str, int]:
        return self.counts.stock

    def settings(self) -> _extension.Settings:
        key = (self.limit or _extension.limit(), _functions.get_num_threads())
        found = self._settings.get(key)
        if found is None:
            found = self._settings[key] = _extension.Settings(key[0], self.strict, key[1], self.counts)
        return found


class _Modes(threading.local):
    """The modes that this thread has entered, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[Mode] = []


_modes = _Modes()


def current() -> _extension.Settings | None:
    """What a call of this thread is computed under; None for MLX's own way."""
    stack = _modes.stack
    if stack:
        return stack[-1].settings()
    limit = _extension.limit()
    return _extension.Settings(limit, False, _functions.get_num_threads(), None) if limit else None


@contextlib.contextmanager
def batch_invariant_mode(strict: bool = True, limit: int | None = None) -> Iterator[Mode]:
    """Calls of this thread follow the order until the block ends. Modes nest, and the innermost alone is in force,
    its strictness included; other threads are not touched.

    strict: raise NotImplementedError for operations that may move and that samebits does not have; False runs MLX's own
    and counts them.
    limit: dense products of more rows are MLX's own; None: the process's limit, or none.

    Raises ValueError if the limit is below 1."""
    _limits.check(limit)
    from ._patches import install

    install()
    mode = Mode(strict, limit)
    _modes.stack.append(mode)
    # What this thread has traced belongs to the settings that were in force.
    _extension.forget_compiled()
    try:
        yield mode
    finally:
        _modes.stack.remove(mode)
        _extension.forget_compiled()


def report() -> Report:
    """The counts of the mode that this thread is in. Raises RuntimeError outside of one."""
    if not _modes.stack:
        raise RuntimeError("no mode is active: use samebits.mlx.batch_invariant_mode()")
    mode = _modes.stack[-1]
    return Report(mode.invariant, mode.stock)


def get_batch_invariant_limit() -> int:
    """The process's limit; 0: off."""
    return _extension.limit()


def set_batch_invariant_limit(limit: int) -> int:
    """Sets the process's limit and gives back the one before: MLX's dense products of at most that many rows, and all
    its other products and attention, follow the order in every thread; 0, as at first: none do. It counts where a
    function is traced, so set it before mx.compile'd functions are first called in other threads.

    Raises ValueError if it is negative."""
    before = _extension.limit()
    _extension.set_limit(limit)
    if limit:
        from ._patches import install

        install()
    if limit != before:
        _extension.forget_compiled()
    return before


def limit_from_environment() -> None:
    """Sets the limit that SAMEBITS_LIMIT, or else MLX_METAL_BATCH_INVARIANT_LIMIT, names. Raises ValueError."""
    limit = _limits.from_environment("SAMEBITS_LIMIT", "MLX_METAL_BATCH_INVARIANT_LIMIT")
    if limit is not None:
        set_batch_invariant_limit(limit)
