"""Weights of MLX's tensors: the bits of the C library on the same memory, MLX's own arrays, errors."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest
import samebits
from c_door import dl, library
from conftest import bits

N, K, ORDERS = 37, 256, {"portable-1": 1, "int8-1": 2}  # samebits_order
SCALED = {"mlx_mxfp4": (21, 4, 32), "mlx_mxfp8": (22, 8, 32), "mlx_nvfp4": (23, 4, 16)}  # samebits_format, bits, group
AFFINE = [(2, 64, np.float16), (3, 32, ml_dtypes.bfloat16), (4, 64, np.float32), (8, 128, np.float16)]


def words(rng, width):
    return rng.integers(0, 2**32, (N, K * width // 32), np.uint32)


def affine(rng, width, group, dtype):
    scales, biases = rng.standard_normal((2, N, K // group)).astype(dtype)
    return words(rng, width), scales, biases


def scaled(rng, name):
    """The scales are of moderate size, and no weight is NaN."""
    _, width, group = SCALED[name]
    scales = rng.integers(*((40, 80) if group == 16 else (117, 125)), (N, K // group), np.uint8)
    return words(rng, width) & np.uint32(0xFEFEFEFE if width == 8 else 0xFFFFFFFF), scales


def in_c(function, x, order, arrays, *settings):
    """The product with the weights as they lie, along K."""
    c, context = library()
    out, ref = np.empty((len(x), N), np.float32), ctypes.byref
    tensors = [ref(dl(array)) for array in (x, *arrays)]
    assert getattr(c, function)(context, *tensors, *settings, 1, ORDERS[order], None, ref(dl(out))) == 0
    return out


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("width", "group", "dtype"), AFFINE)
def test_affine(rng, width, group, dtype, order):
    x, arrays = rng.standard_normal((5, K), np.float32), affine(rng, width, group, dtype)
    weights = samebits.Weights.from_affine(*arrays, bits=width, group_size=group)
    assert weights.shape == (N, K) and weights.format == f"affine_{width}"
    want = in_c("samebits_matmul_affine", x, order, arrays, width, group)
    assert bits(samebits.linear(x, weights, order=order)) == bits(want)
    arrays[2][0, 0] += 1  # the control: packed anew, one number moves its row's
    other = samebits.Weights.from_affine(*arrays, bits=width, group_size=group)
    moved = (samebits.linear(x, other, order=order) != want).any(axis=0)
    assert moved[0] and not moved[1:].any()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SCALED)
def test_scaled(rng, name, order):
    x, arrays = rng.standard_normal((5, K), np.float32), scaled(rng, name)
    weights = samebits.Weights.from_scaled(*arrays, name)
    assert weights.shape == (N, K) and weights.format == name
    if (name, order) == ("mlx_mxfp8", "int8-1"):
        with pytest.raises(ValueError, match="mlx_mxfp8"):
            samebits.linear(x, weights, order=order)
        return
    want = in_c("samebits_matmul_scaled", x, order, arrays, SCALED[name][0])
    assert np.isfinite(want).all()
    assert bits(samebits.linear(x, weights, order=order)) == bits(want)
    as_bytes = samebits.Weights.from_scaled(arrays[0].view(np.uint8), arrays[1], name)
    assert bits(samebits.linear(x, as_bytes, order=order)) == bits(want)
    arrays[1][0, 0] += 1  # the control: packed anew, one scale moves its row's
    moved = (samebits.linear(x, samebits.Weights.from_scaled(*arrays, name), order=order) != want).any(axis=0)
    assert moved[0] and not moved[1:].any()


@pytest.mark.parametrize("mode", ["affine", "mxfp4", "mxfp8", "nvfp4"])
def test_mlx_arrays(rng, mode):
    """MLX's own arrays, read where they lie, beside NumPy's copies of them."""
    mx = pytest.importorskip("mlx.core", reason="MLX is not installed")
    x, w = rng.standard_normal((5, K), np.float32), mx.array(rng.standard_normal((N, K), np.float32))
    arrays = mx.quantize(w, mode=mode)
    copies = [np.array(array) for array in arrays]
    if mode == "affine":
        pair = [samebits.Weights.from_affine(*a, bits=4, group_size=64) for a in (arrays, copies)]
    else:
        pair = [samebits.Weights.from_scaled(*a, f"mlx_{mode}") for a in (arrays, copies)]
    have, want = (samebits.linear(x, weights) for weights in pair)
    assert bits(have) == bits(want) and np.abs(have - x @ np.array(w).T).max() < 10


def test_errors(rng):
    w, scales, biases = affine(rng, 4, 64, np.float32)
    make = samebits.Weights.from_affine
    for error, match, call in (
        (ValueError, "bits is 7", lambda: make(w, scales, biases, bits=7, group_size=64)),
        (ValueError, "group is 48", lambda: make(w, scales, biases, bits=4, group_size=48)),
        (ValueError, "scales is", lambda: make(w, scales[:, 1:], biases, bits=4, group_size=64)),
        (TypeError, "biases is f16", lambda: make(w, scales, biases.astype(np.float16), bits=4, group_size=64)),
        (TypeError, "w is", lambda: make(scales, scales, biases, bits=4, group_size=64)),
        (TypeError, "biases is no array", lambda: make(w, scales, 3, bits=4, group_size=64)),
        (ValueError, "biases is NULL", lambda: make(w, scales, None, bits=4, group_size=64)),
        (ValueError, "MLX_MXFP4", lambda: samebits.Weights.from_scaled(w, scales, "q4_0")),
        (ValueError, "no weight format", lambda: samebits.Weights.from_scaled(w, scales, "mlx_mxfp9")),
        (TypeError, "scales is f32", lambda: samebits.Weights.from_scaled(w, scales, "mlx_mxfp4")),
    ):
        with pytest.raises(error, match=match):
            call()
