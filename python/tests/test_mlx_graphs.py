"""MLX: graphs, compiled functions, gradients, vmap, packed weights, modes, limits, models of mlx-lm."""

from __future__ import annotations

import threading

import pytest
import samebits
from mlx_support import bits, close, moved, mx, nn, random, seed, sm  # noqa: F401

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


@pytest.mark.parametrize(
    "call",
    [
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose",
        "convolve",
        "block_masked_mm",
        "segmented_mm",
        "qqmm",
        "wide heads",
    ],
)
def test_strict(call):
    codes, scales = mx.quantize(random(8, 32), mode="mxfp8")
    calls = {
        "conv1d": lambda: mx.conv1d(random(1, 9, 3), random(4, 3, 3)),
        "conv3d": lambda: mx.conv3d(random(1, 5, 5, 5, 3), random(4, 3, 3, 3, 3)),
        "conv_transpose": lambda: mx.conv_transpose2d(random(1, 9, 9, 3), random(4, 3, 3, 3)),
        "convolve": lambda: mx.convolve(random(9), random(3)),
        "qqmm": lambda: mx.qqmm(random(4, 32), codes, scales, mode="mxfp8"),
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
        for text, limit in (("8", 8), ("unlimited", sm._modes._limits.UNLIMITED), ("0", 0)):
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
