"""What the tests of samebits.torch share."""

from __future__ import annotations

import contextlib

import pytest
import samebits.torch as mode_of
import torch


def bits(tensor):
    """A tensor's bit pattern."""
    return tensor.detach().resolve_conj().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


@contextlib.contextmanager
def enabled(**settings):
    """A mode of the process."""
    mode_of.enable(**settings)
    try:
        yield
    finally:
        mode_of.disable()


def moved(function, x):
    """Which parts of a few rows come out otherwise than in the whole."""
    whole = function(x)
    return [n for n in (1, 2, 3, 7) if bits(torch.cat([function(part) for part in x.split(n)])) != bits(whole)]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
