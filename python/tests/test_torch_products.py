"""Products in PyTorch's mode of float64 and complex64, and in the order amx-1."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import samebits  # noqa: E402
import samebits.torch as mode_of  # noqa: E402
from samebits.torch import _ops  # noqa: E402
from torch_support import bits, enabled, moved, seed  # noqa: E402, F401

F = torch.nn.functional
WIDE = [torch.float64, torch.complex64]
BF16 = torch.bfloat16


def draw(dtype, *shape):
    return torch.randn(*shape, dtype=dtype)


def cancelling(m, k, n):
    """bfloat16 operands (m, k) and (n, k) whose products are 0 but for roundings, which shows these in few bits."""
    x, w = draw(BF16, m, k // 2), draw(BF16, n, k // 2)
    return torch.cat([x, x], 1), torch.cat([w, -w], 1)


def products(dtype):
    """Functions of rows (n, 70) in which each row of the result is that row's."""
    w, bias, b = draw(dtype, 33, 70), draw(dtype, 33), draw(dtype, 3, 70, 33)
    return {
        "mm": lambda x: torch.mm(x, w.t()),
        "addmm": lambda x: torch.addmm(bias, x, w.t(), alpha=0.5, beta=2),
        "bmm": lambda x: torch.bmm(x.expand(3, -1, -1), b).transpose(0, 1),
        "baddbmm": lambda x: torch.baddbmm(bias, x.expand(3, -1, -1), b, alpha=3, beta=0.5).transpose(0, 1),
        "matmul": lambda x: x.view(-1, 1, 1, 70) @ b,
        "one row": lambda x: torch.stack([torch.mv(w, row) for row in x]),
        "linear": lambda x: F.linear(x, w, bias),
        "no bias": lambda x: F.linear(x, w),
        "einsum": lambda x: torch.einsum("bk,nk->bn", x, w),
        "einsum, batches": lambda x: torch.einsum("bk,hkn->bhn", x, b),
    }


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("name", products(torch.float64))
@torch.no_grad()
def test_wide_rows(name, dtype):
    function, x = products(dtype)[name], draw(dtype, 17, 70)
    stock = function(x)
    with mode_of.mode(strict=True) as active:
        assert not moved(function, x)
        have = function(x)
    assert sum(active.invariant.values()) and have.stride() == stock.stride()
    assert torch.allclose(have, stock, rtol=0, atol=1e-12 if dtype == torch.float64 else 1e-4)


@pytest.mark.parametrize("dtype", WIDE)
@torch.no_grad()
def test_stock_moves(dtype):
    """The control: without the mode the same test fails."""
    w, x = draw(dtype, 300, 1030), draw(dtype, 33, 1030)
    if not moved(lambda x: x @ w.t(), x):
        pytest.skip("stock is already invariant here")
    with mode_of.mode(strict=True):
        assert not moved(lambda x: x @ w.t(), x)


@pytest.mark.parametrize("dtype", WIDE)
@torch.no_grad()
def test_wide_bits_are_the_librarys(dtype):
    x, w, bias = draw(dtype, 7, 515), draw(dtype, 33, 515), draw(dtype, 33)
    with mode_of.mode(strict=True):
        assert bits(F.linear(x, w)) == bits(samebits.linear(x, w))
        assert bits(F.linear(x, w, bias)) == bits(samebits.linear(x, w, bias))
        assert bits(torch.mv(w, x[0])) == bits(samebits.matmul(w, x[:1].t())[:, 0])
        assert bits(torch.dot(w[1], x[0])) == bits(torch.mv(w, x[0])[1])
        out = torch.empty(7, 33, dtype=dtype)
        assert bits(torch.mm(x, w.t(), out=out)) == bits(out) == bits(samebits.linear(x, w))
        assert bits(bias.expand(7, 33).clone().addmm_(x, w.t())) == bits(samebits.linear(x, w, bias))


@torch.no_grad()
def test_conjugates():
    """Tensors that are marked as conjugates or negatives of their memory have the bits of those written out."""
    a, b, c = draw(torch.complex64, 5, 70), draw(torch.complex64, 70, 9), draw(torch.complex64, 5, 9)
    r = draw(torch.float32, 70, 9)
    want = {
        "left": a.conj().resolve_conj() @ b,
        "right": a.conj() @ b,
        "adjoint": a.conj() @ b.t().mH,
        "vdot": torch.vdot(a[0], b[:, 0]),
        "negative": -a.imag.contiguous() @ r,
    }
    with mode_of.mode(strict=True):
        assert a.conj().is_conj() and a.conj().imag.is_neg()
        plain = a.conj().resolve_conj()
        assert bits(a.conj() @ b) == bits(plain @ b)
        assert bits(b.mH @ a.mH) == bits(b.conj().resolve_conj().t() @ plain.t())
        assert bits(torch.addmm(c.conj(), a, b.conj())) == bits(
            torch.addmm(c.conj().resolve_conj(), a, b.conj().resolve_conj())
        )
        assert bits(torch.vdot(a[0], b[:, 0])) == bits(torch.dot(plain[0], b[:, 0]))
        assert bits(torch.dot(a[0].conj(), b[:, 0])) == bits(torch.dot(plain[0], b[:, 0]))
        assert bits(a.conj().imag @ r) == bits((-a.imag) @ r)
        have = {
            "left": a.conj() @ b,
            "right": a.conj() @ b,
            "adjoint": a.conj() @ b.t().mH,
            "vdot": torch.vdot(a[0], b[:, 0]),
            "negative": a.conj().imag @ r,
        }
    for name in want:
        assert torch.allclose(have[name], want[name], atol=1e-4), name


@pytest.mark.parametrize("dtype", WIDE)
def test_wide_gradients(dtype):
    """A row's gradient does not move, and gradients are stock's but for rounding: conjugate transposes too."""
    w, b = draw(dtype, 33, 70), draw(dtype, 3, 33, 20)
    x = draw(dtype, 12, 70)

    def gradients(rows):
        rows, w_, b_ = rows.clone().requires_grad_(), w.clone().requires_grad_(), b.clone().requires_grad_()
        y = torch.einsum("bn,hnm->bhm", F.linear(rows, w_), b_)
        torch.view_as_real(y).square().sum().backward() if dtype.is_complex else y.backward(torch.ones_like(y))
        return rows.grad, w_.grad, b_.grad

    stock = gradients(x)
    with mode_of.mode(strict=True) as active:
        assert not moved(lambda rows: gradients(rows)[0], x)
        for have, want in zip(gradients(x), stock, strict=True):
            assert torch.allclose(have, want, rtol=1e-4, atol=1e-2 if dtype.is_complex else 1e-11)
    assert active.invariant["mm"] and active.invariant["bmm"]


def test_gradcheck():
    a, b, c = (draw(torch.float64, *shape).requires_grad_() for shape in ((2, 5), (5, 3), (2, 3)))
    batch = draw(torch.float64, 2, 5, 3).requires_grad_()
    with mode_of.mode():
        assert torch.autograd.gradcheck(lambda a, b, c: torch.addmm(c, a, b, alpha=0.5, beta=2), (a, b, c))
        assert torch.autograd.gradcheck(lambda a, b: torch.bmm(a.expand(2, 2, 5), b), (a, batch))


@pytest.mark.parametrize("dtype", WIDE)
@torch.no_grad()
def test_wide_without_elements(dtype):
    c = draw(dtype, 3)
    with mode_of.mode(strict=True):
        assert draw(dtype, 0, 4).mm(draw(dtype, 4, 3)).shape == (0, 3)
        assert draw(dtype, 2, 4).mm(draw(dtype, 4, 0)).shape == (2, 0)
        assert bits(draw(dtype, 2, 0).mm(draw(dtype, 0, 3))) == bits(torch.zeros(2, 3, dtype=dtype))
        assert bits(torch.addmm(c, draw(dtype, 2, 0), draw(dtype, 0, 3))) == bits(c.expand(2, 3))
        assert torch.bmm(draw(dtype, 0, 2, 4), draw(dtype, 0, 4, 3)).shape == (0, 2, 3)
        nan = torch.full((3,), float("nan"), dtype=dtype)
        assert bits(torch.addmm(nan, draw(dtype, 2, 0), draw(dtype, 0, 3), beta=0)) == bits(
            torch.zeros(2, 3, dtype=dtype)
        )


@torch.no_grad()
def test_wide_errors():
    """What PyTorch refuses it refuses in its own words; what samebits has not is named."""
    a, b = draw(torch.float64, 2, 3), draw(torch.float64, 3, 4)
    wrong = [
        lambda: a @ b.float(),
        lambda: a @ b.to(torch.complex64),
        lambda: a @ a,
        lambda: torch.addmm(draw(torch.float32, 4), a, b),
        lambda: torch.addmm(draw(torch.float64, 7), a, b),
        lambda: torch.addmm(draw(torch.float64, 1, 2, 4), a, b),
        lambda: torch.baddbmm(draw(torch.float64, 3), a[None], b[None]),
        lambda: torch.addmv(draw(torch.float64, 7), a, a[0]),
        lambda: draw(torch.float64, 4).addmm_(a, b),
        lambda: torch.mm(a, b, out=torch.empty(2, 4)),
        lambda: torch.mm(a[None], b[None]),
        lambda: torch.bmm(a, b),
        lambda: torch.dot(a[0], b[0]),
    ]
    for call in wrong:
        with pytest.raises(RuntimeError) as stock:
            call()
        with mode_of.mode(strict=True), pytest.raises(RuntimeError) as ours:
            call()
        assert str(ours.value) == str(stock.value)
    z = a.to(torch.complex64)
    missing = {
        "mm of complex128": lambda: a.to(torch.complex128) @ b.to(torch.complex128),
        "bmm of complex128": lambda: torch.bmm(*draw(torch.complex128, 2, 1, 3, 3)),
        "addmm of complex64": lambda: torch.addmm(z, z, z.mH @ z, alpha=1j),
        "_softmax of float64": lambda: a.softmax(-1),
        "sum.dim_IntList of float64": lambda: a.sum(-1),
        "sum.dim_IntList of complex64": lambda: z.sum(-1),
        "mean.dim of float64": lambda: a.mean(-1),
        "native_layer_norm of float64": lambda: F.layer_norm(a, (3,)),
        "gelu of float64": lambda: F.gelu(a),
    }
    for text, call in missing.items():
        name, dtype = text.split(" of ")
        with mode_of.mode(strict=True), pytest.raises(NotImplementedError, match=text):
            call()
        with mode_of.mode() as active:
            call()
        assert active.stock[f"{name} {dtype}"] == 1


# --- amx-1 ---


def packed(x, w, **more):
    """The C interface's product in amx-1, by prepared weights."""
    return samebits.linear(x, samebits.Weights(w), order="amx-1", **more)


@torch.no_grad()
def test_amx_bits_are_the_librarys():
    (x, w), bias = cancelling(9, 516, 65), draw(BF16, 65)
    left, right = (torch.stack(t) for t in zip(*(cancelling(9, 516, 20) for _ in range(3)), strict=True))
    right = right.mT
    want = packed(x, w)
    with mode_of.mode(strict=True, order="amx-1") as active:
        for _ in range(3):  # the first calls of weights are before they are kept packed
            assert bits(F.linear(x, w)) == bits(x @ w.t()) == bits(want)
        assert bits(F.linear(x, w, bias)) == bits(packed(x, w, bias=bias))
        assert bits(x.t().contiguous().t() @ w.t().contiguous()) == bits(want)
        assert bits(torch.mv(w, x[2])) == bits(x[2] @ w.t()) == bits(want[2])
        assert bits(torch.dot(x[2], w[3])) == bits(want[2, 3])
        whole = torch.bmm(left, right)
        for i in range(3):
            assert bits(whole[i]) == bits(left[i] @ right[i]) == bits(packed(left[i], right[i].t()))
        assert bits(torch.einsum("bk,nk->bn", x, w)) == bits(want)
        assert bits(torch.mm(x[:, :0], w.t()[:0])) == bits(torch.zeros(9, 65, dtype=BF16))
        assert (x[:0] @ w.t()).shape == (0, 65) and (x @ w.t()[:, :0]).shape == (9, 0)
    assert not active.stock
    with mode_of.mode(strict=True):
        assert bits(F.linear(x, w)) == bits(samebits.linear(x, w))
        assert bits(F.linear(x, w)) != bits(want)  # the control: another order, other bits
        assert bits(torch.bmm(left, right)) != bits(whole)


@torch.no_grad()
def test_amx_is_of_bfloat16_alone():
    for dtype in (torch.float32, torch.float16, torch.float64, torch.complex64):
        x, w = (t.to(dtype) for t in cancelling(5, 600, 33))
        with mode_of.mode(strict=True):
            want = bits(F.linear(x, w))
        with mode_of.mode(strict=True, order="amx-1"):
            assert bits(F.linear(x, w)) == want
    q = draw(BF16, 1, 2, 9, 64)
    with mode_of.mode(strict=True):
        want = bits(F.scaled_dot_product_attention(q, q, q)), bits(q.sum(-1))
    with mode_of.mode(strict=True, order="amx-1"):
        assert (bits(F.scaled_dot_product_attention(q, q, q)), bits(q.sum(-1))) == want


def test_amx_rows():
    """Rows and their gradients stand still in amx-1 too."""
    functions, x = products(BF16), draw(BF16, 17, 70)
    layer = torch.nn.Linear(70, 300, dtype=BF16)

    def gradient(rows):
        rows = rows.clone().requires_grad_()
        layer(rows).float().square().sum().backward()
        return rows.grad

    with mode_of.mode(strict=True, order="amx-1"):
        for name, function in functions.items():
            with torch.no_grad():
                assert not moved(function, x), name
        assert not moved(gradient, x)


@torch.no_grad()
def test_amx_in_c_and_in_python():
    a, w, b, c = draw(BF16, 5, 70), draw(BF16, 33, 70), draw(BF16, 3, 70, 9), draw(BF16, 33)
    calls = [
        ("mm", (a, w.t()), {}),
        ("addmm", (c, a, w.t()), {"alpha": 0.5, "beta": 2}),
        ("bmm", (a.expand(3, 5, 70), b), {}),
        ("bmm", (a.expand(3, 5, 70), b[:1].expand(3, 70, 9)), {}),
        ("baddbmm", (c[:9], a.expand(3, 5, 70), b), {"beta": 0.5}),
        ("addmv", (c, w, a[0]), {}),
        ("dot", (a[0], w[0]), {}),
    ]
    with mode_of.mode(strict=True, order="amx-1") as active:
        for name, args, kwargs in calls:
            have = getattr(torch, name)(*args, **kwargs)
            assert bits(have) == bits(_ops.functions[name](active, *args, **kwargs)), name


@torch.no_grad()
def test_amx_follows_nested_modes():
    x, w = cancelling(5, 600, 33)
    with mode_of.mode():
        portable = bits(x @ w.t())
        with mode_of.mode(order="amx-1"):
            assert bits(x @ w.t()) == bits(packed(x, w)) != portable
        assert bits(x @ w.t()) == portable
    with enabled(order="amx-1"):
        assert bits(x @ w.t()) == bits(packed(x, w))
        with mode_of.mode(order="portable-1"):
            assert bits(x @ w.t()) == portable


@pytest.mark.parametrize("order", ["fast", "int8-1", "hopper-1", ""])
def test_unknown_orders(order):
    with pytest.raises(ValueError, match=f"no order '{order}'.*'portable-1' or 'amx-1'"), mode_of.mode(order=order):
        pass
