"""MLX: rows stand still in the functions, the modes and below the limit; laziness, compile, grad, vmap; errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="MLX is not installed")
nn = pytest.importorskip("mlx.nn", reason="MLX is not installed")
try:
    import samebits.mlx as sm
except ImportError as error:
    pytest.skip(f"the MLX extension is not built: {error}", allow_module_level=True)

import samebits  # noqa: E402

DTYPES = [mx.float32, mx.bfloat16, mx.float16]
AFFINE = [(bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
FLOAT_MODES = ["mxfp4", "mxfp8", "nvfp4"]


@pytest.fixture(autouse=True)
def seed():
    mx.random.seed(0)


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


def split_k(x, w):
    """A product whose order depends on the batch: what a library may do, and what these tests have to see."""
    half = 250 if x.shape[0] == 1 else 300
    return x[:, :half] @ w[:, :half].T + x[:, half:] @ w[:, half:].T


# --- rows ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name", ["linear", "bias", "matmul", "transposed", "@", "nn.Linear", "einsum", "tensordot", "inner", "addmm", "@="]
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


def test_other_doors_have_the_same_bits():
    x, w, b = random(9, 515), random(65, 515), random(65)
    ours = bits(sm.linear(x, w, b))
    arrays = [np.array(t) for t in (x, w, b)]
    assert samebits.linear(*arrays).tobytes() == ours
    assert samebits.linear(arrays[0], samebits.Weights(arrays[1]), arrays[2]).tobytes() == ours
    q, k, v = (random(2, 4, 7, 64) for _ in range(3))
    attention = samebits.attention(np.array(q), np.array(k), np.array(v), causal=True)
    assert attention.tobytes() == bits(sm.scaled_dot_product_attention(q, k, v, scale=64**-0.5, mask="causal"))
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    mode = pytest.importorskip("samebits.torch").mode

    x, w, b = (torch.from_numpy(a.copy()) for a in arrays)
    with torch.no_grad(), mode(strict=True):
        assert torch.nn.functional.linear(x, w, b).numpy().tobytes() == ours


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


# --- graphs ---


def test_laziness():
    """Where a call is made counts, not where it is evaluated."""
    x, w = random(9, 300), random(20, 300)
    want = bits(sm.linear(x, w))
    with sm.batch_invariant_mode():
        inside = (x * 1.0) @ w.T
    assert bits(inside) == want
    assert bits(sm.linear(x, w) + 0.0) == want


@pytest.mark.parametrize("shapeless", [False, True])
def test_compiled(shapeless):
    """A function that was compiled or traced anywhere follows the mode that it is called in."""
    w = random(300, 300)
    mx.eval(w)
    traced = []

    def function(x):
        traced.append(sm._modes.current() is not None)
        return mx.tanh(x @ w.T) * 2

    compiled, x = mx.compile(function, shapeless=shapeless), random(9, 300)
    before = compiled(x)
    with sm.batch_invariant_mode() as mode:
        inside = compiled(x)
        assert traced == [False, True] and mode.invariant == {"matmul": 1}
        assert bits(inside) == bits(mx.tanh(sm.linear(x, w)) * 2)
        assert not moved(compiled, x)
        fresh = mx.compile(function, shapeless=shapeless)
        assert bits(fresh(x)) == bits(inside)
    assert bits(fresh(x)) == bits(compiled(x)) == bits(before)
    assert traced[-1] is False


def test_compiled_in_other_threads():
    """A function that one thread has compiled follows the mode of the thread that calls it."""
    x, w = random(9, 300), random(30, 300)
    mx.eval(x, w)
    compiled = mx.compile(lambda x: mx.tanh(x @ w.T))
    stock, ours = bits(compiled(x)), bits(mx.tanh(sm.linear(x, w)))
    assert stock != ours
    seen = {}

    def work(name):
        with mx.stream(mx.new_stream(mx.cpu)):
            seen[name] = [bits(compiled(x))]
            with sm.batch_invariant_mode():
                seen[name].append(bits(compiled(x)))
            seen[name].append(bits(compiled(x)))

    def run(name):
        thread = threading.Thread(target=work, args=(name,))
        thread.start()
        thread.join()

    run("beside no mode")
    with sm.batch_invariant_mode():
        assert bits(compiled(x)) == ours
        run("beside a mode")
        assert bits(compiled(x)) == ours
    assert bits(compiled(x)) == stock
    assert seen == dict.fromkeys(seen, [stock, ours, stock]) and len(seen) == 2


def test_gradients():
    w, c = random(20, 64), random(20)
    keys, values = random(2, 12, 64), random(2, 12, 64)

    def loss(x):
        rows = mx.addmm(c, x, w.T)
        seen = mx.fast.scaled_dot_product_attention(
            x.reshape(1, 1, -1, 64), keys[None, :1], values[None, :1], scale=0.1
        )
        return (rows**2).sum() + seen.sum()

    def gradient(x):
        return mx.grad(loss)(x)

    x = random(12, 64)
    stock = gradient(x)
    with sm.batch_invariant_mode() as mode:
        assert not moved(gradient, x)
        assert close(gradient(x), stock, 1e-3)
    assert mode.invariant["matmul"] > mode.invariant["addmm"] and not mode.stock
    parts = mx.quantize(random(20, 64), group_size=32, bits=4)

    def quantized(x):
        return mx.grad(lambda x: (mx.quantized_matmul(x, *parts, group_size=32, bits=4) ** 2).sum())(x)

    stock = quantized(x)
    with sm.batch_invariant_mode():
        assert not moved(quantized, x) and close(quantized(x), stock, 1e-2)
        _, tangent = mx.jvp(lambda x: x @ w.T, [x], [x])
        assert bits(tangent[0]) == bits(x @ w.T)


def test_vmap():
    x, w = random(5, 7, 64), random(5, 64, 9)
    with sm.batch_invariant_mode() as mode:
        assert bits(mx.vmap(lambda a: a @ w[0])(x)) == bits(x @ w[0])
        assert bits(mx.vmap(lambda a, b: a @ b)(x, w)) == bits(x @ w)
        q = random(3, 1, 2, 5, 16)
        mapped = mx.vmap(lambda q: mx.fast.scaled_dot_product_attention(q, q, q, scale=1.0, mask="causal"))(q)
        want = [mx.fast.scaled_dot_product_attention(t, t, t, scale=1.0, mask="causal") for t in q]
        assert bits(mapped) == bits(mx.stack(want))
    assert not mode.stock


def test_packed_weights():
    """Packing begins at the second use, follows writes and goes with the array."""
    before = sm._extension.packed_bytes()
    x, w = random(3, 512), random(256, 512)
    mx.eval(x, w)
    want = bits(sm.matmul(x, mx.contiguous(w.T)))
    for _ in range(4):
        assert bits(sm.linear(x, w)) == want
    assert sm._extension.packed_bytes() == before + w.nbytes
    w[7] += 1
    for _ in range(3):
        assert bits(sm.linear(x, w)) == bits(sm.matmul(x, mx.contiguous(w.T))) != want
    sm.set_packing_budget(0)
    try:
        assert sm._extension.packed_bytes() == 0
        assert bits(sm.linear(x, w)) == bits(sm.matmul(x, mx.contiguous(w.T)))
        assert sm._extension.packed_bytes() == 0
    finally:
        sm.set_packing_budget(1 << 30)
    for _ in range(3):
        mx.eval(sm.linear(x, w))
    assert sm._extension.packed_bytes() == w.nbytes
    del w
    assert sm._extension.packed_bytes() == 0
    with pytest.raises(ValueError, match="-1 bytes"):
        sm.set_packing_budget(-1)


def test_threads():
    x, w = random(65, 1000), random(300, 1000)
    parts = mx.quantize(w[:, :960], group_size=64, bits=4)
    results = set()
    before = samebits.get_num_threads()
    try:
        for threads in (1, 2, 4):
            samebits.set_num_threads(threads)
            results.add((bits(sm.linear(x, w)), bits(sm.quantized_matmul(x[:, :960], *parts))))
    finally:
        samebits.set_num_threads(before)
    assert len(results) == 1


# --- modes and limits ---


def test_modes_nest_and_belong_to_their_thread():
    x, w = random(9, 64), random(20, 64)
    seen = {}

    def work():
        seen["outside"] = sm._modes.current()
        with mx.stream(mx.new_stream(mx.cpu)), sm.batch_invariant_mode() as mode:
            seen["bits"] = bits(x @ w.T)
            seen["mode"] = mode.invariant

    mx.eval(x, w)
    with sm.batch_invariant_mode() as outer:
        with sm.batch_invariant_mode(strict=False) as inner:
            mx.eval(mx.conv1d(random(1, 9, 3), random(4, 3, 3)))
            assert inner.stock == {"convolution float32": 1} == sm.report().stock
        with pytest.raises(NotImplementedError, match=r"convolution of float32, shapes \(1,9,3\), \(4,3,3\)"):
            mx.conv1d(random(1, 9, 3), random(4, 3, 3))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        here = bits(x @ w.T)
        assert outer.invariant == {"matmul": 1} and not outer.stock
    assert seen == {"outside": None, "bits": here, "mode": {"matmul": 1}}
    assert sm._modes.current() is None
    with pytest.raises(RuntimeError, match="no mode"):
        sm.report()


@pytest.mark.parametrize("call", ["float64", "conv2d", "block_masked_mm", "segmented_mm", "wide heads"])
def test_strict(call):
    calls = {
        "float64": lambda: random(2, 3).astype(mx.float64) @ random(3, 2).astype(mx.float64),
        "conv2d": lambda: mx.conv2d(random(1, 9, 9, 3), random(4, 3, 3, 3)),
        "block_masked_mm": lambda: mx.block_masked_mm(
            random(64, 64), random(64, 64), 32, mx.ones((2, 2), dtype=mx.bool_)
        ),
        "segmented_mm": lambda: mx.segmented_mm(random(4, 8), random(8, 4), mx.array([[0, 8]], dtype=mx.uint32)),
        "wide heads": lambda: mx.fast.scaled_dot_product_attention(*[random(1, 1, 3, 600)] * 3, scale=1.0),
    }
    function = calls[call]
    with mx.stream(mx.cpu):
        with sm.batch_invariant_mode(strict=False) as mode:
            function()
        assert sum(mode.stock.values()) == 1
        with sm.batch_invariant_mode(), pytest.raises(NotImplementedError, match="samebits has no"):
            function()


def test_limit():
    w, x = random(64, 512), random(6, 512)
    ours = bits(sm.linear(x, w))
    assert sm.get_batch_invariant_limit() == 0
    assert sm.set_batch_invariant_limit(4) == 0
    try:
        assert sm.get_batch_invariant_limit() == 4
        assert bits(x[:4] @ w.T) == bits(sm.linear(x[:4], w))
        # In batches of B rows are those of one matrix.
        assert bits(mx.broadcast_to(x[:4], (3, 4, 512)) @ mx.broadcast_to(w.T, (3, 512, 64))) == ours[: 4 * 256] * 3
        with sm.batch_invariant_mode() as mode:
            mx.eval(x @ w.T, x[:2] @ w.T)
            assert (mode.invariant, mode.stock) == ({"matmul": 1}, {"matmul float32": 1})
        with sm.batch_invariant_mode(limit=8):
            assert bits(x @ w.T) == ours
        compiled = mx.compile(lambda x: x @ w.T, shapeless=True)
        mx.eval(compiled(random(40, 512)))
        assert bits(compiled(x[:3])) == ours[: 3 * 256]
    finally:
        sm.set_batch_invariant_limit(0)
    for wrong in (lambda: sm.set_batch_invariant_limit(-1), lambda: sm.batch_invariant_mode(limit=0).__enter__()):
        with pytest.raises(ValueError):
            wrong()
    assert sm.get_batch_invariant_limit() == 0


@pytest.mark.parametrize("name", ["SAMEBITS_LIMIT", "MLX_METAL_BATCH_INVARIANT_LIMIT"])
def test_limit_of_the_environment(name, monkeypatch):
    try:
        for text, limit in (("8", 8), ("unlimited", sm._modes.UNLIMITED), ("0", 0)):
            monkeypatch.setenv(name, text)
            sm.limit_from_environment()
            assert sm.get_batch_invariant_limit() == limit
        monkeypatch.setenv(name, "many")
        with pytest.raises(ValueError, match=f"{name} is 'many'"):
            sm.limit_from_environment()
    finally:
        sm.set_batch_invariant_limit(0)


# --- mlx-lm ---


@pytest.fixture(scope="module")
def tiny():
    """A model of random 4-bit weights, as mlx-lm makes it."""
    pytest.importorskip("mlx_lm", reason="mlx-lm is not installed")
    from mlx_lm.models.llama import Model, ModelArgs

    mx.random.seed(1)
    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 256, "vocab_size": 300}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    model = Model(ModelArgs(model_type="llama", rms_norm_eps=1e-5, **sizes, **heads))
    model.set_dtype(mx.bfloat16)
    nn.quantize(model, group_size=64, bits=4)
    mx.eval(model.parameters())
    return model


def test_mlx_lm(tiny):
    """Batches, chunks and caches of a model that knows nothing of samebits."""
    from mlx_lm.models.cache import QuantizedKVCache, make_prompt_cache

    tokens = mx.random.randint(0, 300, (8, 24))
    with sm.batch_invariant_mode() as mode:
        alone = [bits(tiny(row[None])[0]) for row in tokens]
        for batch in (2, 4, 8):
            assert [bits(row) for row in tiny(tokens[:batch])] == alone[:batch]
        for chunk in (1, 5, 23):
            cache = make_prompt_cache(tiny)
            parts = [tiny(tokens[:1, i : i + chunk], cache=cache) for i in range(0, 24, chunk)]
            assert bits(mx.concatenate(parts, axis=1)[0]) == alone[0]
        quantized = []
        for chunk in (1, 24):
            cache = [QuantizedKVCache(group_size=32, bits=8) for _ in tiny.layers]
            parts = [tiny(tokens[:1, i : i + chunk], cache=cache) for i in range(0, 24, chunk)]
            quantized.append(bits(mx.concatenate(parts, axis=1)[0, -1:]))
    assert not mode.stock and mode.invariant["quantized_matmul"] > 100


def test_mlx_lm_generates(tiny):
    """batch_generate pads prompts on the left: each text is that of its prompt alone."""
    from mlx_lm.generate import BatchGenerator

    prompts = [mx.random.randint(0, 300, (n,)).tolist() for n in (3, 17, 9, 30, 5, 12, 24, 8)]

    def generate(some):
        generator, texts = BatchGenerator(tiny), {}
        uids = generator.insert(some, [12] * len(some))
        while responses := generator.next_generated():
            for r in responses:
                texts.setdefault(r.uid, []).append((r.token, bits(r.logprobs)))
        generator.close()
        return [texts[uid] for uid in uids]

    with sm.batch_invariant_mode() as mode:
        alone = [generate([prompt])[0] for prompt in prompts]
        for batch in (2, 4, 8):
            assert generate(prompts[:batch]) == alone[:batch]
    assert not mode.stock


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
        "silu": nn.silu,
        "gelu": nn.gelu,
        "exp": mx.exp,
        "tanh": mx.tanh,
    }
    x = random(33, 515, dtype=dtype)
    assert [name for name, function in functions.items() if moved(function, x)] == []
