"""PyTorch's mode: gradients stand still, and are stock's but for rounding."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import samebits.torch as mode_of  # noqa: E402
from torch_support import bits, enabled, moved, seed  # noqa: E402, F401

F = torch.nn.functional
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def test_gradients():
    """Gradients of a row's input do not move, and are those of stock but for rounding."""
    model = torch.nn.Sequential(
        torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 64)
    )
    x = torch.randn(12, 128)

    def gradient(rows):
        rows = rows.clone().requires_grad_()
        (model(rows) ** 2).sum(-1).sum().backward()
        return rows.grad

    stock = gradient(x)
    with mode_of.mode() as active:
        assert not moved(gradient, x)
        assert active.invariant["mm"] and not [name for name in active.stock if name.startswith(("mm", "addmm"))]
        assert torch.allclose(gradient(x), stock, atol=1e-3)


ACTIVATIONS = {
    "silu": F.silu,  # this and the next have, besides a kernel, a formula of other operators
    "mish": F.mish,
    "gelu": F.gelu,
    "gelu, tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "logsigmoid": F.logsigmoid,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": F.hardswish,
    "leaky_relu": F.leaky_relu,
    "softshrink": F.softshrink,
    "glu": lambda x: F.glu(x[:, :130]),
    "swiglu": lambda x: F.silu(x[:, :65]) * x[:, 65:130],
    "pow": lambda x: x**3,
    "exp": lambda x: (-x * x).exp(),
    "rsqrt": lambda x: (x * x + 1).rsqrt(),
}


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_gradients(name, dtype, everywhere):
    """In a mode of the thread and in one of the process."""
    x = torch.randn(33, 515, dtype=dtype)

    def gradient(rows):
        rows = rows.detach().clone().requires_grad_()
        out = ACTIVATIONS[name](rows)
        out.backward(torch.ones_like(out) / 3)
        return rows.grad

    with enabled(strict=True) if everywhere else mode_of.mode(strict=True):
        assert not moved(gradient, x)


def test_a_gradient_that_moves_in_stock():
    """The control: where PyTorch's vectors and their tails differ these checks see it."""
    assert moved(lambda rows: torch.ops.aten.silu_backward(torch.ones_like(rows), rows), torch.randn(33, 515))


NORMS = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "group_norm": lambda x, w, b: F.group_norm(x.mT, 5, w, b).mT,
}


def norm_gradients(name, x, grad, *parameters):
    """The norm, and the gradients of x and of the parameters, each None or a tensor."""
    x, *parameters = (None if t is None else t.clone().requires_grad_() for t in (x, *parameters))
    out = NORMS[name](x, *parameters)
    out.backward(grad)
    return [out.detach(), x.grad, *(None if p is None else p.grad for p in parameters)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NORMS)
def test_norm_gradients(name, dtype):
    """In every mix of dtypes of stock's shapes and dtypes and its numbers but for rounding, also where only the one or
    the other half runs in the mode; still over threads, and rows of the input's gradient over batches."""
    x, grad = torch.randn(2, 6, 7, 65, dtype=dtype)
    for of_weight in (None, dtype, torch.float32):
        for of_bias in {None, of_weight}:
            w, b = (None if t is None else torch.rand(65, dtype=t) + 0.5 for t in (of_weight, of_bias))
            stock = norm_gradients(name, x, grad, w, b)
            with mode_of.mode(strict=True):
                ours = norm_gradients(name, x, grad, w, b)
                x_ = x.clone().requires_grad_()
                half = NORMS[name](x_, w, b)
            half.backward(grad)
            x__ = x.clone().requires_grad_()
            out = NORMS[name](x__, w, b)
            with mode_of.mode(strict=True):
                out.backward(grad)
            tolerance = 1e-4 if dtype == torch.float32 else 5e-2
            for have, want in (*zip(ours, stock, strict=True), (x_.grad, stock[1]), (x__.grad, stock[1])):
                assert (have is None) == (want is None)
                if have is not None:
                    assert (have.dtype, have.shape) == (want.dtype, want.shape)
                    assert (have - want).abs().max() <= tolerance * max(1, want.abs().max())


@pytest.mark.parametrize("name", NORMS)
def test_norm_gradients_stand_still(name):
    x, grad = torch.randn(2, 300, 7, 255)
    w, b = torch.randn(2, 255)
    before = torch.get_num_threads()

    def run(threads, rows=slice(None)):
        torch.set_num_threads(threads)
        return norm_gradients(name, x[rows], grad[rows], w, b)

    try:
        stock = [run(threads) for threads in (1, 2)]
        with mode_of.mode(strict=True) as active:
            one = run(1)
            for threads in (2, 3):
                assert [bits(t) for t in run(threads)] == [bits(t) for t in one]
            for rows in (slice(1), slice(1, 4), slice(293, None)):
                assert bits(run(2, rows)[1]) == bits(one[1][rows])
    finally:
        torch.set_num_threads(before)
    assert active.invariant[f"native_{name}_backward"] == 6
    if bits(stock[0][2]) == bits(stock[1][2]):
        pytest.skip("stock's gradient of weights is already invariant here")  # the control


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [4, 2])
def test_attention_gradients(heads, causal):
    """Forward with the bits of inference; a query's gradient does not move; all are stock's but for rounding, also
    where the gradient is taken outside of the mode."""
    q, kv = torch.randn(2, 4, 9, 16), torch.randn(2, 2, heads, 9, 16)
    weight = torch.randn(2, 4, 9, 16)
    masks = {"is_causal": True} if causal else {"attn_mask": torch.rand(2, 1, 9, 9) > 0.3}

    def run(backward_in_mode, rows=slice(None)):
        q_, kv_ = q[rows].clone().requires_grad_(), kv[:, rows].clone().requires_grad_()
        one = {k: v if v is True else v[rows] for k, v in masks.items()}
        with mode_of.mode(strict=True):
            out = F.scaled_dot_product_attention(q_, *kv_, enable_gqa=True, **one)
            with torch.no_grad():
                assert bits(F.scaled_dot_product_attention(q_, *kv_, enable_gqa=True, **one)) == bits(out)
            if backward_in_mode:
                (out * weight[rows]).sum().backward()
        if not backward_in_mode:
            (out * weight[rows]).sum().backward()
        return q_.grad, kv_.grad

    q_, kv_ = q.clone().requires_grad_(), kv.clone().requires_grad_()
    (F.scaled_dot_product_attention(q_, *kv_, enable_gqa=True, **masks) * weight).sum().backward()
    for inside in (True, False):
        for have, want in zip(run(inside), (q_.grad, kv_.grad), strict=True):
            assert torch.allclose(have, want, atol=1e-5)
    whole, one = run(True), run(True, slice(1, 2))
    assert bits(whole[0][1:]) == bits(one[0]) and bits(whole[1][:, 1:]) == bits(one[1])


def test_compiled_gradients():
    """A compiled function records no gradient in its forward part, which has to keep what the backward part takes."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True, dropout=0.0)
    compiled = torch.compile(layer, backend="aot_eager")

    def gradient(function, x):
        x = x.clone().requires_grad_()
        function(x).square().sum(-1).sum().backward()
        return x.grad

    x = torch.randn(3, 9, 32)
    with mode_of.mode(strict=True):
        want = gradient(layer, x)
        assert torch.allclose(gradient(compiled, x), want, atol=1e-4)
        assert bits(gradient(compiled, x)) == bits(gradient(compiled, x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_gradients(name, dtype):
    """Along any dimension."""
    x, grad = torch.randn(2, 9, 37, 65).to(dtype)

    def gradient(rows):
        rows, other = rows.clone().requires_grad_(), rows.clone().requires_grad_()
        getattr(rows, name)(-1).backward(grad[: rows.shape[0]] * 0 + grad[0])
        getattr(other, name)(1).backward(grad[: rows.shape[0]] * 0 + grad[0])
        return torch.cat([rows.grad, other.grad], 1)

    stock = gradient(x)
    with mode_of.mode(strict=True) as active:
        assert not moved(gradient, x)
        ours = gradient(x)
    assert active.invariant[f"_{name}_backward_data"] and ours.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    assert torch.allclose(ours, stock, atol=tolerance, rtol=tolerance)
