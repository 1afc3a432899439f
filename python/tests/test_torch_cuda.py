"""The modes of samebits.torch beside a GPU: what runs there is PyTorch's own, counted, and refused in strict modes."""

from __future__ import annotations

import threading

import pytest
import samebits

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import samebits.torch as mode_of  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch_support import bits, enabled, seed  # noqa: E402, F401

F = torch.nn.functional
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU with CUDA")


def on_gpu(*shape, dtype=torch.float32):
    return torch.randn(*shape).to("cuda", dtype)


def attend(backend, x):
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def conv(x):
    return F.conv1d(x.mT, x.mT)


ROWS = {
    "mm": lambda x: x[0] @ x[0].mT,
    "bmm": lambda x: x @ x.mT,
    "linear": lambda x: F.linear(x, x[0]),
    "linear with bias": lambda x: F.linear(x, x[0], x[0, :, 0]),
    "addmm": lambda x: torch.addmm(x[0, 0, 0], x[0], x[0].mT),
    "baddbmm": lambda x: torch.baddbmm(x[0, 0, 0], x, x.mT),
    "mv": lambda x: x[0] @ x[0, 0],
    "einsum": lambda x: torch.einsum("bik,bjk->bij", x, x),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x, 2),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "index_add": lambda x: x[0].index_add(0, torch.tensor([0, 1], device="cuda"), x[0, :2]),
    "conv1d": conv,
    "attention": lambda x: attend(SDPBackend.MATH, x[:, None]),
}
ATTENTION = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
}
CALLS = {(name, "float32"): call for name, call in ROWS.items()}
CALLS |= {(name, "bfloat16"): ROWS[name] for name in ("mm", "linear", "softmax", "layer_norm")}
CALLS |= {(name, "float16"): ROWS[name] for name in ("mm", "bmm", "attention")}
CALLS |= {(name, "float64"): ROWS[name] for name in ("mm", "sum")}
CALLS |= {(name, "complex64"): ROWS[name] for name in ("mm", "sum")}
CALLS |= {(name, "bfloat16"): lambda x, b=backend: attend(b, x[:, None]) for name, backend in ATTENTION.items()}


def same(want, have):
    return have.dtype == want.dtype and have.shape == want.shape and bits(have.cpu()) == bits(want.cpu())


@pytest.mark.parametrize(("name", "dtype"), CALLS)
@torch.no_grad()
def test_what_may_move(name, dtype):
    call, x = CALLS[name, dtype], on_gpu(4, 64, 64, dtype=getattr(torch, dtype))
    want = call(x)
    with mode_of.mode() as active:
        assert same(want, call(x)) and active.stock and not active.invariant
    counted = dict(active.stock)
    with mode_of.mode(strict=True) as active, pytest.raises(NotImplementedError, match="of .* on cuda, shapes"):
        call(x)
    assert not active.invariant
    assert any(dtype in name or name.endswith("float32") for name in counted)  # some of attention's in float32
    names = {name.split()[0] for name in counted}
    with mode_of.mode(strict=True, allow=names) as active:
        assert same(want, call(x)) and active.stock == counted
    with enabled(strict=True):
        with pytest.raises(NotImplementedError, match="on cuda, shapes"):
            call(x)
    assert same(want, call(x))


STILL = {
    "moves": lambda x: torch.cat([x.cpu().cuda(), x.flip(0), x.mT.contiguous()])[:, ::2],
    "casts": lambda x: x.bfloat16().double().float(),
    "arithmetic": lambda x: (x + 1) * x / 3 - x,
    "comparisons": lambda x: torch.where(x > 0, x, x.amax(-1, keepdim=True)),
    "functions": lambda x: torch.exp(F.gelu(x).sigmoid().tanh()),
    "sorting": lambda x: x.sort(-1)[0] + x.topk(64, -1)[1],
    "gradient of SiLU": lambda x: torch.ops.aten.silu_backward(x, x),
    "embedding": lambda x: F.embedding(torch.arange(9, device="cuda"), x[0]),
}


@pytest.mark.parametrize("name", STILL)
@torch.no_grad()
def test_what_stands_still(name):
    x = on_gpu(4, 64, 64)
    want = STILL[name](x)
    with mode_of.mode(strict=True) as active:
        assert same(want, STILL[name](x)) and not active.stock and not active.invariant


def test_backward_passes():
    """PyTorch's own threads run them: a mode of the process reaches those."""
    x = on_gpu(8, 16).requires_grad_()
    y = (x * 2) @ on_gpu(16, 4)
    with enabled(strict=True):
        with pytest.raises(NotImplementedError, match="mm of float32 on cuda"):
            y.backward(torch.ones_like(y))


@torch.no_grad()
def test_a_model():
    """Bits outside and in a mode that is not strict are the same; CPU's products beside are samebits'."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, device="cuda").eval()
    x, rows = on_gpu(2, 10, 64), torch.randn(3, 4)
    want = layer(x)
    with mode_of.mode() as active:
        assert same(want, layer(x)) and sum(active.stock.values()) > 0 and not active.invariant
        rows @ rows.T
        assert active.invariant == {"mm": 1}
    others = []
    with mode_of.mode(strict=True):
        with pytest.raises(NotImplementedError, match="on cuda"):
            layer(x)
        thread = threading.Thread(target=torch.no_grad()(lambda: others.append(layer(x))))
        thread.start()
        thread.join()
    assert same(want, others[0])


def test_arrays():
    """The functions over arrays want memory of the CPU."""
    with pytest.raises(BufferError, match="on cuda.*want CPU memory"):
        samebits.linear(on_gpu(3, 4), torch.randn(2, 4))
