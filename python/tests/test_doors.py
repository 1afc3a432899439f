"""The same bits in every door: the C library, NumPy functions, PyTorch's mode, MLX and the ggml plugin get the same
tensors. SAMEBITS_TEST_GGML names a folder with ggml's libraries, SAMEBITS_TEST_PLUGIN the plugin for them."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys

import ggml_door
import ml_dtypes
import numpy as np
import pytest
import samebits
from c_door import dl, library
from conftest import bits

DTYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
FORMATS = {"f32": 0, "q4_0": 3, "q8_0": 7, "q4_k": 12}  # samebits_format
ORDERS = {"portable-1": 1, "int8-1": 2}  # samebits_order
SCALE = 0.125
CASES = [f"linear {t}" for t in DTYPES] + [f"attention {t}" for t in DTYPES] + ["rms_norm f32", "softmax f32"]
CASES += [f"{order} {name}" for order in ORDERS for name in ("q4_0", "q8_0", "q4_k")]


def blocks(rng, name, rows, k):
    """Weights of a GGUF format: random bytes with scales of about 1."""
    block, size = samebits.formats()[name]
    data = rng.integers(0, 256, (rows, k // block, size), np.uint8)
    for at in (0, 2) if name == "q4_k" else (0,):
        scales = rng.uniform(0.5, 1.5, (rows, k // block, 1)).astype(np.float16)
        data[..., at : at + 2] = scales.view(np.uint8)
    return data.reshape(rows, -1)


@functools.cache
def arguments():
    """The tensors of every case."""
    rng, found = np.random.default_rng(5), {}
    for case in CASES:
        op, kind = case.split()
        dtype = DTYPES.get(kind, DTYPES["f32"])
        if op == "attention":
            found[case] = {
                name: rng.standard_normal((1, h, 37, 64)).astype(dtype) for name, h in (("q", 4), ("k", 2), ("v", 2))
            }
            continue
        found[case] = {"x": rng.standard_normal((7, 512)).astype(dtype)}
        if op == "linear":
            found[case]["w"] = rng.standard_normal((65, 512)).astype(dtype)
        elif op in ORDERS:
            found[case]["w"] = blocks(rng, kind, 65, 512)
    return found


def numbers_of_q4_0(w):
    """What Q4_0 blocks stand for, as scales (N, blocks) and integers (N, K) from 0 to 15, less 8."""
    block = w.reshape(len(w), -1, 18)
    scales = block[..., :2].copy().view(np.float16)[..., 0].astype(np.float32)
    codes = np.concatenate([block[..., 2:] & 15, block[..., 2:] >> 4], axis=-1)
    return scales, codes.reshape(len(w), -1)


# --- the C library ---


class AttentionParams(ctypes.Structure):
    _fields_ = [
        *(("size", ctypes.c_size_t), ("scale", ctypes.c_float), ("softcap", ctypes.c_float), ("causal", ctypes.c_int)),
        ("others", ctypes.c_uint64 * 32),
    ]


def c_library(case, x=None, w=None, q=None, k=None, v=None):
    c, context = library()
    op, kind = case.split()
    shape = q.shape if op == "attention" else x.shape if w is None else (len(x), len(w))
    out = np.empty(shape, (x if q is None else q).dtype)
    ref, to = ctypes.byref, dl(out)
    if op == "linear":
        status = c.samebits_linear(context, ref(dl(x)), ref(dl(w)), None, ref(to))
    elif op in ORDERS:
        order, gguf = ORDERS[op], FORMATS[kind]
        status = c.samebits_matmul_quantized(context, ref(dl(x)), ref(dl(w)), gguf, order, None, ref(to))
    elif op == "attention":
        params = AttentionParams()
        c.samebits_attention_params_default(ref(params))
        params.scale, params.causal = SCALE, 1
        status = c.samebits_attention(context, ref(dl(q)), ref(dl(k)), ref(dl(v)), ref(params), ref(to))
    elif op == "softmax":
        status = c.samebits_softmax(context, ref(dl(x)), None, ref(to))
    else:
        status = c.samebits_rms_norm(context, ref(dl(x)), None, ctypes.c_float(ggml_door.EPS), ref(to))
    assert status == 0
    return out


# --- the others: a case's result, as bits in the dtype of its first argument ---


def numpy_functions(case, x=None, w=None, q=None, k=None, v=None):
    op, kind = case.split()
    if op == "linear":
        return bits(samebits.linear(x, w))
    if op in ORDERS:
        return bits(samebits.linear(x, samebits.Weights(w, kind), order=op))
    if op == "attention":
        return bits(samebits.attention(q, k, v, scale=SCALE, causal=True))
    return bits(samebits.softmax(x) if op == "softmax" else samebits.rms_norm(x, eps=ggml_door.EPS))


def torch_mode(case, **arrays):
    """Q4_0 weights as the numbers they stand for: a quantised product is that with the numbers."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    mode = pytest.importorskip("samebits.torch").mode
    op, _ = case.split()
    if op in ORDERS:
        scales, codes = numbers_of_q4_0(arrays["w"])
        arrays["w"] = np.repeat(scales, 32, axis=1) * (codes.astype(np.float32) - 8)

    def tensor(array):
        if array.dtype == DTYPES["bf16"]:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    f, given = torch.nn.functional, {name: tensor(array) for name, array in arrays.items()}
    with torch.no_grad(), mode(strict=True):
        if op == "attention":
            q, k, v = given.values()
            out = f.scaled_dot_product_attention(q, k, v, is_causal=True, scale=SCALE, enable_gqa=True)
        elif op == "softmax":
            out = f.softmax(given["x"], -1)
        elif op == "rms_norm":
            out = f.rms_norm(given["x"], given["x"].shape[-1:], eps=ggml_door.EPS)
        else:
            out = f.linear(given["x"], given["w"])
    return bits(out.contiguous().view(torch.uint8).numpy())


def mlx(case, **arrays):
    """Q4_0 weights as affine ones: fma(scale, q, -8 scale)."""
    mx = pytest.importorskip("mlx.core", reason="MLX is not installed")
    try:
        import samebits.mlx as sm
    except ImportError as error:
        pytest.skip(f"the MLX extension is not built: {error}")
    op, _ = case.split()
    given = {name: mx.array(array) for name, array in arrays.items()}
    if op == "linear":
        out = sm.linear(given["x"], given["w"])
    elif op == "attention":
        out = sm.scaled_dot_product_attention(*given.values(), scale=SCALE, mask="causal")
    else:
        scales, codes = numbers_of_q4_0(arrays["w"])
        words = (codes[:, 1::2] << 4 | codes[:, ::2]).view(np.uint32)
        packed = mx.array(words), mx.array(scales), mx.array(-8 * scales)
        out = sm.quantized_matmul(given["x"], *packed, group_size=32, bits=4)
    return bytes(memoryview(mx.contiguous(out).view(mx.uint8)))


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The plugin's results of all cases. It reads its order when it is loaded, so there is a process for each."""
    folder, file = (os.environ.get(f"SAMEBITS_TEST_{name}") for name in ("GGML", "PLUGIN"))
    if not folder or not file:
        pytest.skip("SAMEBITS_TEST_GGML and SAMEBITS_TEST_PLUGIN are not set: ggml is not built")
    found = {}
    for order in ORDERS:
        stored = {}
        for case in (case for case in CASES if (case.split()[0] == "int8-1") == (order == "int8-1")):
            given = dict(arguments()[case])
            first = next(iter(given))
            given[first] = given[first].astype(np.float32)  # ggml's activations
            for name, array in given.items():
                stored[f"{case} {name}"] = array.view(np.uint16) if array.itemsize == 2 else array
            if "q" in given:
                stored[f"{case} scale"] = np.float32(SCALE)
        inputs, outputs = (tmp_path_factory.mktemp("ggml") / name for name in ("inputs.npz", "outputs.npz"))
        np.savez(inputs, **stored)
        known = {key: value for key, value in os.environ.items() if key != "GGML_BACKEND_PATH"}
        command = [sys.executable, ggml_door.__file__, folder, file, str(inputs), str(outputs)]
        done = subprocess.run(command, capture_output=True, text=True, env={**known, "SAMEBITS_ORDER": order})
        assert done.returncode == 0, done.stderr
        with np.load(outputs) as results:
            found |= {case: results[case] for case in results}
    return found


NO_WEIGHTS = [case for case in CASES if case.split()[0] in ORDERS and case != "portable-1 q4_0"]
MLX_ITS_OWN = ["rms_norm f32", "softmax f32"]
DOORS = [(numpy_functions, []), (torch_mode, NO_WEIGHTS), (mlx, NO_WEIGHTS + MLX_ITS_OWN)]


@pytest.mark.parametrize(
    ("door", "case"),
    [pytest.param(door, case, id=f"{door.__name__}-{case}") for door, no in DOORS for case in CASES if case not in no],
)
def test_door(door, case):
    assert door(case, **arguments()[case]) == bits(c_library(case, **arguments()[case]))


@pytest.mark.parametrize("case", CASES)
def test_plugin(case, plugin):
    want = c_library(case, **arguments()[case])
    have = plugin[case]
    assert have.dtype == np.float32 and have.shape == want.shape
    assert bits(have.astype(want.dtype)) == bits(want)  # the plugin's are float32, and there is one rounding


@pytest.mark.parametrize("case", ["linear f32", "portable-1 q4_0"])
def test_the_comparison_sees_other_orders(case):
    """The control: NumPy's own product of the same numbers has other bits, and so has the other order."""
    given = arguments()[case]
    have = bits(c_library(case, **given))
    if case == "linear f32":
        assert bits(given["x"] @ given["w"].T) != have
    else:
        assert bits(c_library("int8-1 q4_0", **given)) != have
