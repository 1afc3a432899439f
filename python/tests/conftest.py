"""Helpers of all tests: bit patterns, and random arrays."""

from __future__ import annotations

import numpy as np
import pytest


def bits(array: np.ndarray) -> bytes:
    """An array's bit pattern: equality of values would let -0 pass for 0, and fail on NaN."""
    return np.ascontiguousarray(array).tobytes()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2026)
