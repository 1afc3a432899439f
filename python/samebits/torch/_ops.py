"""The operators that samebits has, as functions of a mode and the operator's arguments: the list that _products, _rows,
_attention and _elements fill, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from .._functions import _context

Tensor = torch.Tensor
Function = Callable[..., Any]
WRONG = object()  #: what a function returns for arguments that do not fit: PyTorch's own kernel is to say so
ABOVE = object()  #: what one returns for a product of more rows than the limit: counted, and no fault
FLOATS = frozenset((torch.float32, torch.float16, torch.bfloat16))

functions: dict[str, Function] = {}


def overrides(*names: str) -> Callable[[Function], Function]:
    """Registers a function for operators. It gets the mode and the operator's arguments, and returns NotImplemented for
    what it does not take."""

    def register(function: Function) -> Function:
        for name in names:
            functions[name] = function
        return function

    return register


def threads() -> _core.Context:
    return _context(torch.get_num_threads())


# These run at every call of an operator, so they are loops and not comprehensions.
lend: Any = torch._C._to_dlpack


def borrow(tensor: Tensor | None) -> Any:
    return None if tensor is None else lend(tensor)


def takes(*tensors: Tensor | None) -> bool:
    for t in tensors:
        if t is not None and (t.dtype not in FLOATS or t.layout is not torch.strided):
            return False
    return True


def alike(first: Tensor, *others: Tensor | None) -> bool:
    dtype = first.dtype
    if not takes(first):
        return False
    for t in others:
        if t is not None and (t.dtype is not dtype or t.layout is not torch.strided):
            return False
    return True


def tensors_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Also those of lists."""
    found: list[Tensor] = []
    for a in (*args, *kwargs.values()):
        if isinstance(a, Tensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            found.extend(t for t in a if isinstance(t, Tensor))
    return found
