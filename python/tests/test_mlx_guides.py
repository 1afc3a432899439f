"""What the README and the guides tell people to type, with MLX."""

from __future__ import annotations

import pytest

mx = pytest.importorskip("mlx.core", reason="MLX is not installed")

import mlx.nn as nn  # noqa: E402
from guides import blocks, run  # noqa: E402


@pytest.mark.parametrize(("place", "code"), blocks("mlx").items())
def test_mlx(place, code):
    model = nn.Sequential(nn.Embedding(50, 64), nn.Linear(64, 300), nn.gelu, nn.Linear(300, 50))
    tokens = mx.array([[3, 7, 9, 1]])
    names = run(place, code, model=model, tokens=tokens)
    batch = mx.concatenate([mx.zeros((2, 4), mx.int32), tokens])
    with names["samebits"].mlx.batch_invariant_mode():
        assert mx.array_equal(model(batch)[2:], names["logits"])
