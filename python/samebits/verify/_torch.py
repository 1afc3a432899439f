"""PyTorch with and without the mode, and its tensors as arrays whose bits can be compared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from .. import torch as samebits_torch
from . import _outcome
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
        outcome.count(active.stock)


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


def facts(*packages: str, dtype: torch.dtype, **others: object) -> dict[str, str]:
    """What a report says of its run."""
    name = str(dtype).removeprefix("torch.")
    return _outcome.facts("torch", *packages, threads=torch.get_num_threads(), dtype=name, **others)


def quiet() -> None:
    """transformers without bars and warnings of its own."""
    from transformers import utils

    logging: Any = utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
