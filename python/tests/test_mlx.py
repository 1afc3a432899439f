"""MLX: rows stand still in products, quantised products, experts and attention; errors."""

from __future__ import annotations

import runpy
import subprocess
import sys
import warnings

import numpy as np
import pytest
import samebits
from mlx_support import DTYPES, bits, close, moved, mx, nn, random, seed, sm  # noqa: F401
from samebits import build_mlx

AFFINE = [(bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
FLOAT_MODES = ["mxfp4", "mxfp8", "nvfp4"]


def split_k(x, w):
    """A product whose order depends on the batch: what a library may do, and what these tests have to see."""
    half = 250 if x.shape[0] == 1 else 300
    return x[:, :half] @ w[:, :half].T + x[:, half:] @ w[:, half:].T


# --- rows ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name",
    [
        "linear",
        "bias",
        "matmul",
        "transposed",
        "@",
        "nn.Linear",
        "einsum",
        "tensordot",
        "inner",
        "addmm",
        "@=",
    ],
)
def test_rows(name, dtype):
    w, b = random(65, 515, dtype=dtype), random(65, dtype=dtype)
    right = mx.contiguous(w.T)
    layer = nn.Linear(515, 65)
    layer.update({"weight": w, "bias": b})

    def in_place(x):
        x = mx.array(x)
        x @= right
        return x

    function = {
        "linear": lambda x: sm.linear(x, w),
        "bias": lambda x: sm.linear(x, w, b),
        "matmul": lambda x: mx.matmul(x, right),
        "transposed": lambda x: mx.matmul(x, w.T),
        "@": lambda x: x @ w.T,
        "nn.Linear": layer,
        "einsum": lambda x: mx.einsum("bk,nk->bn", x, w),
        "tensordot": lambda x: mx.tensordot(x, right, 1),
        "inner": lambda x: mx.inner(x, w),
        "addmm": lambda x: mx.addmm(b, x, right, alpha=0.5, beta=2.0),
        "@=": in_place,
    }[name]
    x = random(33, 515, dtype=dtype)
    stock = function(x)
    with sm.batch_invariant_mode() as mode:
        ours = function(x)
        assert not moved(function, x)
    assert name in ("linear", "bias") or sum(mode.invariant.values()) > 0
    assert not mode.stock and ours.dtype == stock.dtype and ours.shape == stock.shape
    assert close(ours, stock, 1e-3 if dtype == mx.float32 else 0.3)


def test_the_comparison_sees_what_moves():
    """The control: an order that depends on the batch moves rows, in the mode too."""
    w, x = random(65, 515), random(33, 515)
    assert 1 in moved(lambda x: split_k(x, w), x)
    with sm.batch_invariant_mode():
        assert 1 in moved(lambda x: split_k(x, w), x)


def test_stock_moves():
    """Float32 goes to the BLAS that MLX was built with: what it moves stands still in a mode."""
    w, x = random(256, 1024), random(33, 1024)
    stock = moved(lambda x: x @ w.T, x)
    with sm.batch_invariant_mode():
        assert not moved(lambda x: x @ w.T, x)
    if not stock:
        pytest.skip("stock is already invariant here")


SHAPES = [((5, 7, 64), (64, 9)), ((2, 3, 5, 64), (3, 64, 9)), ((64,), (64, 9)), ((5, 64), (64,))]


@pytest.mark.parametrize("shapes", SHAPES)
def test_shapes_are_stocks(shapes):
    a, b = random(*shapes[0]), random(*shapes[1])
    stock, ours = mx.matmul(a, b), sm.matmul(a, b)
    assert ours.shape == stock.shape and close(ours, stock, 1e-4)
    c = random(shapes[1][-1]) if len(shapes[1]) > 1 else random(1)
    assert close(sm.addmm(c, a, b, 0.5, 2.0), mx.addmm(c, a, b, 0.5, 2.0), 1e-4)


def test_views():
    a, b = random(12, 80), random(80, 40)
    for x, y in ((a[::-1], b), (a[:, ::2], b[::2]), (a, b[:, ::-1]), (a[3:4], b.T.T), (a[:, :0], b[:0])):
        assert bits(sm.matmul(x, y)) == bits(sm.matmul(mx.array(np.array(x)), mx.array(np.array(y))))
    batch = random(4, 6, 80)
    whole = sm.matmul(batch, mx.broadcast_to(b, (4, 80, 40)))
    assert bits(whole[2]) == bits(sm.matmul(batch[2], b)) == bits(sm.matmul(batch, b)[2])


def test_complex():
    a, b = (random(7, 60) + 1j * random(7, 60)), (random(60, 5) + 1j * random(60, 5))
    assert not moved(lambda x: sm.matmul(x, b), a)
    assert bool(mx.all(mx.abs(sm.matmul(a, b) - a @ b) < 1e-4))
    assert bits(sm.matmul(a, b)) == samebits.matmul(np.array(a), np.array(b)).tobytes()


def test_complex_addmm():
    a, b, c = (random(*shape) + 1j * random(*shape) for shape in ((7, 60), (60, 5), (5,)))
    with sm.batch_invariant_mode() as active:
        assert not moved(lambda x: mx.addmm(c, x, b, alpha=0.5, beta=2.0), a)
    assert set(active.invariant) == {"matmul"} and not active.stock


def test_depth_of_none():
    c = random(3, 5)
    assert bits(sm.addmm(c, random(3, 0), random(0, 5), alpha=3.0, beta=2.0)) == bits(2 * c)


def test_dtypes_are_promoted():
    """A product of two dtypes is that of the wider one, as stock's."""
    x, w = random(9, 300), random(300, 20).astype(mx.bfloat16)
    assert bits(sm.matmul(x, w)) == bits(sm.matmul(x, w.astype(mx.float32)))
    assert (x.astype(mx.float16) @ w).dtype == sm.matmul(x.astype(mx.float16), w).dtype == mx.float32


def test_linear_algebra():
    """Functions of mx.linalg that multiply: each matrix, and each right side, as alone."""
    with mx.stream(mx.cpu):
        a, b = random(9, 40, 40) + 8 * mx.eye(40), random(40, 33)
        functions = {
            "pinv": mx.linalg.pinv,
            "cholesky_inv": lambda a: mx.linalg.cholesky_inv(mx.tril(a)),
            "solve": lambda a: mx.linalg.solve(a, mx.broadcast_to(b, (a.shape[0], 40, 33))),
            "solve_triangular": lambda a: mx.linalg.solve_triangular(mx.tril(a), b),
        }
        for name, function in functions.items():
            stock = function(a)
            with sm.batch_invariant_mode() as active:
                assert not moved(getattr(mx.linalg, name) if name == "pinv" else function, a), name
            assert active.invariant["matmul"] > 0 and not active.stock
            assert close(function(a), stock, 1e-3)
        with sm.batch_invariant_mode():
            whole = mx.linalg.solve_triangular(mx.tril(a[0]), b)
            assert bits(mx.linalg.solve_triangular(mx.tril(a[0]), b[:, 4:5])) == bits(whole[:, 4:5])


def test_float64():
    with mx.stream(mx.cpu):
        a, b, c = (random(*shape).astype(mx.float64) for shape in ((7, 300), (300, 5), (7, 5)))
        assert not moved(lambda x: sm.matmul(x, b), a)
        assert bool(mx.all(mx.abs(sm.matmul(a, b) - a @ b) < 1e-12))
        want = samebits.matmul(np.array(a), np.array(b), c=np.array(c), alpha=0.5, beta=2.0)
        assert bits(sm.addmm(c, a, b, alpha=0.5, beta=2.0)) == want.tobytes()


# --- quantised ---


def quantize(w, mode):
    return mx.quantize(w, mode=mode) if mode in FLOAT_MODES else mx.quantize(w, group_size=mode[1], bits=mode[0])


def arguments(mode):
    return {"mode": mode} if mode in FLOAT_MODES else {"group_size": mode[1], "bits": mode[0]}


@pytest.mark.parametrize("mode", AFFINE + FLOAT_MODES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_quantized(mode, dtype):
    w, x, kwargs = random(48, 256, dtype=dtype), random(9, 256, dtype=dtype), arguments(mode)
    parts = quantize(w, mode)
    wide = [p if p.dtype in (mx.uint32, mx.uint8) else p.astype(mx.float32) for p in parts]
    stock = mx.quantized_matmul(x.astype(mx.float32), *wide, **kwargs)  # in bfloat16 it accumulates in that
    with sm.batch_invariant_mode() as active:
        assert not moved(lambda x: mx.quantized_matmul(x, *parts, **kwargs), x)
        ours = mx.quantized_matmul(x, *parts, **kwargs)
    assert set(active.invariant) == {"quantized_matmul"} and ours.dtype == dtype
    assert close(ours, stock, 1e-3 if dtype == mx.float32 else 0.2)
    # The other way round, against the numbers that the weights stand for.
    y = random(3, 48, dtype=dtype)
    numbers = sm.quantized_matmul(mx.eye(256), *wide, **kwargs).T
    want = sm.matmul(y.astype(mx.float32), numbers).astype(dtype)
    assert bits(sm.quantized_matmul(y, *parts, transpose=False, **kwargs)) == bits(want)
    assert bits(sm.matmul(x.astype(mx.float32), numbers.T).astype(dtype)) == bits(ours)


def test_quantized_layer():
    """nn.QuantizedLinear adds its bias after the product, rounded a second time."""
    layer = nn.QuantizedLinear(256, 48, bits=4, group_size=64)
    layer.update({"bias": random(48)})
    layer.set_dtype(mx.bfloat16)
    x = random(9, 256, dtype=mx.bfloat16)
    with sm.batch_invariant_mode() as active:
        assert not moved(layer, x)
        ours = layer(x)
    parts = layer.weight, layer.scales, layer.biases
    assert bits(ours) == bits(sm.quantized_matmul(x, *parts, group_size=64, bits=4) + layer.bias)
    assert set(active.invariant) == {"quantized_matmul"}


def test_quantized_batches():
    """Keys of a quantised cache: a matrix for each head, shared by the heads of its group."""
    parts = mx.quantize(random(2, 3, 1, 10, 64), group_size=32, bits=8)
    x = random(2, 3, 4, 5, 64)
    ours = sm.quantized_matmul(x, *parts, group_size=32, bits=8)
    assert ours.shape == (2, 3, 4, 5, 10)
    one = sm.quantized_matmul(x[1, 2, 3], *(p[1, 2, 0] for p in parts), group_size=32, bits=8)
    assert bits(ours[1, 2, 3]) == bits(one)
    values = sm.quantized_matmul(random(2, 3, 4, 5, 10), *parts, transpose=False, group_size=32, bits=8)
    assert values.shape == (2, 3, 4, 5, 64)


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gather(sort, dtype):
    x, w = random(6, 1, 64, dtype=dtype), random(4, 32, 64, dtype=dtype)
    right = mx.array([[0, 3], [1, 1], [2, 0], [3, 3], [0, 1], [2, 2]], dtype=mx.uint32)
    left = mx.broadcast_to(mx.arange(6, dtype=mx.uint32)[:, None], (6, 2))
    if sort:
        order = mx.argsort(right.flatten())
        right, left = right.flatten()[order], left.flatten()[order]
    parts = mx.quantize(w, group_size=32, bits=4)
    with sm.batch_invariant_mode() as active:
        ours = mx.gather_mm(x, w.swapaxes(-1, -2), left, right, sorted_indices=sort).reshape(-1, 32)
        packed = mx.gather_qmm(x, *parts, left, right, group_size=32, bits=4, sorted_indices=sort).reshape(-1, 32)
        wide = mx.gather_qmm(x[..., :32], *parts, left, right, transpose=False, group_size=32, bits=4)
    assert active.invariant == {"gather_mm": 1, "gather_qmm": 2}
    for i, (at, expert) in enumerate(zip(left.flatten().tolist(), right.flatten().tolist(), strict=True)):
        mine = [p[expert] for p in parts]
        assert bits(ours[i]) == bits(sm.linear(x[at], w[expert])[0])
        assert bits(packed[i]) == bits(sm.quantized_matmul(x[at], *mine, group_size=32, bits=4)[0])
        one = sm.quantized_matmul(x[at, :, :32], *mine, transpose=False, group_size=32, bits=4)
        assert bits(wide.reshape(-1, 64)[i]) == bits(one[0])


def test_gather_of_an_expert_that_is_not():
    with pytest.raises((ValueError, RuntimeError, IndexError), match="an index is 4"):
        mx.eval(sm.gather_mm(random(1, 1, 8), random(4, 8, 8), rhs_indices=mx.array([4], dtype=mx.uint32)))


# --- attention ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4, 64, 64), (4, 2, 80, 80), (4, 1, 192, 128), (2, 2, 37, 5), (2, 1, 576, 512)])
def test_attention(dtype, shape):
    heads, kv, d, dv = shape
    q, k, v = random(2, heads, 9, d, dtype=dtype), random(2, kv, 13, d, dtype=dtype), random(2, kv, 13, dv, dtype=dtype)
    keep = mx.random.uniform(shape=(2, 1, 9, 13)) > 0.3
    sinks = random(heads, dtype=dtype)
    tried = ({}, {"mask": "causal"}, {"mask": keep}, {"mask": random(9, 13, dtype=dtype)}, {"sinks": sinks})
    for kwargs in tried:
        stock = mx.fast.scaled_dot_product_attention(q, k, v, scale=d**-0.5, **kwargs)
        with sm.batch_invariant_mode() as active:
            ours = mx.fast.scaled_dot_product_attention(q, k, v, scale=d**-0.5, **kwargs)
        assert active.invariant == {"scaled_dot_product_attention": 1} and ours.dtype == stock.dtype
        assert close(ours, stock, 1e-4 if dtype == mx.float32 else 5e-2)
        one = {key: m[1:] if getattr(m, "ndim", 0) == 4 else m for key, m in kwargs.items()}
        assert bits(sm.scaled_dot_product_attention(q[1:], k[1:], v[1:], scale=d**-0.5, **one)) == bits(ours[1:])


def test_attention_padding_and_chunks():
    q, k, v = random(1, 4, 9, 64), random(1, 2, 9, 64), random(1, 2, 9, 64)
    whole = sm.scaled_dot_product_attention(q, k, v, scale=0.125, mask="causal")
    chunk = sm.scaled_dot_product_attention(q[:, :, 6:], k, v, scale=0.125, mask="causal")
    assert bits(chunk) == bits(whole[:, :, 6:])
    pad = mx.full((1, 2, 5, 64), float("nan"))
    visible = mx.concatenate([mx.zeros((9, 5), dtype=mx.bool_), mx.tri(9, dtype=mx.bool_)], axis=1)
    padded = [mx.concatenate([pad, t], axis=2) for t in (k, v)]
    assert bits(sm.scaled_dot_product_attention(q, *padded, scale=0.125, mask=visible)) == bits(whole)
    nothing = sm.scaled_dot_product_attention(q, k, v, scale=0.125, mask=mx.zeros((9, 9), dtype=mx.bool_))
    assert bits(nothing) == bytes(nothing.nbytes)


# --- errors ---


def test_errors_are_stocks():
    x, w = random(2, 3), random(4, 5)
    with pytest.raises(ValueError, match="matmul"):
        sm.matmul(x, w)
    with pytest.raises(ValueError, match="Only inexact types"):
        sm.matmul(mx.ones((2, 2), dtype=mx.int32), mx.ones((2, 2), dtype=mx.int32))
    with pytest.raises(TypeError):
        sm.matmul(x, "w")
    with pytest.raises(ValueError, match=r"w is \(4, 5\) and bias \(3,\)"):
        sm.linear(random(2, 5), w, random(3))
    with pytest.raises(ValueError, match="rank 4"):
        sm.scaled_dot_product_attention(x, x, x, scale=1.0)
    with pytest.raises(TypeError, match="no argument 'window'"):
        sm._patches.attention(sm._functions._settings(), x, x, x, scale=1.0, window=3)
    with sm.batch_invariant_mode(), pytest.raises(ValueError, match="matmul"):
        x @ w


def test_broken_installations(monkeypatch, tmp_path):
    def imported(first):
        command = [sys.executable, "-c", f"import sys, mlx.core; {first}; import samebits.mlx"]
        return subprocess.run(command, capture_output=True, text=True).stderr

    no_extension = imported("sys.modules['samebits.mlx._extension'] = None")
    assert "no extension that this Python and MLX can load" in no_extension and "samebits.build_mlx" in no_extension
    other = "import types; e = types.ModuleType('e'); e.mlx_version, e.version = '0.1.0', '0.1.0'"
    other = imported(f"{other}; sys.modules['samebits.mlx._extension'] = e")
    assert "built for samebits 0.1.0 and MLX 0.1.0, but there are" in other
    assert "needs MLX" in imported("sys.modules['mlx.core'] = None; sys.modules['mlx'] = None")
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    with pytest.raises(build_mlx.BuildError, match="set CXX|is not installed"):
        build_mlx.build(tmp_path / "_extension.so")
    monkeypatch.setattr(build_mlx, "PACKAGE", tmp_path)
    with pytest.raises(build_mlx.BuildError, match="broken|is not installed"):
        build_mlx.build(tmp_path / "_extension.so")


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_stock_computes_invariantly(dtype):
    """What samebits leaves to MLX does not move there (0.32.4 on the CPU)."""
    functions = {
        "sum": lambda x: x.sum(-1, keepdims=True),
        "mean": lambda x: x.mean(-1, keepdims=True),
        "var": lambda x: x.var(-1, keepdims=True),
        "softmax": lambda x: mx.softmax(x, -1),
        "precise softmax": lambda x: mx.softmax(x, -1, precise=True),
        "logsumexp": lambda x: mx.logsumexp(x, -1, keepdims=True),
        "rms_norm": lambda x: mx.fast.rms_norm(x, None, 1e-6),
        "layer_norm": lambda x: mx.fast.layer_norm(x, None, None, 1e-6),
        "rope": lambda x: mx.fast.rope(x[:, None, :512], 64, traditional=False, base=1e4, scale=1.0, offset=3),
        "vecdot": lambda x: mx.vecdot(x, x[:, ::-1]),
        "cumsum": lambda x: mx.cumsum(x, -1),
        "logcumsumexp": lambda x: mx.logcumsumexp(x, -1),
        "group_norm": nn.GroupNorm(5, 515),
        "hadamard": lambda x: mx.hadamard_transform(x[:, :512]),
        "silu": nn.silu,
        "gelu": nn.gelu,
        "exp": mx.exp,
        "tanh": mx.tanh,
    }
    x = random(33, 515, dtype=dtype)
    assert [name for name, function in functions.items() if moved(function, x)] == []


@pytest.mark.parametrize(("version", "warns"), [(None, False), ("0.19.3", True), ("9.0.0.dev20270101", True)])
def test_versions(version, warns, monkeypatch):
    """An MLX that the tests have not run with is named, as is one that the extension was not built for."""
    extension = sys.modules["samebits.mlx._extension"]
    if version:
        monkeypatch.setattr(mx, "__version__", version)
        with pytest.raises(ImportError, match=f"built for .* but there are .* MLX {version}"):
            runpy.run_module("samebits.mlx._load")
        monkeypatch.setattr(extension, "mlx_version", version.partition(".dev")[0])
    with warnings.catch_warnings(record=True) as found:
        warnings.filterwarnings("always", message="samebits.mlx is tested")
        runpy.run_module("samebits.mlx._load")
    texts = [str(w.message) for w in found if "is tested with MLX" in str(w.message)]
    assert len(texts) == warns and (not warns or f"this is {version}" in texts[0])


def test_what_stock_computes_invariantly_in_float32():
    functions = {
        "fft": lambda x: mx.fft.fft(x).view(mx.float32),
        "rfft": lambda x: mx.fft.rfft(x).view(mx.float32),
        "norm": lambda x: mx.linalg.norm(x, axis=-1, keepdims=True),
        "cross_entropy": lambda x: nn.losses.cross_entropy(x, mx.zeros(x.shape[0], dtype=mx.int32)),
        "inv": lambda x: mx.linalg.inv(x[:, :16, None] * mx.eye(16) + x[:, None, 16:32], stream=mx.cpu),
    }
    x = random(33, 515)
    assert [name for name, function in functions.items() if moved(function, x)] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_stock_products_that_stand_still(dtype):
    """MLX's loops over float16, bfloat16 and quantised weights (0.32.4 on the CPU); those of float32 are a BLAS's."""
    w, x = random(48, 512, dtype=dtype), random(15, 512, dtype=dtype)
    parts = mx.quantize(w, group_size=64, bits=4)
    assert not moved(lambda x: mx.quantized_matmul(x, *parts, group_size=64, bits=4), x)
    assert dtype == mx.float32 or not moved(lambda x: x @ w.T, x)
