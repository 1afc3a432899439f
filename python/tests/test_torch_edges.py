"""samebits.torch at its borders: what calls outside of modes meet, other devices and layouts, tensors without memory,
gradients that samebits' own functions do not follow, versions."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import samebits  # noqa: E402
import samebits.torch as mode_of  # noqa: E402
from samebits.torch import _install, _load  # noqa: E402
from torch_support import bits, enabled  # noqa: E402

F = torch.nn.functional
# Quantised and nested tensors.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

SCRIPT = """
import json, time, torch
start = time.process_time()
import samebits.torch
seconds = time.process_time() - start
from samebits.torch import _install
from samebits.torch._modes import KEY

def tables():
    names = [f"aten::{name}" for name in (*_install._operators(), "add.Tensor", "_to_copy")]
    dumps = [torch._C._dispatch_dump_table(name).splitlines() for name in names]
    return [[line for line in dump if line[:4] in ("CPU:", "CUDA")] for dump in dumps]

before = tables()
with samebits.torch.mode():
    inside = tables()
print(json.dumps([seconds, before == inside, torch._C._dispatch_tls_is_dispatch_key_included(KEY), len(before[0])]))
"""


def test_calls_outside_of_modes_are_pytorchs():
    """The dispatcher has PyTorch's kernels under the devices' keys, in modes too; and the import takes no time."""
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    seconds, untouched, key_is_on, lines = json.loads(result.stdout or "null") or pytest.fail(result.stderr)
    assert untouched and not key_is_on and lines
    assert seconds < 0.2


@pytest.mark.parametrize(("value", "calls"), [("1", 1), ("0", 0)])
def test_environment(value, calls):
    script = "import samebits.torch, torch; a = torch.ones(2, 2); a @ a; print(samebits.torch.report().invariant['mm'])"
    environment = {**os.environ, "SAMEBITS_TORCH": value}
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert result.stdout == "1\n" if calls else "no mode is active" in result.stderr


@pytest.mark.parametrize(("value", "limit"), [("", 0), ("0", 0), ("7", 7), ("unlimited", (1 << 63) - 1), ("-1", None)])
def test_limit_from_the_environment(value, limit):
    script = "import samebits.torch; print(samebits.get_limit())"
    environment = {**os.environ, "SAMEBITS_LIMIT": value}
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert result.stdout == f"{limit}\n" if limit is not None else "want a number of rows" in result.stderr


@torch.no_grad()
def test_other_operators_take_no_notice():
    """Operators without a kernel of ours, those that PyTorch registers in unusual ways included."""
    x = torch.randn(3, 4)
    calls = {
        "to": lambda: x.to(torch.float64),
        "linspace": lambda: torch.linspace(torch.tensor(0.0), torch.tensor(1.0), 5),
        "sparse": lambda: torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0]).to_dense(),
        "zeros": lambda: torch.zeros_like(x),
        "sort": lambda: x.sort(-1)[0],
        "where": lambda: torch.where(x > 0, x, 0),
        "pin": lambda: x.is_pinned(),
        "quantised": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).clone().dequantize(),
        "channels": lambda: torch.quantize_per_channel(x, torch.ones(3), torch.zeros(3), 0, torch.qint8).dequantize(),
        "vmap": lambda: torch.func.vmap(lambda row: row + 1)(x),
        "jvp": lambda: torch.func.jvp(torch.sin, (x,), (x,))[1],
        "prims": lambda: torch._prims.add(x, x),
    }
    want = {name: call() for name, call in calls.items()}
    with mode_of.mode(strict=True) as active:
        for name, call in calls.items():
            have = call()
            assert have == want[name] if name == "pin" else torch.equal(have, want[name]), name
    assert not active.stock


def test_blocks_that_end_in_the_wrong_order():
    """Leaving such a block switches the mode off, which is not to go unnoticed."""
    block, mode = torch.inference_mode(), mode_of.mode()
    block.__enter__()
    mode.__enter__()
    block.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="began last end first"):
        mode.__exit__(None, None, None)
    with torch.inference_mode(), mode_of.mode():
        pass
    with mode_of.mode(), torch.inference_mode():
        pass


@torch.no_grad()
def test_functions_of_rows():
    """vmap and grad run the mode's products."""
    x, w = torch.randn(5, 70), torch.randn(70, 9)
    with mode_of.mode(strict=True) as active:
        assert bits(torch.func.vmap(lambda row: row @ w)(x)) == bits(x @ w)
        gradient = torch.func.grad(lambda rows: (rows @ w).sum())(x)
    assert torch.allclose(gradient, w.sum(1).expand(5, 70), atol=1e-5) and active.invariant["mm"] > 1


# --- other devices: PyTorch's key for those of other packages stands in for CUDA's ---


@pytest.fixture(scope="module")
def device():
    """Makes tensors of it, whose products are "stock"."""
    if not hasattr(torch._C, "_acc"):
        pytest.skip("this PyTorch makes no such tensors")
    library = torch.library.Library("aten", "IMPL")
    library.impl("mm", lambda a, b: torch._C._acc.create_empty_tensor((a.shape[0], b.shape[1]), a.dtype), "PrivateUse1")
    library.impl("gelu", lambda x, approximate="none": x, "PrivateUse1")
    yield lambda *shape: torch._C._acc.create_empty_tensor(shape, torch.float32)
    library._destroy()


@torch.no_grad()
def test_other_devices(device):
    """They run on their own kernels and are counted; a strict mode refuses them by name."""
    a, b = device(3, 4), device(4, 5)
    with enabled():
        assert (a @ b).shape == (3, 5)
    with mode_of.mode() as active:
        assert (a @ b).shape == (3, 5) and active.stock == {"mm float32": 1} and not active.invariant
        F.gelu(a)  # which moves on CPUs alone
        assert active.stock == {"mm float32": 1}
    with mode_of.mode(strict=True):
        F.gelu(a)
        with pytest.raises(NotImplementedError, match=r"mm of float32 on privateuseone, shapes \(3, 4\), \(4, 5\)"):
            a @ b
        with pytest.raises(NotImplementedError, match="mm of float32 on privateuseone/cpu"):
            a @ torch.randn(4, 5)
    with pytest.raises(BufferError, match="on privateuseone.*want CPU memory"):
        samebits.linear(a, torch.randn(2, 4))


def test_cuda_kernels_are_refused():
    """What stands in front of CUDA's kernels while a mode is enabled."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    run = _install._wrap("mm", lambda keys, *args: "stock")
    a = torch.empty(3, 4, device="meta")
    assert run(keys, a, a) == "stock"
    with mode_of.mode() as active:
        assert run(keys, a, a) == "stock" and active.stock == {"mm float32": 1}
    with mode_of.mode(strict=True), pytest.raises(NotImplementedError, match="mm of float32"):
        run(keys, a, a)


def test_cuda_present():
    """Not all operators have a kernel for CUDA: what is only of CPUs must not keep a mode from starting."""
    program = (
        "import torch; torch.cuda.is_available = lambda: True; import samebits.torch as mode_of\n"
        "x = torch.ones(2, 3)\n"
        "with mode_of.mode(strict=True) as active: x @ x.T\n"
        "mode_of.enable(strict=True); x @ x.T; mode_of.disable()\n"
        "assert active.invariant == {'mm': 1}, active"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_operators_that_python_registered():
    """torch.distributed.fsdp has kernels of its own for CPUs, in front of which a mode of the process comes."""
    program = (
        "import torch.distributed.fsdp; import samebits.torch as mode_of\n"
        "x = torch.ones(2, 3)\n"
        "mode_of.enable(strict=True); x @ x.T; mode_of.disable()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


# --- layouts, and tensors without memory ---


def refused(call, operator, dtype, layout=None):
    """A call that runs on PyTorch's kernel and is counted, and that a strict mode names."""
    want = call()
    with mode_of.mode() as active:
        have = call()
    assert active.stock[f"{operator} {dtype}"] == 1, dict(active.stock)
    assert type(have) is type(want) and have.shape == want.shape if not want.is_nested else have.is_nested
    text = f"no {operator} of {dtype}" + (f" in layout {layout}" if layout else "") + " on cpu"
    with mode_of.mode(strict=True), pytest.raises(NotImplementedError, match=text):
        call()


@pytest.mark.parametrize(
    ("layout", "operator", "call"),
    [
        ("sparse_coo", "mm", lambda x, w: x.to_sparse() @ w),
        ("sparse_coo", "mm", lambda x, w: w.t() @ x.t().to_sparse()),
        ("sparse_coo", "addmm", lambda x, w: torch.addmm(torch.zeros(3, 5), x.to_sparse(), w)),
        ("sparse_coo", "mv", lambda x, w: x.to_sparse() @ w[:, 0]),
        ("sparse_coo", "bmm", lambda x, w: torch.bmm(x[None].to_sparse(), w[None])),
        ("sparse_coo", "sum.dim_IntList", lambda x, w: x.to_sparse().sum(-1)),
        ("sparse_coo", "_sparse_softmax", lambda x, w: torch.sparse.softmax(x.to_sparse(), -1)),
        ("sparse_coo", "_sparse_sparse_matmul", lambda x, w: torch.sparse.mm(x.to_sparse(), w.to_sparse())),
        ("sparse_csr", "mm", lambda x, w: x.to_sparse_csr() @ w),
        ("sparse_csr", "mm", lambda x, w: F.linear(x.to_sparse_csr(), w.t())),
        ("sparse_csr", "addmv", lambda x, w: x.to_sparse_csr() @ w[:, 0]),
        ("sparse_csr", "sum.dim_IntList", lambda x, w: x.to_sparse_csr().sum(-1, keepdim=True)),
        ("sparse_csr", "sparse_sampled_addmm", lambda x, w: torch.sparse.sampled_addmm((x @ w).to_sparse_csr(), x, w)),
        ("nested", "_softmax", lambda x, w: torch.nested.nested_tensor([x, x[1:]]).softmax(-1)),
        ("nested", "bmm", lambda x, w: torch.bmm(*[torch.nested.nested_tensor([y, y]) for y in (x, w)])),
        ("_mkldnn", "mkldnn_linear", lambda x, w: F.linear(x.to_mkldnn(), w.t().to_mkldnn())),
        ("_mkldnn", "mkldnn_linear", lambda x, w: F.linear(x.to_mkldnn(), w.t(), torch.zeros(5))),
        ("_mkldnn", "_softmax", lambda x, w: x.to_mkldnn().softmax(-1)),
        ("_mkldnn", "gelu", lambda x, w: F.gelu(x.to_mkldnn())),
        ("_mkldnn", "add.Tensor", lambda x, w: x.to_mkldnn() + x.to_mkldnn()),
        ("_mkldnn", "convolution", lambda x, w: F.conv1d(x[None].to_mkldnn(), x[None])),
        ("_mkldnn", "avg_pool2d", lambda x, w: F.avg_pool2d(x[None, None].to_mkldnn(), 2)),
        ("_mkldnn", "native_batch_norm", lambda x, w: batch_norm(x[None, :, :, None].to_mkldnn())),
    ],
)
@torch.no_grad()
def test_other_layouts(layout, operator, call):
    x, w = torch.randn(3, 4), torch.randn(4, 5)
    refused(lambda: call(x, w), operator, "float32", layout)


def batch_norm(x):
    return F.batch_norm(x, *torch.ones(4, x.shape[1]))


@torch.no_grad()
def test_products_that_mkldnn_has_not():
    """What PyTorch refuses too is named in a strict mode."""
    x = torch.randn(3, 4).to_mkldnn()
    for call in (lambda: x @ torch.randn(4, 5), lambda: torch.randn(2, 3) @ x):
        with mode_of.mode(strict=True), pytest.raises(NotImplementedError, match="no mm of float32 in layout _mkldnn"):
            call()


@torch.no_grad()
def test_what_moves_no_bit_in_other_layouts():
    x = torch.randn(3, 4)
    calls = [
        lambda: x.to_mkldnn().to_dense(),
        lambda: x.to_mkldnn().clone().reshape(4, 3).to_dense(),
        lambda: F.relu(x.to_mkldnn()).to_dense(),
        lambda: (x.to_sparse() * 2).to_dense(),
        lambda: F.relu(x.to_sparse_csr()).to_dense(),
        lambda: torch.nested.nested_tensor([x, x]).to_padded_tensor(0.0),
        lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize(),
    ]
    want = [call() for call in calls]
    with mode_of.mode(strict=True) as active:
        assert all(torch.equal(call(), there) for call, there in zip(calls, want, strict=True))
    assert not active.stock


def quantised(x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)


def dynamic(module):
    return torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(module), dtype=torch.qint8)


@torch.no_grad()
def test_quantised():
    """Quantised tensors, dense ones times quantised weights, and one model of the latter."""
    x = torch.randn(3, 64)
    linear, lstm = dynamic(torch.nn.Linear(64, 32)), dynamic(torch.nn.LSTM(64, 32))
    refused(lambda: quantised(x).mean(-1), "mean.dim", "quint8")
    refused(lambda: torch.ao.nn.quantized.Linear(64, 32)(quantised(x)), "quantized::linear", "quint8")
    refused(lambda: torch.ops.quantized.add(quantised(x), quantised(x), 0.1, 0), "quantized::add", "quint8")
    refused(lambda: linear(x), "quantized::linear_dynamic", "float32")
    refused(lambda: lstm(x[None])[0], "quantized_lstm.input", "float32")
    narrow, scales = torch.ones(32, 64, dtype=torch.int8), torch.ones(32, dtype=torch.bfloat16)
    refused(lambda: torch._weight_int8pack_mm(x.bfloat16(), narrow, scales), "_weight_int8pack_mm", "bfloat16/int8")
    with mode_of.mode(strict=True):
        dynamic(torch.nn.Linear(64, 32))  # which packs weights


@torch.no_grad()
def test_oneDNN_s_own():
    """What it computes of dense tensors under its own names."""
    x, lstm = torch.randn(3, 64), torch.nn.LSTM(64, 32)
    refused(lambda: lstm(x[None])[0], "mkldnn_rnn_layer", "float32")
    pointwise = torch.ops.mkldnn._linear_pointwise
    refused(lambda: pointwise(x, torch.ones(5, 64), None, "none", [], ""), "mkldnn::_linear_pointwise", "float32")


@torch.no_grad()
def test_other_layouts_of_all_threads():
    x = torch.randn(3, 64)
    linear = dynamic(torch.nn.Linear(64, 32))
    with enabled(strict=True):
        for call, name in (
            (lambda: F.gelu(x.to_mkldnn()), "gelu of float32 in layout _mkldnn"),
            (lambda: x.to_sparse() @ x.t(), "mm of float32 in layout sparse_coo"),
            (lambda: quantised(x).mean(-1), "mean.dim of quint8"),
            (lambda: linear(x), "quantized::linear_dynamic of float32"),
            (lambda: torch.ops.quantized.add(quantised(x), quantised(x), 0.1, 0), "quantized::add of quint8"),
        ):
            with pytest.raises(NotImplementedError, match=name):
                call()
    assert linear(x).shape == (3, 32) and F.gelu(x.to_mkldnn()).is_mkldnn


@torch.no_grad()
def test_no_memory():
    """Meta and fake tensors have shapes alone: strict modes let them pass, and nothing is counted."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def run(x, w):
        y = F.linear(x, w)
        y = y[None]
        return F.gelu(F.layer_norm(y, (8,))).softmax(-1).var(-1)[0], F.scaled_dot_product_attention(y, y, y)

    with mode_of.mode(strict=True) as active:
        a, b = run(torch.empty(2, 3, 16, device="meta"), torch.empty(8, 16, device="meta"))
        assert (a.shape, b.shape, a.device.type) == ((2, 3), (1, 2, 3, 8), "meta")
        with FakeTensorMode():
            a, b = run(torch.empty(2, 3, 16), torch.empty(8, 16))
            assert (a.shape, b.shape) == ((2, 3), (1, 2, 3, 8)) and type(a).__name__ == "FakeTensor"
    assert not active.invariant and not active.stock


def test_subclasses():
    """Tensors of classes of one's own, which take another way to the library than PyTorch's."""

    class Own(torch.Tensor):
        pass

    x, w = torch.randn(3, 70), torch.randn(9, 70)
    with mode_of.mode(strict=True), torch.no_grad():
        want = bits(F.linear(x, w))
        assert bits(F.linear(x, torch.nn.Parameter(w))) == want
        y = F.linear(x.as_subclass(Own), w)
        assert type(y) is Own and bits(y.as_subclass(torch.Tensor)) == want


# --- samebits' own functions of PyTorch's tensors ---


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(3, 8)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda x: x.clone().requires_grad_(), RuntimeError, "requires grad.*detach"),
        (lambda x: x.to("meta"), BufferError, "on meta.*CPU memory"),
        (lambda x: fake(), BufferError, "without memory"),
        (lambda x: x.to_sparse(), TypeError, "layout sparse_coo.*dense"),
        (lambda x: x.to_sparse_csr(), TypeError, "layout sparse_csr"),
        (lambda x: x.to_mkldnn(), TypeError, "layout _mkldnn"),
        (lambda x: torch.nested.nested_tensor([x, x]), TypeError, "layout nested"),
        (lambda x: torch.nested.nested_tensor([x, x], layout=torch.jagged), TypeError, "layout nested"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), TypeError, "qint8"),
        (lambda x: x.to(torch.complex128), TypeError, "complex128"),
        (lambda x: x.to(torch.float8_e4m3fn), TypeError, "float8_e4m3fn"),
        (lambda x: x.long(), TypeError, "int64"),
    ],
)
def test_functions_name_what_they_do_not_take(make, kind, text):
    x, w = torch.randn(3, 8), torch.randn(8, 8)
    out = torch.full((3, 8), 7.0)
    calls = [
        lambda bad: samebits.linear(bad, w, out=out),
        lambda bad: samebits.linear(x, bad, out=out),
        lambda bad: samebits.matmul(bad, w, out=out),
        lambda bad: samebits.softmax(bad, out=out),
        lambda bad: samebits.rms_norm(bad, out=out),
    ]
    for call in calls:
        with pytest.raises(kind, match=text):
            call(make(x))
    assert (out == 7).all()
    if kind is RuntimeError:
        with torch.no_grad():
            assert bits(samebits.linear(make(x), w)) == bits(samebits.linear(x, w))
        assert samebits.Weights(make(x)).shape == (3, 8)


@torch.no_grad()
def test_functions_follow_marks():
    """A tensor may stand for the conjugate or the negative of its memory."""
    z, w = torch.randn(3, 8, dtype=torch.complex64), torch.randn(5, 8, dtype=torch.complex64)
    assert bits(samebits.linear(z.conj(), w)) == bits(samebits.linear(z.conj().resolve_conj(), w))
    assert z.conj().imag.is_neg()
    assert bits(samebits.softmax(z.conj().imag)) == bits(samebits.softmax(-z.imag))
    out = torch.full((3, 5), 7, dtype=torch.complex64)
    with pytest.raises(BufferError, match="out stands for the conjugate"):
        samebits.linear(z, w, out=out.conj())
    with pytest.raises(BufferError, match="negative of its memory"):
        samebits.softmax(z.real, out=torch.zeros_like(z).conj().imag)
    assert (out == 7).all()


@pytest.mark.parametrize("given", [False, True])
def test_each_tensor_is_checked_once(given, monkeypatch):
    """The arguments; a result that is made here needs no check."""
    x, w, out = torch.randn(3, 8), torch.randn(5, 8), torch.empty(3, 5) if given else None
    bias, seen, check = torch.randn(5), [], samebits._arrays._check_torch
    monkeypatch.setattr(samebits._arrays, "_check_torch", lambda tensor: seen.append(id(tensor)) or check(tensor))
    samebits.linear(x, w, bias, out=out)
    assert sorted(seen) == sorted(id(tensor) for tensor in (x, w, bias, out) if tensor is not None)


# --- versions ---


@pytest.mark.parametrize(
    ("version", "warns"), [(_load.TESTED[1] + ".1", False), ("2.1.0", True), ("9.0.0a1+cpu", True)]
)
def test_versions(version, warns, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        runpy.run_path(_load.__file__)
    assert bool(found) == warns
    if warns:
        assert f"PyTorch {_load.TESTED[0]} to {_load.TESTED[1]}; this is {version}" in str(found[0].message)
