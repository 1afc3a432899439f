"""samebits.torch's operators in C: the bits of those in Python, what they leave to them, and a PyTorch that lacks their
C functions."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import samebits.torch as mode_of  # noqa: E402
from samebits import _core  # noqa: E402
from samebits.torch import _elements, _install, _ops  # noqa: E402

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture
def in_c():
    with mode_of.mode():
        if mode_of.report().dispatch != "C":
            pytest.skip("this PyTorch lacks the C functions")


def bits(result):
    if isinstance(result, tuple):
        return [bits(part) for part in result]
    if not isinstance(result, torch.Tensor):
        return result
    return tuple(result.shape), result.stride(), result.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def calls(dtype):
    """(operator, arguments, keywords) that C takes."""
    torch.manual_seed(1)

    def r(*shape):
        return torch.randn(*shape, dtype=dtype)

    a, w, big = r(5, 70), r(33, 70), r(200, 300)
    yield "mm", (a, w.t()), {}
    yield "mm", (r(70, 5).t(), r(70, 33)), {}
    yield "mm", (r(2, 300), big.t()), {}
    yield "mm", (r(2, 0), r(0, 3)), {}
    yield "mm", (r(0, 4), r(4, 3)), {}
    yield "bmm", (r(3, 5, 70), r(3, 33, 70).transpose(1, 2)), {}
    for bias in (r(33), r(5, 33), r(5, 1), r(1, 33).expand(5, 33)):
        yield "addmm", (bias, a, w.t()), {}
        yield "addmm", (bias, a, w.t()), {"alpha": 0.5, "beta": 2}
    yield "addmm", (r(33) * float("nan"), a, w.t()), {"beta": 0}
    yield "baddbmm", (r(3, 5, 33), r(3, 5, 70), r(3, 70, 33)), {"alpha": 3}
    yield "addmv", (r(33), w, r(140)[::2]), {"beta": 0.5}
    yield "dot", (r(70), r(140)[::2]), {}
    for name in ("silu", "sigmoid", "gelu"):
        yield name, (r(3, 41),), {}
        yield name, (r(0, 3),), {}
        yield name, (r(4, 5, 6).permute(2, 0, 1)[:, ::2],), {}
        yield name, (r(3, 1).expand(3, 5),), {}
    yield "gelu", (r(1)[0],), {"approximate": "tanh"}
    x = r(4, 6, 35)
    for dims in ([-1], [2], [0], [1], [0, 1], [1, 2], [-1, -2], [0, 1, 2], [], None):
        yield "sum.dim_IntList", (x, dims), {}
        yield "mean.dim", (x, dims, True), {}
    yield "sum.dim_IntList", (x.transpose(0, 1), [1], True), {}
    yield "sum.dim_IntList", (r(2, 3, 4, 5).transpose(0, 3)[::2], [1]), {}
    yield "sum.dim_IntList", (r(4, 1).expand(4, 9), [1]), {}
    yield "mean.dim", (r(9), [0]), {}
    for name in ("_softmax", "_log_softmax"):
        yield name, (x, -1, False), {}
        yield name, (x, 2, False), {}
        yield name, (r(9), 0, False), {}
        yield name, (r(0, 3), 1, False), {}
    for weight, bias in ((None, None), (r(35), None), (r(35), r(35))):
        yield "native_layer_norm", (x, [35], weight, bias, 1e-5), {}
    q, k, v = r(2, 4, 9, 16), r(2, 2, 9, 16), r(2, 9, 2, 16).transpose(1, 2)
    yield "_scaled_dot_product_flash_attention_for_cpu", (r(2, 9, 4, 48).transpose(1, 2)[..., :16], k, v), {}
    yield "_scaled_dot_product_flash_attention_for_cpu", (r(1, 1, 9, 16).expand(2, 4, 9, 16), k, v), {}
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)):
        moved = q.permute(order).contiguous().permute([order.index(d) for d in range(4)])
        yield "_scaled_dot_product_flash_attention_for_cpu", (moved, k, v), {}
    yield "_scaled_dot_product_flash_attention_for_cpu", (q, k, v, 0.0, True), {"scale": 0.3}
    for mask in (torch.rand(9, 9) > 0.3, torch.rand(2, 1, 9, 9) > 0.3, r(2, 4, 9, 9), r(1, 1, 1, 9)):
        mask[..., 0] = 1
        yield "_scaled_dot_product_flash_attention_for_cpu", (q, k, v), {"attn_mask": mask}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inference", [False, True])
def test_same_bits_as_in_python(in_c, dtype, inference):
    """Each C function against the Python function that it stands before."""
    left = []
    with torch.inference_mode(inference), mode_of.mode() as active:
        for name, args, kwargs in calls(dtype):
            kernel = _core.TorchKernel(name, None, lambda keys, *args, **kwargs: left.append(1), False)
            for _ in range(3):  # the first calls of weights are before they are packed
                have = kernel(None, *args, **kwargs)
            assert not left, (name, [getattr(t, "shape", t) for t in args])
            assert bits(have) == bits(_ops.functions[name](active, *args, **kwargs)), (name, args)
            assert active.invariant[name] >= 3


def test_what_c_leaves_to_python(in_c):
    def r(*shape, dtype=torch.float32):
        return torch.randn(*shape).to(dtype)

    cases = [
        ("mm", (r(2, 3), r(4, 5))),
        ("mm", (r(2, 3), r(3, 4, dtype=torch.float16))),
        ("mm", (r(2, 3, dtype=torch.float64), r(3, 4))),
        ("mm", (r(2, 3, dtype=torch.complex128), r(3, 4, dtype=torch.complex128))),
        ("mm", (r(2, 3, dtype=torch.complex64).conj(), r(3, 4, dtype=torch.complex64))),
        ("vdot", (r(3, dtype=torch.complex64), r(3, dtype=torch.complex64))),
        ("mm", (r(2, 3, 4), r(2, 4, 5))),
        ("bmm", (r(2, 3), r(3, 4))),
        ("addmm", (r(7), r(2, 3), r(3, 4))),
        ("mm", (r(2, 3).to_sparse(), r(3, 4))),
        ("mm", (torch.empty(2, 3, device="meta"), r(3, 4))),
        ("bmm", (r(2, 3, 4), r(3, 4, 5))),
        ("addmm", (r(4), r(2, 3), None)),
        ("sum.dim_IntList", (r(2, 3), [2])),
        ("sum.dim_IntList", (r(2, 3), [0, -2])),
        ("sum.dim_IntList", (r(2, 3, 4)[:, ::2, ::3], [1, 2])),
        ("sum.dim_IntList", (torch.ones(3, dtype=torch.int64), [0])),
        ("mean.dim", (r(0, 3), [0])),
        ("_softmax", (r(3, 4), 0, False)),
        ("_softmax", (r(3, 4).t(), 1, False)),
        ("_softmax", (r(3, 4), 1, True)),
        ("native_layer_norm", (r(3, 4), [3, 4], None, None, 1e-5)),
        ("softplus", (r(3, 4).t(),)),
        ("gelu", (r(3, 4, dtype=torch.float64),)),
        ("_scaled_dot_product_flash_attention_for_cpu", (r(1, 1, 3, 8), r(1, 1, 4, 8), r(1, 1, 4, 8), 0.0, True)),
        ("_scaled_dot_product_flash_attention_for_cpu", (r(1, 1, 3, 8), r(1, 1, 4, 8), r(1, 1, 4, 8), 0.1)),
        ("convolution", (r(1, 1, 3),)),
        ("mm", (1, None)),
        ("mm", ()),
    ]
    with torch.no_grad(), mode_of.mode() as active:
        for name, args in cases:
            kernel = _core.TorchKernel(name, None, lambda keys, *args: "left", name in _elements.ELEMENTWISE)
            assert kernel(None, *args) == "left", (name, args)
        assert not active.invariant
    outside = _core.TorchKernel("mm", None, lambda keys, *args: "left", False)
    assert outside(None, r(2, 3), r(3, 4)) == "left"
    with pytest.raises(TypeError), mode_of.mode():
        outside()


@torch.no_grad()
def test_results_are_tensors_like_any():
    x, w = torch.randn(3, 40), torch.randn(5, 40)
    with mode_of.mode(strict=True):
        for y in (x @ w.t(), x.softmax(-1), x.sum(-1), torch.nn.functional.silu(x)):
            assert y.is_contiguous() and y._version == 0 and not y.requires_grad
            y.add_(1)
            y.resize_(7, 9)
        with torch.device("meta"):
            assert (x @ w.t()).device.type == "cpu"
        with torch.inference_mode():
            assert (x @ w.t()).is_inference()
        with pytest.raises(IndexError):
            x.sum(2)
        with pytest.raises(RuntimeError):
            x.sum((0, 0))


SCRIPT = """
import sys, torch
{before}
import samebits.torch
sys.path.insert(0, {folder!r})
import test_torch_dispatch
with samebits.torch.mode(strict=True):
    print(test_torch_dispatch.digest())
    print(samebits.torch.report().dispatch)
"""


def digest():
    """What a small model and its gradients come to."""
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 150, activation="gelu", batch_first=True, dropout=0.0)
    x = torch.randn(2, 9, 32, requires_grad=True)
    layer.train()
    layer(x).square().mean().backward()
    tensors = [x.grad, *(p.grad for p in layer.parameters())]
    with torch.no_grad():
        tensors += [layer(x) for _ in range(3)]
        tensors += [torch.nn.functional.silu(x), torch.mv(x[0], x[1, 1]), x.mean(1), x.var(-1)]
    return hashlib.sha256(repr([bits(t.detach()) for t in tensors]).encode()).hexdigest()


@pytest.mark.parametrize(
    ("before", "dispatch"),
    [
        ("torch.Tensor.__dlpack_c_exchange_api__ = None", "Python"),
        ("from samebits.torch import _install; _install.SHIMS = 'libnone.so'", "C, new tensors in Python"),
    ],
)
def test_missing_functions(before, dispatch):
    """PyTorch without DLPack's C functions, or without its own: the same bits."""
    with mode_of.mode(strict=True):
        want = digest()
    script = SCRIPT.format(before=before, folder=str(__file__).rpartition("/")[0])
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout.split("\n")[:2] == [want, dispatch], result.stderr


def test_levels():
    """_install's names are those of the extension module's numbers."""
    with mode_of.mode():
        assert mode_of.report().dispatch == _install.dispatch() in _install.LEVELS
