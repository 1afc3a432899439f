"""The bits of a row do not depend on anything but the row. Each case has a control that shows it can fail."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import samebits
from conftest import bits

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def split(function, x, parts):
    """The function of a few rows at a time."""
    return np.concatenate([function(x[i : i + parts]) for i in range(0, len(x), parts)])


def moves(function, x):
    whole = function(x)
    return [parts for parts in (1, 2, 3, 7, 16) if bits(split(function, x, parts)) != bits(whole)]


def naive(x, w):
    """A product whose order depends on the number of rows, as kernels chosen by shape make it: the control."""
    if len(x) == 1:
        return (x * w).sum(axis=1, dtype=np.float32)[None]
    return np.stack([np.add.accumulate(x * row, axis=1, dtype=np.float32)[:, -1] for row in w], axis=1)


def test_control_moves(rng):
    x, w = rng.standard_normal((17, 300), np.float32), rng.standard_normal((9, 300), np.float32)
    assert 1 in moves(lambda rows: naive(rows, w), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear(rng, dtype):
    x, w = rng.standard_normal((33, 515)).astype(dtype), rng.standard_normal((65, 515)).astype(dtype)
    assert not moves(lambda rows: samebits.linear(rows, w), x)
    assert bits(samebits.linear(x, samebits.Weights(w))) == bits(samebits.linear(x, w))
    assert bits(samebits.matmul(x, w.T)) == bits(samebits.linear(x, w))


@pytest.mark.parametrize("order", ["portable-1", "int8-1"])
@pytest.mark.parametrize("format", [name for name, (block, _) in samebits.formats().items() if block > 1])
def test_quantised(rng, format, order):
    block, size = samebits.formats()[format]
    w = rng.integers(0, 256, (40, 512 // block * size), np.uint8)
    x = rng.standard_normal((19, 512), np.float32)
    weights = samebits.Weights(w, format)
    assert weights.shape == (40, 512) and weights.format == format
    assert not moves(lambda rows: samebits.linear(rows, weights, order=order), x)


def test_device_order(rng):
    x, w = rng.standard_normal((2, 37, 515)).astype(ml_dtypes.bfloat16)
    weights, out = samebits.Weights(w), np.empty((37, 37), np.float32)
    assert not moves(lambda rows: samebits.linear(rows, weights, order="amx-1"), x)
    portable = samebits.linear(x, weights, out=out).copy()
    assert bits(samebits.linear(x, weights, order="amx-1", out=out)) != bits(portable)
    with pytest.raises(TypeError, match="want bf16"):
        samebits.linear(x.astype(np.float32), weights, order="amx-1")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(rng, dtype):
    x = rng.standard_normal((21, 700)).astype(dtype)
    weight = rng.standard_normal(700).astype(dtype)
    for function in (
        samebits.softmax,
        samebits.log_softmax,
        lambda rows: samebits.rms_norm(rows, weight),
        lambda rows: samebits.layer_norm(rows, weight, weight),
    ):
        assert not moves(function, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention(rng, dtype):
    q = rng.standard_normal((1, 4, 9, 64)).astype(dtype)
    k, v = rng.standard_normal((2, 1, 2, 40, 64)).astype(dtype)
    whole = samebits.attention(q, k, v, causal=True)
    for i in range(9):
        one = samebits.attention(q[:, :, i : i + 1], k[:, :, : 32 + i], v[:, :, : 32 + i], causal=True)
        assert bits(one) == bits(whole[:, :, i : i + 1])
    order = rng.permutation(40)
    assert bits(samebits.attention(q, k[:, :, order], v[:, :, order])) == bits(samebits.attention(q, k, v))


def blocks(scale, integers):
    """Blocks of 32 integers, bytes a row, with the same scale before each: q8_0, or q4_0 with 8 added."""
    head = np.full((*integers.shape[:-1], integers.shape[-1] // 32, 1), scale, np.float16).view(np.uint8)
    rows = integers.reshape(*head.shape[:-1], 32)
    if integers.dtype == np.uint8:
        rows = rows[..., :16] | rows[..., 16:] << 4
    return np.concatenate([head, rows.view(np.uint8)], -1).reshape(*integers.shape[:-1], -1)


def test_attention_blocks(rng):
    q = rng.standard_normal((1, 4, 9, 64), np.float32)
    k, v = rng.integers(-128, 128, (2, 1, 2, 40, 64)).astype(np.int8)
    whole = samebits.attention(q, (k / 64).astype(np.float16), (v / 8).astype(np.float16))
    assert bits(samebits.attention(q, blocks(1 / 64, k), blocks(1 / 8, v))) == bits(whole)
    k, v = rng.integers(0, 16, (2, 1, 2, 40, 64)).astype(np.uint8)
    whole = samebits.attention(q, ((k - 8.0) / 4).astype(np.float16), (v - 8.0).astype(np.float16))
    both = {"k_format": "q4_0", "v_format": "q4_0"}
    assert bits(samebits.attention(q, blocks(1 / 4, k), blocks(1, v), **both)) == bits(whole)
    with pytest.raises(ValueError, match="want q4_0"):
        samebits.attention(q, blocks(1 / 4, k), blocks(1, v), k_format="q4_k", v_format="q4_0")
    with pytest.raises(ValueError, match="no weight format"):
        samebits.attention(q, blocks(1 / 4, k), blocks(1, v), k_format="q9_0")


def test_threads(rng):
    x, w = rng.standard_normal((65, 1000), np.float32), rng.standard_normal((300, 1000), np.float32)
    whole = samebits.linear(x, w)
    before = samebits.get_num_threads()
    try:
        for threads in (1, 2, 5, 16):
            samebits.set_num_threads(threads)
            assert samebits.get_num_threads() == threads
            assert bits(samebits.linear(x, w)) == bits(whole)
    finally:
        samebits.set_num_threads(before)


def test_neighbours_nan(rng):
    x, w = rng.standard_normal((5, 300), np.float32), rng.standard_normal((9, 300), np.float32)
    whole = samebits.linear(x, w)
    x[3] = np.nan
    have = samebits.linear(x, w)
    assert bits(have[:3]) == bits(whole[:3]) and bits(have[4:]) == bits(whole[4:]) and np.isnan(have[3]).all()


def test_close_to_float64(rng):
    x, w = rng.standard_normal((8, 2000), np.float32), rng.standard_normal((9, 2000), np.float32)
    exact = x.astype(np.float64) @ w.T.astype(np.float64)
    error = np.sqrt(np.mean((samebits.linear(x, w) - exact) ** 2) / np.mean(exact**2))
    assert error < 1e-6
