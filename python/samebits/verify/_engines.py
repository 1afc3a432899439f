"""PyTorch with and without the mode, and its tensors as arrays whose bits can be compared."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from .. import __version__
from .. import torch as samebits_torch
from ._outcome import Outcome


@contextlib.contextmanager
def engine(ours: bool, outcome: Outcome) -> Iterator[None]:
    """Stock PyTorch, or the mode, whose report goes to the outcome."""
    with torch.inference_mode():
        if not ours:
            yield
            return
        with samebits_torch.mode() as active:
            yield
        for name, count in active.stock.items():
            outcome.may_move[name] = outcome.may_move.get(name, 0) + count


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A tensor's values; float32 of a bfloat16 one, which is exact and keeps what differs."""
    values: np.ndarray[Any, Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return values


def facts(*packages: str, **others: object) -> dict[str, str]:
    """What a report says of its run: versions of packages, and settings."""
    found = {"samebits": __version__}
    found |= {name: importlib.metadata.version(name) for name in ("torch", *packages)}
    found["threads"] = str(torch.get_num_threads())
    return {**found, **{name: str(value).removeprefix("torch.") for name, value in others.items()}}


def quiet() -> None:
    """transformers without bars and warnings of its own."""
    from transformers import utils

    logging: Any = utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
