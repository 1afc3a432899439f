"""Graphs that torch.compile's inductor, or AOTInductor, made kernels of: no operator of theirs passes a mode, so modes
count the graph, and strict ones raise."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from functools import wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ._modes import current
from ._ops import Function
from ._refusals import run_stock

#: What calls such a graph: classes, by the module that defines them. Importing these takes seconds.
CALLERS = {
    "torch._inductor.output_code": ("CompiledFxGraph", "CompiledAOTI"),
    "torch.export.pt2_archive._package": ("AOTICompiledModel",),
}
#: What modes call one.
NAME = "inductor graph"


def _counted(call: Function) -> Function:
    @wraps(call)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        active = current()
        if active is None:
            return call(self, *args, **kwargs)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        active.refuse_graph(NAME, tensors)
        return run_stock(call, self, *args, **kwargs)

    return run


def _watch(module: ModuleType) -> None:
    for name in CALLERS[module.__name__]:
        caller = getattr(module, name, None)
        if caller is None:
            warnings.warn(f"this PyTorch has no {module.__name__}.{name}: modes do not see its graphs", stacklevel=2)
        else:
            caller.__call__ = _counted(caller.__call__)


class _Finder(importlib.abc.MetaPathFinder):
    """Watches the modules that are not imported yet, once they are."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in CALLERS:
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((found for found in others if found is not None), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def run(module: ModuleType) -> None:
                load(module)
                _watch(module)

            spec.loader.exec_module = run  # type: ignore[method-assign]
        return spec


def watch() -> None:
    """Puts the modes in front of such graphs, those compiled before included."""
    for name in CALLERS:
        if name in sys.modules:
            _watch(sys.modules[name])
    sys.meta_path.insert(0, _Finder())
