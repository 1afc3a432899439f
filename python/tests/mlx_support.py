"""What the tests of samebits.mlx share; skips them where MLX or the extension is missing."""

from __future__ import annotations

import pytest

mx = pytest.importorskip("mlx.core", reason="MLX is not installed")
nn = pytest.importorskip("mlx.nn", reason="MLX is not installed")
try:
    import samebits.mlx as sm
except ImportError as error:
    pytest.skip(f"the MLX extension is not built: {error}", allow_module_level=True)

__all__ = ["DTYPES", "bits", "close", "moved", "mx", "nn", "random", "seed", "sm"]

DTYPES = [mx.float32, mx.bfloat16, mx.float16]


def bits(array):
    """An array's bit pattern."""
    return bytes(memoryview(mx.contiguous(array).view(mx.uint8)))


def random(*shape, dtype=mx.float32):
    return mx.random.normal(shape).astype(dtype)


def moved(function, x):
    """Which parts of a few rows come out otherwise than in the whole."""
    whole = bits(function(x))
    parts = {n: [function(x[i : i + n]) for i in range(0, x.shape[0], n)] for n in (1, 2, 3, 7)}
    return [n for n, part in parts.items() if bits(mx.concatenate(part)) != whole]


def close(ours, stock, tolerance):
    return bool(mx.allclose(ours.astype(mx.float32), stock.astype(mx.float32), atol=tolerance, rtol=tolerance))


@pytest.fixture(autouse=True)
def seed():
    mx.random.seed(0)
