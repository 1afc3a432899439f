"""Which calls follow the order: modes of a thread, and the process's default."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import torch

from .. import _core, _limits
from .._arrays import layout_name

#: The key of PyTorch's dispatcher that a thread in a mode adds to those of its tensors. It stands below autograd and
#: above the devices, and nothing in PyTorch uses it: it was made for other packages' random generators.
KEY = "CustomRNGKeyId"

#: Of products of floats.
ORDERS = ("portable-1", "amx-1")


@dataclass(frozen=True)
class Report:
    """What ran since the mode began, by operation."""

    invariant: dict[str, int]  #: calls that samebits took
    stock: dict[str, int]  #: calls that may move and ran on stock kernels, with dtype
    dispatch: str  #: "C", or with "Python" where PyTorch lacks C functions: the same bits, more time a call


def dtypes_of(tensors: list[torch.Tensor]) -> str:
    return "/".join(dict.fromkeys(str(t.dtype).removeprefix("torch.") for t in tensors))


@dataclass(eq=False)
class Mode:
    """A mode's settings and counts."""

    strict: bool = False
    limit: int | None = None  #: None: the process's
    amx: bool = False  #: products of bfloat16 in amx-1
    allow: frozenset[str] = frozenset()  #: what strict modes count as others do
    invariant: Counter[str] = field(default_factory=Counter)
    stock: Counter[str] = field(default_factory=Counter)

    def refuse(self, name: str, tensors: list[torch.Tensor]) -> None:
        """Counts a call that samebits does not take; a strict mode raises."""
        if self.strict and name not in self.allow:
            shapes = ", ".join("nested" if t.is_nested else str(tuple(t.shape)) for t in tensors)
            devices = "/".join(dict.fromkeys(t.device.type for t in tensors))
            layouts = "/".join(dict.fromkeys(layout for t in tensors if (layout := layout_name(t)) != "strided"))
            where = f" in layout {layouts}" if layouts else ""
            raise NotImplementedError(
                f"samebits has no {name} of {dtypes_of(tensors)}{where} on {devices}, shapes {shapes}: its bits may "
                "depend on the batch; leave the strict mode to run PyTorch's own, or name it in `allow`"
            )
        self.count(name, tensors)

    def refuse_graph(self, name: str, tensors: list[torch.Tensor]) -> None:
        """The same for a compiled graph, whose tensors are too many to be named."""
        if self.strict and name not in self.allow:
            raise NotImplementedError(
                f"samebits has no {name}: torch.compile's default backend makes kernels of its own, whose bits may "
                "depend on the batch; run the module that is not compiled, or compile it with backend='aot_eager'"
            )
        self.count(name, tensors)

    def above(self, rows: int) -> bool:
        """Whether products of so many rows are left to stock kernels."""
        limit = self.limit or _core.limit()
        return 0 < limit < rows

    def count(self, name: str, tensors: list[torch.Tensor]) -> None:
        """Counts a call that runs on stock kernels."""
        self.stock[f"{name} {dtypes_of(tensors)}".strip()] += 1


class _Modes(threading.local):
    """The modes that this thread has entered, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[Mode] = []


_modes = _Modes()


def current() -> Mode | None:
    """The mode that a call of this thread runs in."""
    active: Mode | None = _core.torch_current()
    return active


def _enter_innermost() -> None:
    stack = _modes.stack
    _core.torch_enter(stack[-1] if stack else None)
    torch._C._dispatch_tls_set_dispatch_key_included(KEY, bool(stack))


def _make(strict: bool, limit: int | None, order: str | None, allow: Collection[str], process: bool = False) -> Mode:
    if isinstance(allow, str):
        raise TypeError(f"allow is '{allow}'; want a collection of operators' names")
    _limits.check(limit)
    if order not in (None, *ORDERS):
        raise ValueError(f"there is no order '{order}' for float tensors; want {' or '.join(map(repr, ORDERS))}")
    from ._install import install

    install(process)
    return Mode(strict, limit, order == "amx-1", frozenset(allow))


@contextlib.contextmanager
def mode(
    strict: bool = False, limit: int | None = None, order: str | None = None, allow: Collection[str] = ()
) -> Iterator[Mode]:
    """Calls of this thread follow the order until the block ends. Modes nest; other threads are not touched.

    strict: raise NotImplementedError for operations that may move and that samebits does not have.
    limit: products of more rows run on stock kernels and are counted, in strict modes too; None: the process's limit
        (samebits.set_limit), which is off at first: all follow the order.
    order: "portable-1", the default; or "amx-1": products of bfloat16 as AMX's matrix unit computes them, on any
        machine, and all else in portable-1.
    allow: names of operators, as `report` and the errors have them, that are counted in a strict mode too."""
    entered = _make(strict, limit, order, allow)
    _modes.stack.append(entered)
    _enter_innermost()
    try:
        yield entered
        if not torch._C._dispatch_tls_is_dispatch_key_included(KEY):
            raise RuntimeError(
                "a block such as torch.inference_mode() began outside of this mode and ended inside, which ended the "
                "mode too: calls since then ran on PyTorch's kernels; let the block that began last end first"
            )
    finally:
        _modes.stack.remove(entered)
        _enter_innermost()


def enable(
    strict: bool = False, limit: int | None = None, order: str | None = None, allow: Collection[str] = ()
) -> None:
    """The same for all threads that are in no mode of their own, until disable()."""
    _core.torch_default(_make(strict, limit, order, allow, process=True))


def disable() -> None:
    """Ends what enable() began."""
    _core.torch_default(None)


def report() -> Report:
    """The counts of the mode that this thread is in. Raises RuntimeError outside of one."""
    active = current()
    if active is None:
        raise RuntimeError("no mode is active: use samebits.torch.mode() or enable()")
    from ._install import dispatch

    return Report(dict(active.invariant), dict(active.stock), dispatch())
