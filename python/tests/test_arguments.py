"""Layouts that are taken without copies, and errors by their kind; outputs stay untouched."""

from __future__ import annotations

import array
import threading

import numpy as np
import pytest
import samebits
from conftest import bits


@pytest.fixture
def x(rng):
    return rng.standard_normal((6, 64), np.float32)


@pytest.fixture
def w(rng):
    return rng.standard_normal((5, 64), np.float32)


def test_layouts(x, w):
    want = bits(samebits.linear(x, w))
    wide = np.zeros((6, 128), np.float32)
    wide[:, ::2] = x
    assert bits(samebits.linear(wide[:, ::2], w)) == want
    assert bits(samebits.linear(np.asfortranarray(x), np.asfortranarray(w))) == want
    x.flags.writeable = False
    assert bits(samebits.linear(x, w)) == want
    assert bits(samebits.linear(memoryview(x), w)) == want


def test_out(x, w):
    out = np.zeros((6, 5), np.float32)
    assert samebits.linear(x, w, out=out) is out
    assert bits(out) == bits(samebits.linear(x, w))
    transposed = np.zeros((5, 6), np.float32)
    samebits.linear(x, w, out=transposed.T)
    assert bits(transposed.T) == bits(out)


def test_epilogue(x, w, rng):
    bias, c = rng.standard_normal(5, np.float32), rng.standard_normal((6, 5), np.float32)
    assert bits(samebits.linear(x, w, bias)) == bits(samebits.linear(x, w) + bias)
    have = samebits.matmul(x, w.T, c=c, beta=1.0, bias=bias, activation="relu")
    assert bits(have) == bits(np.maximum(samebits.matmul(x, w.T) + c + bias, np.float32(0)))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_wide(rng, dtype):
    def draw(*shape):
        parts = rng.standard_normal((*shape, 2 if dtype == "complex64" else 1))
        return (parts.astype(np.float32).view(dtype) if dtype == "complex64" else parts)[..., 0]

    x, w, c, bias = draw(6, 300), draw(5, 300), draw(6, 5), draw(5)
    whole = samebits.linear(x, w, bias)
    assert whole.dtype == dtype
    assert np.allclose(whole, x @ w.T + bias, rtol=1e-5 if dtype == "complex64" else 1e-13)
    for i in range(6):
        assert bits(samebits.linear(x[i : i + 1], w, bias)) == bits(whole[i : i + 1])
    have = samebits.matmul(x.T.copy().T, w.T, c=c, beta=1.0)
    assert bits(have) == bits(samebits.matmul(x, w.T.copy(), c=c, beta=1.0))
    if dtype == "float64":
        assert bits(samebits.matmul(x, w.T, alpha=0.1)) == bits(0.1 * samebits.matmul(x, w.T))
    for other in ("float32", "float64", "complex64"):
        if other != dtype:
            with pytest.raises(TypeError, match="one dtype"):
                samebits.linear(np.ones((6, 300), other), w)


def test_empty(x, w):
    assert samebits.linear(x[:0], w).shape == (0, 5)
    assert bits(samebits.linear(x[:, :0], w[:, :0])) == bits(np.zeros((6, 5), np.float32))


@pytest.mark.parametrize(
    ("kind", "text", "call"),
    [
        (ValueError, "same K", lambda x, w, out: samebits.linear(x, w[:, :5], out=out)),
        (ValueError, "two dimensions", lambda x, w, out: samebits.matmul(x[0], w.T, out=out)),
        (ValueError, "activation", lambda x, w, out: samebits.linear(x, w, activation="swish", out=out)),
        (ValueError, "order", lambda x, w, out: samebits.linear(x, w, order="int8-1", out=out)),
        (ValueError, "order", lambda x, w, out: samebits.linear(x, samebits.Weights(w), order="fast", out=out)),
        (ValueError, "order", lambda x, w, out: samebits.linear(x, samebits.Weights(w), order="int8-1", out=out)),
        (ValueError, "format", lambda x, w, out: samebits.Weights(w, "q9_0")),
        (TypeError, "format", lambda x, w, out: samebits.Weights(w.astype(np.uint8))),
        (TypeError, "packed form", lambda x, w, out: samebits.Weights(w.astype(np.float64))),
        (TypeError, "packed form|prepared form", lambda x, w, out: samebits.Weights(w.astype(np.float64), "f32")),
        (TypeError, "complex128", lambda x, w, out: samebits.linear(x.astype(np.complex128), w, out=out)),
        (TypeError, "float64", lambda x, w, out: samebits.linear(x.astype(np.float64), w, out=out)),
        (TypeError, "complex64", lambda x, w, out: samebits.linear(x.astype(np.complex64), w, out=out)),
        (TypeError, "no array", lambda x, w, out: samebits.linear(3, w, out=out)),
        (TypeError, "no array", lambda x, w, out: samebits.linear(x, "w", out=out)),
        (BufferError, "stride", lambda x, w, out: samebits.linear(x[:, ::-1], w, out=out)),
        (BufferError, "shares memory", lambda x, w, out: samebits.softmax(x[:, :-1], out=x[:, 1:])),
        (ValueError, "threads", lambda x, w, out: samebits.set_num_threads(-1)),
        (ValueError, "eps", lambda x, w, out: samebits.rms_norm(x, eps=-1.0)),
    ],
)
def test_errors(x, w, kind, text, call):
    out = np.full((6, 5), 7, np.float32)
    before = bits(x), bits(w)
    with pytest.raises(kind, match=text):
        call(x, w, out)
    assert (out == 7).all() and (bits(x), bits(w)) == before


def test_read_only_output(x, w):
    out = np.full((6, 5), 7, np.float32)
    out.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        samebits.linear(x, w, out=out)
    assert (out == 7).all()


def test_buffers(w):
    x = array.array("f", range(64))
    with pytest.raises(ValueError):
        samebits.linear(x, w, out=np.zeros(3, np.float32))
    assert samebits.linear(x, w).shape == (5,)


def test_other_threads(rng):
    """Calls from several threads at once, which share a context."""
    x, w = rng.standard_normal((64, 512), np.float32), rng.standard_normal((128, 512), np.float32)
    want, have = bits(samebits.linear(x, w)), []

    def work():
        have.extend(bits(samebits.linear(x, w)) for _ in range(20))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert have == [want] * 80


@pytest.mark.parametrize("form", ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl"])
def test_blocks_without_elements(form):
    """NumPy gives arrays without elements strides of 0."""
    _, size = samebits.formats()[form]
    q = np.ones((2, 2, 3, 64), np.float32)
    k, v = np.zeros((2, 1, 0, 2 * size), np.uint8), np.zeros((2, 1, 0, size), np.uint8)
    out = samebits.attention(q, k, v, k_format=form, v_format=form)
    assert out.shape == (2, 2, 3, 32) and not out.any()
    assert samebits.attention(q[:0], k[:0], v[:0], k_format=form, v_format=form).shape == (0, 2, 3, 32)
    x, w = np.ones((3, 64), np.float32), np.zeros((0, 2 * size), np.uint8)
    assert samebits.linear(x, samebits.Weights(w, form)).shape == (3, 0)
