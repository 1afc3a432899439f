"""Strict modes: what is not known to stand still is refused by name, and what passes stands still."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import samebits.torch as mode_of  # noqa: E402
from samebits import _tested  # noqa: E402
from samebits.torch import _compiled, _dispatcher, _elements, _install, _modes, _ops, _refusals, _still  # noqa: E402
from torch_support import bits, enabled, moved, seed  # noqa: E402, F401

F = torch.nn.functional
FOLDER = os.path.dirname(__file__)


def test_every_name_is_of_an_operator():
    """Names that PyTorch does not have would be left out in silence."""
    for name in (*_ops.functions, *_elements.ELEMENTWISE, *_refusals.OF_LAYOUTS, *_install.REAL_IN_C):
        assert _dispatcher.overload(name)._schema.name
    names = {_still.base_of(name) for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    newest = _tested.TORCH[1]
    if _tested.is_tested(torch.__version__, (newest, newest)):  # the lists' own; older ones lack some
        assert not (_still.STILL | _still.COMPLEX_MOVES | _still.MOVES_ELSEWHERE) - names
    assert not (_still.COMPLEX_MOVES | _still.MOVES_ELSEWHERE) - _still.STILL
    assert not {_still.base_of(f"aten::{name}") for name in _elements.ELEMENTWISE} & _still.STILL


def test_no_kernel_is_passed_by():
    """What has a kernel for CPUs that may move, meets ours or our refusal: also where PyTorch has a default kernel,
    which a call with a mode's key would run instead."""
    with mode_of.mode():
        pass
    kinds = ("ExplicitAutograd", "ExplicitAutogradNonFunctional", "ImplicitAutograd")
    for name in torch._C._dispatch_get_all_op_names():
        if _dispatcher.has(name, "CPU") and not _still.stands_still(name):
            default = any(_dispatcher.has(name, f"Composite{kind}") for kind in kinds)
            assert _dispatcher.has(name, _modes.KEY) or not default, name


@pytest.mark.parametrize(
    ("operator", "call"),
    [
        ("mkldnn_rnn_layer", lambda x: torch.nn.LSTM(12, 5)(x)),
        ("convolution", lambda x: F.conv1d(x, torch.ones(2, 9, 3))),
        ("native_batch_norm", lambda x: F.batch_norm(x, *torch.ones(2, 9))),
        ("_fft_r2c", lambda x: torch.fft.rfft(x)),
        ("linalg_inv_ex", lambda x: torch.linalg.inv(x[:, :, :9])),
        ("_linalg_svd", lambda x: torch.linalg.svdvals(x)),
        ("_cdist_forward", lambda x: torch.cdist(x, x, p=1.0)),
        ("prod.dim_int", lambda x: x.prod(-1)),
        ("_embedding_bag_forward_only", lambda x: F.embedding_bag(torch.tensor([[0, 1]]), x[0])),
        ("upsample_bicubic2d", lambda x: F.interpolate(x[None], (7, 7), mode="bicubic")),
        ("grid_sampler_2d", lambda x: F.grid_sample(x[None], x[None, 0, :, :2, None].expand(1, 9, 2, 2))),
        ("lstm_cell", lambda x: torch.nn.LSTMCell(12, 5)(x[0])),
    ],
)
@torch.no_grad()
def test_refused(operator, call):
    x = torch.rand(3, 9, 12)
    with mode_of.mode() as active:
        call(x)
    if operator == "lstm_cell":  # made of products and functions that are taken
        assert not active.stock and active.invariant["addmm"]
        return
    assert [name.split()[0] for name in active.stock] == [operator]
    with mode_of.mode(strict=True), pytest.raises(NotImplementedError, match=f"no {operator} of float32"):
        call(x)


@torch.no_grad()
def test_what_a_counted_operator_is_made_of_is_not_counted():
    with mode_of.mode() as active:
        F.interpolate(torch.rand(1, 2, 5, 5), (7, 7), mode="bicubic", antialias=True)
        torch.linalg.solve(torch.rand(4, 4), torch.rand(4, 2))
    assert sorted(active.stock.values()) == [1, 1]


TWO = {
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "pow": lambda x, y: x.abs() ** y,
    "pow of numbers": lambda x, y: 3.7**x,
    "pow_": lambda x, y: x.abs().pow_(2.3),
    "mul": torch.mul,
    "div": torch.div,
    "neg": lambda x, y: -x,
    "times numbers": lambda x, y: x * 0.1 / 0.3,
}
ONE = {name: getattr(torch, name) for name in ("atanh", "cosh", "exp2", "rsqrt", "sgn", "sinh")}
ONE["i0e"] = torch.special.i0e
ONE |= {name: getattr(F, name) for name in ("elu", "mish", "softplus", "softshrink", "logsigmoid")}
OF_COMPLEX = ("mul", "div", "neg", "times numbers")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.complex64])
def test_element_by_element(dtype):
    """Stock's vector bodies and scalar tails differ; in a strict mode parts have the whole's bits, with gaps too.
    The control: stock moves in one of these at least."""
    x, y = torch.rand(2, 33, 61).to(dtype) * 0.8 + 0.1
    names = OF_COMPLEX if dtype.is_complex else (*TWO, *ONE)
    stood = True
    for name in names:
        function = TWO.get(name) or (lambda x, y, name=name: ONE[name](x))

        def parts(function=function):
            whole = bits(function(x, y))
            return whole == bits(torch.cat([function(x[i : i + 1], y[i : i + 1]) for i in range(33)])) and (
                whole == bits(function(x.t().contiguous().t(), y)) == bits(function(x, y.t().contiguous().t()))
            )

        stood = stood and parts()
        want = function(x, y)
        with mode_of.mode(strict=True) as active:
            assert parts(), name
            have = function(x, y)
        assert not active.stock and have.dtype == want.dtype and have.stride() == want.stride()
        assert torch.allclose(have, want, rtol=5e-2 if dtype in (torch.bfloat16, torch.float16) else 1e-5), name
    if stood:
        pytest.skip("stock's functions of this dtype are already invariant here")


@torch.no_grad()
def test_complex_rope():
    """Turning pairs of numbers as complex ones, in a batch and alone."""
    angles = torch.polar(torch.ones(9, 5), torch.rand(9, 5))

    def turn(x):
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (5, 2))) * angles).flatten(-2)

    x = torch.randn(33, 9, 10)
    with mode_of.mode(strict=True):
        assert not moved(turn, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_experts(dtype):
    """Products of rows with the weights of their experts, as mixtures of experts have them, are samebits' products."""
    if not hasattr(torch, "_grouped_mm"):
        pytest.skip("this PyTorch has no such product")
    x, w = torch.randn(33, 64).to(dtype), torch.randn(4, 64, 48).to(dtype)
    experts = torch.arange(33) // 9
    with mode_of.mode(strict=True) as active:
        sizes = torch.histc(experts.float(), bins=4, min=0, max=3)
        have = torch._grouped_mm(x, w, offs=sizes.cumsum(0).int())
        assert bits(have) == bits(torch.cat([x[i : i + 1] @ w[experts[i]] for i in range(33)]))
    assert active.invariant["mm"] == 4 + 33 and sizes.tolist() == [9, 9, 9, 6]


def numbers():
    """Calls with numbers, and tensors of other dtypes, in tensors' places."""
    x, z = torch.rand(3, 5) + 0.1, torch.rand(3, 5, dtype=torch.complex64)
    whole, narrow = torch.arange(1, 16).view(3, 5), x.bfloat16()
    for y in (x, narrow, x.half(), x.double(), whole, narrow[0, 0], x[0, 0], whole[0, 0]):
        for n in (3, 0.1, -0.0, True):
            yield lambda y=y, n=n: y * n
            yield lambda y=y, n=n: n * y
            yield lambda y=y, n=n: n / y
            yield lambda y=y, n=n: torch.mul(y, n, out=torch.empty(0, dtype=torch.result_type(y, n)))
        yield lambda y=y: y / 3
        if y.dtype is not torch.bfloat16:  # PyTorch has no product of such complex numbers
            yield lambda y=y: y * 1j
        yield lambda y=y: 10000.0**y
        yield lambda y=y: y**0.3
        yield lambda y=y: y**2
        yield lambda y=y: y**y
        yield lambda y=y: 2**y
        yield lambda y=y: torch.exp2(y)
        yield lambda y=y: torch.atan2(y, y)
    yield lambda: narrow**x
    yield lambda: x ** x.double()
    yield lambda: narrow.clone().pow_(whole)
    yield lambda: narrow.clone().mul_(0.1)
    yield lambda: whole.clone().mul_(3)
    yield lambda: torch.atan2(x, whole[0])
    yield lambda: x * z
    yield lambda: z.conj() * z.imag
    yield lambda: z.clone().mul_(x)
    yield lambda: z / 3
    yield lambda: -z.conj().imag
    yield lambda: z * whole


@pytest.mark.parametrize("everywhere", [False, True])
@torch.no_grad()
def test_numbers_in_tensors_places(everywhere):
    """The dtypes, shapes and values of stock, in a mode of the thread and in one of the process."""
    calls = list(numbers())
    want = [call() for call in calls]
    if everywhere:
        with enabled(strict=True):
            have = [call() for call in calls]
        after = [call() for call in calls]
        assert [bits(t) for t in after] == [bits(t) for t in want]
    else:
        with mode_of.mode(strict=True):
            have = [call() for call in calls]
    for i, (a, b) in enumerate(zip(have, want, strict=True)):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()), i
        assert torch.allclose(a, b, rtol=1e-2 if b.dtype in (torch.bfloat16, torch.float16) else 1e-5), i


@torch.no_grad()
def test_products_of_numbers_are_exact():
    """x * n and x / n of real tensors have stock's bits: they stand still as they are."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        x = torch.randn(7, 33).to(dtype)
        for n in (0.1, 3, -0.0, float("nan"), 1e300, 1e-320, 7):
            with mode_of.mode(strict=True) as active:
                have = [x * n, n * x, x / n, x.clone().mul_(n), x.clone().div_(n)]
            assert not active.invariant
            assert [bits(t) for t in have] == [bits(t) for t in (x * n, n * x, x / n, x * n, x / n)], (dtype, n)


@pytest.mark.parametrize(("within", "moves"), [("strict", False), ("", True)])
def test_sweep(within, moves):
    """A part of the sweep that the list of what stands still comes from: in a strict mode nothing of it moves. The
    control: in stock something does."""
    command = [sys.executable, "sweep.py", "--short", "--only", "elements of two", "--dtypes", "float32"]
    command += ["--within", within] if within else []
    result = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER, timeout=300)
    found = [line for line in result.stdout.splitlines() if not line.endswith("moved: nothing")]
    assert result.returncode == 0 and "atan2 float32: 1 calls, 2 cut" in result.stdout, result.stderr
    if moves and not found:
        pytest.skip("stock is already invariant here")
    assert bool(found) == moves, found


# --- what no list knows ---


@torch.no_grad()
def test_unknown_operators():
    """Those of other packages, made before the first mode or after it, on the default kernel or the CPU's."""
    library = torch.library.Library("samebits_tests", "FRAGMENT")
    library.define("unknown(Tensor x) -> Tensor")
    library.impl("unknown", lambda x: x.sin(), "CPU")
    x = torch.randn(3, 4)
    call = torch.ops.samebits_tests.unknown
    with mode_of.mode(strict=True):
        with pytest.raises(NotImplementedError, match=r"no samebits_tests::unknown of float32 on cpu.*`allow`"):
            call(x)
        call(torch.arange(3))  # integers have no order
    with mode_of.mode(strict=True, allow=["samebits_tests::unknown"]) as active:
        assert torch.equal(call(x), x.sin())
        with pytest.raises(NotImplementedError):
            x.prod(-1)
    assert active.stock == {"samebits_tests::unknown float32": 1}
    with pytest.raises(TypeError, match="collection"), mode_of.mode(strict=True, allow="mm"):
        pass
    with enabled(strict=True, allow=["samebits_tests::unknown"]):
        call(x)
    library._destroy()


BEFORE = """
import torch
@torch.library.custom_op("mine::before", mutates_args=())
def before(x: torch.Tensor) -> torch.Tensor: return x.sin()
import samebits.torch
with samebits.torch.mode(): pass
@torch.library.custom_op("mine::after", mutates_args=())
def after(x: torch.Tensor) -> torch.Tensor: return x.sin()
names = []
with samebits.torch.mode(strict=True):
    for operator in (before, after):
        try: operator(torch.ones(2))
        except NotImplementedError as error: names.append(str(error).split()[3])
print(names)
"""


def test_custom_operators():
    result = subprocess.run([sys.executable, "-c", BEFORE], capture_output=True, text=True)
    assert result.stdout == "['mine::before', 'mine::after']\n", result.stderr


# --- torch.compile ---


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@torch.no_grad()
def test_compiled(backend):
    """Backends that call PyTorch's operators have the mode's bits."""
    layer = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.SiLU(), torch.nn.Linear(400, 50))
    x = torch.randn(9, 300)
    compiled = torch.compile(layer, backend=backend)
    compiled(x)
    with mode_of.mode(strict=True) as active:
        assert bits(compiled(x)) == bits(layer(x)) and not moved(compiled, x)
        assert active.invariant["addmm"]


def function(x):
    return (x.sin() * 2).sum(-1)


def test_inductor():
    """Its kernels are its own: counted, and refused in a strict mode, compiled before it or inside, backward too."""
    x = torch.randn(5, 33)
    compiled = torch.compile(function)
    want = compiled(x)
    name = f"{_compiled.NAME} float32"
    with mode_of.mode() as active:
        assert torch.equal(compiled(x), want) and active.stock == {name: 1}
    with mode_of.mode(strict=True):
        with pytest.raises(NotImplementedError, match="no inductor graph: .*backend='aot_eager'"):
            compiled(x)
        with pytest.raises(NotImplementedError, match="no inductor graph"):
            torch.compile(lambda x: x.cos() + 1)(x)
        torch.compile(function, backend="aot_eager")(x)
    with mode_of.mode(strict=True, allow=[_compiled.NAME]) as active:
        compiled(x.clone().requires_grad_()).sum().backward()
    assert active.stock == {name: 2}
    with enabled(strict=True):
        with pytest.raises(NotImplementedError, match="no inductor graph"):
            compiled(x)
    assert torch.equal(compiled(x), want)


FIRST = """
import torch, samebits.torch
with samebits.torch.mode(strict=True):
    try: torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
    except NotImplementedError as error: print(error)
"""


def test_inductor_that_is_imported_in_a_mode():
    result = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, timeout=300)
    assert "no inductor graph" in result.stdout, result.stderr


# --- CUDA ---

ATTENTION = """_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
_scaled_dot_product_cudnn_attention _flash_attention_forward _efficient_attention_forward _cudnn_attention_forward
_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward
_scaled_dot_product_cudnn_attention_backward _flash_attention_backward _efficient_attention_backward
_scaled_dot_product_fused_attention_overrideable _scaled_dot_product_fused_attention_overrideable_backward"""

ON_CUDA = """
import json, sys, torch
torch.cuda.is_available = torch.accelerator.is_available = lambda: True
import samebits.torch as mode_of
from samebits.torch import _dispatcher
mode_of.enable(strict=True)
x, cuda = torch.ones(1, 1, 2, 8), torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
values = {"Tensor": x, "int": 1, "float": 0.5, "bool": False, "List[bool]": [True] * 4}
answers = {}
for name in sys.argv[1:]:
    needed = [a for a in _dispatcher.schema(name).arguments if not a.has_default_value()]
    for key in ("CustomRNGKeyId", "CUDA"):
        try:
            _dispatcher.kernel(name, key)(cuda, *[values.get(str(a.type)) for a in needed])
        except Exception as error:
            answers[f"{key} {name}"] = str(error)
print(json.dumps(answers))
"""


def test_attention_on_cuda():
    """What scaled_dot_product_attention comes to there, in a mode of the thread and in one of the process. Without the
    device what stands in front of PyTorch's kernels is called by itself."""
    names = [name for name in ATTENTION.split() if hasattr(torch.ops.aten, name)]
    assert len(names) > 9 and not any(_still.stands_still(f"aten::{name}") for name in names)
    assert not _still.stands_still("aten::_scaled_dot_product_flash_attention.quantized")
    if not _dispatcher.has(names[0], "CUDA"):
        pytest.skip("this PyTorch has no kernels for CUDA")
    result = subprocess.run([sys.executable, "-c", ON_CUDA, *names], capture_output=True, text=True, timeout=120)
    answers = json.loads(result.stdout or "null") or pytest.fail(result.stderr)
    for name in names:
        for key in ("CustomRNGKeyId", "CUDA") if _dispatcher.has(name, "CUDA") else ("CustomRNGKeyId",):
            assert answers[f"{key} {name}"].startswith(f"samebits has no {name} of float32"), answers
