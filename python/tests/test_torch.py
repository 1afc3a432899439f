"""PyTorch's mode: what moves in stock stands still, gradients included; errors; nesting and threads."""

from __future__ import annotations

import gc
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import samebits  # noqa: E402
import samebits.torch as mode_of  # noqa: E402
from samebits.torch import _packing  # noqa: E402
from torch_support import bits, enabled, moved, seed  # noqa: E402, F401

F = torch.nn.functional
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def norm(x):
    """RMSNorm as models write it."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name",
    [
        "linear",
        "no bias",
        "matmul",
        "einsum",
        "softmax",
        "log_softmax",
        "layer_norm",
        "group_norm",
        "norm",
        "sum",
        "vector norm",
        "var",
        "std",
        "logsumexp",
        "gelu",
        "silu",
    ],
)
@torch.no_grad()
def test_rows(name, dtype):
    w, b = torch.randn(65, 515, dtype=dtype), torch.randn(65, dtype=dtype)
    function = {
        "linear": lambda x: F.linear(x, w, b),
        "no bias": lambda x: F.linear(x, w),
        "matmul": lambda x: x @ w.t(),
        "einsum": lambda x: torch.einsum("bk,nk->bn", x, w),
        "softmax": lambda x: x.softmax(-1),
        "log_softmax": lambda x: x.log_softmax(-1),
        "layer_norm": lambda x: F.layer_norm(x, (515,)),
        "norm": norm,
        "sum": lambda x: x.sum(-1, keepdim=True),
        "group_norm": lambda x: F.group_norm(x.view(-1, 5, 103), 5, torch.arange(5, dtype=dtype)),
        "vector norm": lambda x: F.normalize(x, dim=-1),
        "var": lambda x: x.var(-1, keepdim=True),
        "std": lambda x: torch.std_mean(x, -1, correction=0)[0][:, None],
        "logsumexp": lambda x: x.logsumexp(-1, keepdim=True),
        "gelu": F.gelu,
        "silu": lambda x: F.silu(x[:, ::2]),
    }[name]
    x = torch.randn(33, 515, dtype=dtype)
    with mode_of.mode(strict=True):
        assert not moved(function, x)
        ours = function(x).float()
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    assert torch.allclose(ours, function(x).float(), atol=tolerance, rtol=tolerance)


@torch.no_grad()
def test_stock_moves():
    """The control: without the mode the same test fails."""
    layer = torch.nn.Linear(1024, 256)
    x = torch.randn(33, 1024)
    if not moved(layer, x):
        pytest.skip("stock is already invariant here")
    with mode_of.mode():
        assert not moved(layer, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
@torch.no_grad()
def test_attention(dtype, heads):
    q = torch.randn(2, heads[0], 9, 64, dtype=dtype)
    k, v = torch.randn(2, 2, heads[1], 9, 64, dtype=dtype).unbind()
    mask = torch.rand(2, 1, 9, 9) > 0.3
    for kwargs in ({}, {"is_causal": True}, {"attn_mask": mask}, {"attn_mask": mask.to(dtype)}, {"scale": 0.3}):
        kwargs["enable_gqa"] = True
        stock = F.scaled_dot_product_attention(q, k, v, **kwargs)
        with mode_of.mode(strict=True) as active:
            whole = F.scaled_dot_product_attention(q, k, v, **kwargs)
            one = {**kwargs}
            if "attn_mask" in one:
                one["attn_mask"] = one["attn_mask"][1:]
            assert bits(F.scaled_dot_product_attention(q[1:], k[1:], v[1:], **one)) == bits(whole[1:])
        assert active.invariant["_scaled_dot_product_flash_attention_for_cpu"] == 2
        tolerance = 1e-5 if dtype == torch.float32 else 2e-2
        assert torch.allclose(whole.float(), stock.float(), atol=tolerance, rtol=tolerance)
    with mode_of.mode(strict=True):
        whole = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        padded = [F.pad(t, (0, 0, 5, 0), value=7.0) for t in (k, v)]
        visible = torch.ones(9, 14, dtype=torch.bool).tril(5)
        visible[:, :5] = False
        assert bits(F.scaled_dot_product_attention(q, *padded, attn_mask=visible, enable_gqa=True)) == bits(whole)


@pytest.mark.parametrize("threads", [1, 2, 4])
@torch.no_grad()
def test_threads(threads):
    x, w = torch.randn(65, 1000), torch.randn(300, 1000)
    with mode_of.mode(strict=True):
        whole = F.gelu(F.linear(x, w))
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(threads)
            assert bits(F.gelu(F.linear(x, w))) == bits(whole)
        finally:
            torch.set_num_threads(before)


@torch.no_grad()
def test_writes_into_tensors():
    a, b, c = torch.randn(5, 64), torch.randn(64, 7), torch.randn(5, 7)
    with mode_of.mode(strict=True) as active:
        want = torch.addmm(c, a, b)
        out = torch.empty(5, 7)
        assert torch.addmm(c, a, b, out=out) is out and bits(out) == bits(want)
        assert bits(torch.mm(a, b, out=torch.empty(0))) == bits(a @ b)
        assert bits(c.clone().addmm_(a, b)) == bits(want)
        gelu = F.gelu(a)
        assert bits(torch.ops.aten.gelu_(a.clone())) == bits(gelu)
        assert active.invariant["addmm"] == 3


@torch.no_grad()
def test_writes_into_other_dtypes():
    """As the operator without `out` in that dtype, or for functions element by element, with the result converted; the
    others stock refuses in its own words, in strict modes too, or they are refused."""
    x = torch.randn(5, 515).bfloat16()
    w = torch.randn(515, 7).bfloat16()

    def f32():
        return torch.empty(0)

    with mode_of.mode(strict=True) as active:
        assert bits(torch.sum(x, -1, out=f32())) == bits(x.sum(-1, dtype=torch.float32))
        assert bits(torch.mean(x, -1, out=f32())) == bits(x.mean(-1, dtype=torch.float32))
        assert bits(torch.sum(x, 0, True, out=f32())) == bits(x.sum(0, True, dtype=torch.float32))
        for function in (torch.sigmoid, torch.rsqrt, torch.exp2):
            assert bits(function(x, out=f32())) == bits(function(x).float())
        assert active.invariant["sum.dim_IntList"] == 4 and active.invariant["sigmoid"] == 2
    whole = torch.empty(5, dtype=torch.int)
    for call in (lambda: torch.mm(x, w, out=f32()), lambda: torch.logsumexp(x, -1, out=whole)):
        with pytest.raises(RuntimeError) as stock:
            call()
        with mode_of.mode(strict=True), pytest.raises(RuntimeError) as ours:
            call()
        assert str(ours.value) == str(stock.value)
    out = torch.full((5,), 7.0)
    with mode_of.mode(strict=True), pytest.raises((NotImplementedError, RuntimeError)):
        torch.var(x, -1, out=out)
    assert (out == 7).all()


@torch.no_grad()
def test_packed_weights_follow_writes():
    w, x = torch.randn(256, 512), torch.randn(3, 512)
    with mode_of.mode(strict=True):
        for _ in range(4):
            assert bits(F.linear(x, w)) == bits(x @ w.clone().t())
        w[7] += 1
        assert bits(F.linear(x, w)) == bits(x @ w.clone().t())
        with torch.inference_mode():
            for _ in range(3):
                assert bits(F.linear(x, w)) == bits(x @ w.clone().t())
        w[9] += 1
        with torch.inference_mode():
            assert bits(F.linear(x, w)) == bits(x @ w.clone().t())
        before = bits(F.linear(x, w))
        mode_of.set_packing_budget(0)
        try:
            assert bits(F.linear(x, w)) == before
        finally:
            mode_of.set_packing_budget(1 << 30)


@pytest.fixture
def budget():
    """Sets the packing budget, with no copies at first."""

    def set_to(size):
        _packing.entries.clear()
        mode_of.set_packing_budget(size)

    yield set_to
    mode_of.set_packing_budget(1 << 30)


def packed_bytes():
    return sum(entry.size for entry in _packing.entries.values())


@torch.no_grad()
@pytest.mark.parametrize("inference", [False, True])
def test_packed_weights_go_with_their_tensors(budget, inference):
    budget(1 << 30)
    layer, x = torch.nn.Linear(512, 256, bias=False), torch.randn(3, 512)
    with torch.inference_mode(inference), mode_of.mode():
        for _ in range(3):
            layer(x)
    assert packed_bytes() == 4 * 512 * 256
    kept = layer.weight.detach()  # of the same storage
    del layer
    gc.collect()
    with mode_of.mode():
        F.linear(x, kept)
    assert packed_bytes() == 4 * 512 * 256 and len(_packing.entries) == 1
    del kept
    gc.collect()
    assert not _packing.entries


@torch.no_grad()
def test_full_budget(budget):
    """Copies of weights that are gone make room for others, told of their end or not."""
    size = 4 * 512 * 256
    budget(size)
    old, new, x = torch.nn.Linear(512, 256), torch.nn.Linear(512, 256), torch.randn(3, 512)
    with mode_of.mode():
        for layer in (old, new):
            for _ in range(3):
                layer(x)
        (first,) = (entry for entry in _packing.entries.values() if entry.size)
        # As if nobody had told.
        for key, entry in list(_packing.entries.items()):
            _packing.entries[key] = entry._replace(end=None)
        other = torch.nn.Linear(512, 256)
        del old, layer, first, entry
        gc.collect()
        assert packed_bytes() == size
        want = bits(other(x))
        assert bits(other(x)) == want and packed_bytes() == size and len(_packing.entries) == 2
        del other
        gc.collect()
        assert packed_bytes() == 0
        new(x)  # for which there was no room
        assert packed_bytes() == size


@torch.no_grad()
def test_strict_and_report():
    x, kernel = torch.randn(1, 3, 9), torch.randn(4, 3, 3)
    with mode_of.mode() as active:
        F.conv1d(x, kernel)
        assert active.stock == {"convolution float32": 1}
        assert mode_of.report().stock == {"convolution float32": 1}
        with mode_of.mode(strict=True):
            with pytest.raises(NotImplementedError, match=r"convolution of float32 on cpu, shapes \(1, 3, 9\)"):
                F.conv1d(x, kernel)
            with pytest.raises(NotImplementedError, match="mm of complex128"):
                torch.randn(2, 3, dtype=torch.complex128) @ torch.randn(3, 2, dtype=torch.complex128)
            assert torch.arange(6).sum() == 15
        F.conv1d(x, kernel)
        assert active.stock == {"convolution float32": 2}
    with pytest.raises(RuntimeError, match="no mode"):
        mode_of.report()


@torch.no_grad()
def test_limit_and_arguments():
    w = torch.randn(64, 512)
    with mode_of.mode(limit=4) as active:
        F.linear(torch.randn(4, 512), w)
        assert active.invariant["mm"] == 1 and not active.stock
        F.linear(torch.randn(5, 512), w)
        assert active.stock == {"mm float32": 1}
    for wrong in ({"limit": -1}, {"limit": 0}, {"limit": 1 << 63}, {"order": "fast"}):
        with pytest.raises(ValueError), mode_of.mode(**wrong):
            pass


@torch.no_grad()
def test_limit_in_strict_modes():
    """Above it calls are stock's, which is what the limit asks for: counted, and not refused."""
    w, c = torch.randn(64, 512), torch.randn(64)
    stock = F.linear(torch.randn(5, 512, generator=torch.Generator().manual_seed(1)), w)
    calls = {
        "mm float32": lambda x: F.linear(x, w),
        "addmm float32": lambda x: F.linear(x, w, c),
        "bmm float32": lambda x: torch.bmm(x[None], w.t()[None]),
        "baddbmm float32": lambda x: torch.baddbmm(c, x[None], w.t()[None]),
    }
    for name, call in calls.items():
        with mode_of.mode(strict=True, limit=4) as active:
            call(torch.randn(4, 512))
            assert not active.stock
            call(torch.randn(5, 512))
            torch.mm(torch.randn(5, 512), w.t(), out=torch.empty(5, 64))
        want = {name: 1, "mm float32": 1} if name != "mm float32" else {name: 2}
        assert active.stock == want
    with mode_of.mode(strict=True, limit=4):
        x = torch.randn(5, 512, generator=torch.Generator().manual_seed(1))
        assert bits(F.linear(x, w)) == bits(stock)
        with pytest.raises(NotImplementedError):
            torch.randn(9, 3, dtype=torch.complex128) @ torch.randn(3, 2, dtype=torch.complex128)


@torch.no_grad()
def test_limit_of_the_process():
    """Modes without a limit follow it; 0 is off."""
    x, w = torch.randn(5, 512), torch.randn(64, 512)
    assert samebits.get_limit() == 0
    samebits.set_limit(4)
    try:
        for strict in (False, True):
            with mode_of.mode(strict) as active:
                F.linear(x, w)
                F.linear(x[:4], w)
            assert active.stock == {"mm float32": 1} and active.invariant == {"mm": 1}
        with mode_of.mode(limit=5) as active:
            F.linear(x, w)
        assert not active.stock
        with pytest.raises(ValueError):
            samebits.set_limit(-1)
        assert samebits.get_limit() == 4
    finally:
        samebits.set_limit(0)
    with mode_of.mode() as active:
        F.linear(x, w)
    assert not active.stock


@torch.no_grad()
def test_layouts_are_pytorchs():
    """Results lie in memory as stock's do, which a view of them and compiled functions rely on."""
    x, w = torch.rand(3, 4, 5, 6), torch.randn(6, 6)
    inputs = [x, x.transpose(1, 2), x.permute(2, 0, 1, 3), x.permute(3, 2, 1, 0)[:, :4], x[:, ::2]]
    inputs.append(x[..., :1].expand_as(x))
    functions = {
        "gelu": F.gelu,
        "pow": lambda x: x.pow(3),
        "softmax": lambda x: x.softmax(-1),
        "softmax of 1": lambda x: x.log_softmax(1),
        "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
        "layer_norm of two": lambda x: F.layer_norm(x, x.shape[-2:]),
        "group_norm": lambda x: F.group_norm(x, 1),
        "sum": lambda x: x.sum(1),
        "mean": lambda x: x.mean((0, 2), keepdim=True),
        "var": lambda x: x.var(1),
        "logsumexp": lambda x: x.logsumexp(2),
        "matmul": lambda x: x @ w[: x.shape[-1]],
        "bmm": lambda x: torch.bmm(x[0], x[0].mT),
        "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    }
    stock = {name: [function(x).stride() for x in inputs] for name, function in functions.items()}
    with mode_of.mode(strict=True):
        assert {name: [function(x).stride() for x in inputs] for name, function in functions.items()} == stock


@torch.no_grad()
def test_shape_errors_are_pytorchs():
    with mode_of.mode(strict=True), pytest.raises(RuntimeError, match="mat1 and mat2"):
        torch.randn(2, 3) @ torch.randn(4, 5)


@torch.no_grad()
def test_modes_are_of_a_thread():
    seen = {}

    def work():
        seen["inside"] = mode_of._modes.current()

    with mode_of.mode() as outer:
        with mode_of.mode() as inner:
            assert mode_of._modes.current() is inner
        assert mode_of._modes.current() is outer
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen["inside"] is None and mode_of._modes.current() is not None
    with enabled():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen["inside"] is not None
    assert mode_of._modes.current() is None


@torch.no_grad()
def test_inference_mode_and_autocast():
    layer = torch.nn.Linear(512, 64)
    x = torch.randn(9, 512)
    with torch.inference_mode(), mode_of.mode(strict=True):
        assert not moved(layer, x)
    with torch.autocast("cpu", torch.bfloat16), mode_of.mode(strict=True):
        assert not moved(layer, x)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 5, 7])
@torch.no_grad()
def test_elements_at_thread_borders(threads):
    """Where PyTorch cuts a long tensor for its threads, the shares end in whole vectors."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with mode_of.mode(strict=True):
            for size in (20000, 65792, 65900, 80000):
                x = torch.randn(size)
                for function in (F.gelu, F.silu, torch.sigmoid, F.softplus):
                    one = torch.cat([function(part) for part in x.split(997)])
                    assert bits(function(x)) == bits(one), (function.__name__, size)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", DTYPES)
@torch.no_grad()
def test_elements_at_any_place(dtype):
    """Each element alone, in a row and in a column: the operators that are left to stock as well."""
    x = torch.rand(37, 61).to(dtype) * 4 + 0.01
    table = torch.randn(50, 61).to(dtype)
    cos, sin = torch.randn(2, 37, 61).to(dtype).unbind()
    functions = {
        "pow 2": lambda i: x[i].pow(2),
        "pow 3": lambda i: x[i].pow(3),
        "rsqrt": lambda i: torch.rsqrt(x[i]),
        "exp": lambda i: x[i].exp(),
        "log": lambda i: x[i].log(),
        "tanh": lambda i: x[i].tanh(),
        "cos": lambda i: x[i].cos(),
        "erf": lambda i: x[i].erf(),
        "sqrt": lambda i: x[i].sqrt(),
        "reciprocal": lambda i: x[i].reciprocal(),
        "rope": lambda i: x[i] * cos[i] + x[i].roll(3, -1) * sin[i],
        "embedding": lambda i: F.embedding(torch.arange(37)[i], table),
        "clamp": lambda i: x[i].clamp(0.5, 2),
        "softmax": lambda i: x[i].softmax(-1),
    }
    with mode_of.mode(strict=True):
        for name, function in functions.items():
            whole = function(slice(None))
            for part in (1, 2, 3, 7):
                rows = [function(slice(i, i + part)) for i in range(0, 37, part)]
                assert bits(torch.cat(rows)) == bits(whole), (name, part)


@torch.no_grad()
def test_calls_from_several_threads():
    """Threads that share a module, each in a mode of its own."""
    layer = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.GELU(), torch.nn.Linear(400, 50))
    x = torch.randn(24, 300)
    with mode_of.mode(strict=True):
        want = layer(x)
    have = [None] * 6

    def work(i):
        with torch.no_grad(), mode_of.mode(strict=True):
            have[i] = bits(torch.cat([layer(part) for part in x.split(i + 1)]))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(have))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert have == [bits(want)] * len(have)


@torch.no_grad()
def test_means_along_other_dimensions():
    x = torch.randn(5, 40, 33)
    dims = (-1, 2, (-1,), (1, 2), None, 1)
    exact = [(x.double().mean(dim).float(), x.double().mean(dim, keepdim=True).float()) for dim in dims]
    with mode_of.mode(strict=True):
        assert bits(F.pad(x, (0, 0, 0, 9)).sum(1)) == bits(x.sum(1))
        assert bits(torch.cat([part.mean(1) for part in x.split(2)])) == bits(x.mean(1))
        for dim, (mean, kept) in zip(dims, exact, strict=True):
            assert torch.allclose(x.mean(dim), mean, atol=1e-6)
            assert x.mean(dim, keepdim=True).shape == kept.shape
