"""Which of PyTorch's operators move: python python/tests/sweep.py [--within mode|strict] [--dtypes ...] [--only TEXT]

Runs PyTorch's own samples of its functions (torch.testing, which needs the package expecttest), forward and backward,
records the calls of operators that these come to, and repeats each call where the same numbers have to come out:

- with 1, 2 and 3 threads;
- from tensors with gaps between their elements, and from such that start at an odd place;
- in parts. A dimension along which an operator's rows are independent is found by trying: the parts' results are those
  of the whole but for rounding. Then they have to be those of the whole bit for bit;
- as a part of a tensor so long that threads share it.

Prints, for each operator, how many calls stood still, how many could be cut into parts, and what moved. What is left
moving within a mode of samebits.torch is what strict modes have to refuse; within a strict one nothing may move: exit
status 1 if anything does."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch_support import bits

DTYPES = ("float32", "bfloat16", "float16", "float64", "complex64")
SIZES = (11, 23, 45)  #: of the samples' dimensions, for PyTorch's 5, 10 and 20: more than a vector's
MOST = 200_000  #: elements of the largest tensor of a call
CALLS = 6  #: of an operator and dtype
SECONDS = 60  #: for the calls of an operator and dtype
LONG = 90_000  #: elements that PyTorch's kernels share among threads
#: What reads memory beside its argument, which other strides change, or none that was written.
OF_MEMORY = (
    "as_strided",
    "as_strided_copy",
    "as_strided_scatter",
    "empty_like",
    "new_empty",
    "new_empty_strided",
    "resize_",
)


class Call(NamedTuple):
    """A call of an operator, with tensors of its own."""

    operator: Any
    leaves: list[Any]  #: its arguments
    tree: Any

    def run(self, leaves: list[Any] | None = None) -> list[torch.Tensor]:
        """Its results, and what it wrote into."""
        args, kwargs = tree_unflatten([copy_of(t) for t in self.leaves] if leaves is None else leaves, self.tree)
        out = self.operator(*args, **kwargs)
        return [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]


def name_of(operator: Any) -> str:
    """ "add.Tensor", or "mm" for the overload without a name."""
    return str(operator).removeprefix("aten.").removesuffix(".default")


class Recorder(TorchDispatchMode):
    """Keeps a few calls of each operator."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[tuple[str, str], dict[str, Call]] = defaultdict(dict)
        self.dtype = ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        leaves, tree = tree_flatten((args, kwargs or {}))
        tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
        kept = self.calls[name_of(func), self.dtype]
        # Alike are calls that differ in numbers alone.
        what = str([(t.shape, t.stride(), t.dtype) if isinstance(t, torch.Tensor) else type(t) for t in leaves])
        if (
            len(kept) < CALLS
            and torch.Tag.nondeterministic_seeded not in func.tags
            and what not in kept
            and tensors
            and all(t.layout is torch.strided and t.device.type == "cpu" and not t.is_nested for t in tensors)
            and max(t.numel() for t in tensors) <= MOST
        ):
            copies = [copy_of(t.detach() if isinstance(t, torch.Tensor) else t) for t in leaves]
            kept[what] = Call(func, copies, tree)
        return func(*args, **(kwargs or {}))


def backward(out: Any) -> None:
    for t in tree_flatten(out)[0]:
        if isinstance(t, torch.Tensor) and t.requires_grad:
            t.backward(torch.randn_like(t), retain_graph=True)


def losses(dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    """The same for losses."""
    F, calls = torch.nn.functional, {}
    targets, weights = torch.randint(515, (33,)), torch.rand(515, dtype=dtype)

    def x() -> torch.Tensor:
        return torch.randn(33, 515, dtype=dtype, requires_grad=True)

    for reduction in ("none", "mean", "sum"):
        calls |= {
            f"{reduction} of losses": lambda reduction=reduction: [
                loss(x(), x().detach(), reduction=reduction)
                for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss, F.kl_div)
            ],
            f"{reduction} of entropies": lambda reduction=reduction: [
                F.cross_entropy(x(), targets, weights, reduction=reduction),
                F.binary_cross_entropy_with_logits(x(), torch.rand(33, 515, dtype=dtype), reduction=reduction),
            ],
        }
    return calls


def longer(dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    """Functions of rows that are longer than PyTorch's samples, and modules that have none."""
    F, nn = torch.nn.functional, torch.nn

    def r(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=dtype, requires_grad=True)

    def index(most: int, *shape: int) -> torch.Tensor:
        return torch.randint(most, shape)

    def reduce(name: str, dim: int) -> Callable[[], Any]:
        return lambda: getattr(torch, name)(r(33, 515), dim)

    calls = {f"{name} of {dim}": reduce(name, dim) for dim in (-1, 0) for name in REDUCTIONS.split()}
    calls |= {f"norm {p}": lambda p=p: torch.linalg.vector_norm(r(33, 515), p, -1) for p in (0, 1, 2, 3, float("inf"))}
    calls |= {
        "many entropies": lambda: F.cross_entropy(r(5000, 20), index(20, 5000)),
        "layer_norm": lambda: F.layer_norm(r(300, 515), (515,), r(515), r(515)),
        "group_norm": lambda: F.group_norm(r(33, 40, 21), 4, r(40), r(40)),
        "rms_norm": lambda: F.rms_norm(r(300, 515), (515,), r(515)),
        "batch_norm": lambda: F.batch_norm(r(33, 40, 21), None, None, r(40), r(40), True),
        "batch_norm, evaluated": lambda: F.batch_norm(r(33, 40, 21), *torch.rand(2, 40, dtype=dtype), r(40), r(40)),
        "embedding": lambda: F.embedding(index(50, 33, 20), r(50, 65)),
        "embedding_bag": lambda: F.embedding_bag(index(50, 33, 20), r(50, 65)),
        "index_add": lambda: r(50, 65).index_add(0, index(50, 700), r(700, 65)),
        "index_put": lambda: r(50, 65).index_put((index(50, 700),), r(700, 65), accumulate=True),
        "scatter_add": lambda: r(50, 65).scatter_add(0, index(50, 700, 65), r(700, 65)),
        "scatter_add of rows": lambda: r(50, 65).scatter_add(0, index(50, 700, 1).expand(700, 65), r(700, 65)),
        "scatter_reduce": lambda: r(50, 65).scatter_reduce(0, index(50, 700, 65), r(700, 65), "mean"),
        "cdist": lambda: torch.cdist(r(40, 515), r(30, 515), p=1.0),
        "cdist 2": lambda: torch.cdist(r(40, 515), r(30, 515)),
        "conv": lambda: [F.conv1d(r(9, 40, 65), r(30, 40, 3)), F.conv2d(r(5, 8, 17, 19), r(9, 8, 3, 3))],
        "pools": lambda: [f(r(5, 8, 33, 36), 3) for f in (F.avg_pool2d, F.max_pool2d, F.adaptive_avg_pool2d)],
        "interpolate": lambda: [F.interpolate(r(5, 8, 17, 19), (33, 21), mode=m) for m in ("bilinear", "bicubic")],
        "matmul": lambda: [
            r(33, 515) @ r(515, 40),
            torch.mv(r(33, 515), r(515)),
            torch.bmm(r(3, 9, 515), r(3, 515, 9)),
        ],
        "attention": lambda: F.scaled_dot_product_attention(r(2, 4, 65, 32), r(2, 4, 65, 32), r(2, 4, 65, 32)),
        "einsum": lambda: torch.einsum("abc,bd,ce->ade", r(9, 20, 30), r(20, 9), r(30, 7)),
        "modules": lambda: [kind(65, 40, dtype=dtype)(r(9, 7, 65))[0] for kind in (nn.LSTM, nn.GRU, nn.RNN)],
        "cells": lambda: [kind(65, 40, dtype=dtype)(r(9, 65))[0] for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)],
        "transformer": lambda: nn.TransformerEncoderLayer(64, 4, 99, 0.0, batch_first=True, dtype=dtype)(r(5, 9, 64)),
        "transformer, evaluated": lambda: evaluated(
            nn.TransformerEncoderLayer(64, 4, 99, batch_first=True, dtype=dtype), torch.randn(5, 9, 64, dtype=dtype)
        ),
        "rope": lambda: r(9, 2, 7, 64) * r(7, 64),
        "complex rope": lambda: torch.view_as_complex(r(9, 2, 7, 32, 2)) * torch.polar(r(7, 32), r(7, 32)),
        "elements of two": lambda: [
            f(r(33, 515), r(515)) for f in (torch.atan2, torch.hypot, torch.logaddexp, torch.pow)
        ],
        "elements": lambda: [getattr(torch, name)(r(33, 515)) for name in ELEMENTS.split()],
        "activations": lambda: [getattr(F, name)(r(33, 515)) for name in ACTIVATIONS.split()],
    }
    return calls


REDUCTIONS = """sum mean prod cumsum cumprod logcumsumexp logsumexp softmax log_softmax amax amin max min median std var
nansum norm cummax"""
ELEMENTS = """abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor
frac i0 lgamma log log10 log1p log2 logit neg reciprocal round rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan
tanh trunc"""
OF_TWO = "add sub mul div atan2 hypot logaddexp logaddexp2 pow float_power fmod remainder maximum minimum ldexp"
ACTIVATIONS = """celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu silu
softplus softshrink softsign tanh tanhshrink"""


@torch.no_grad()
def evaluated(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return module.eval()(x)


def record(dtypes: list[str], only: str = "", samples: bool = True) -> Recorder:
    """Runs our functions, and PyTorch's samples of its own."""
    recorder = Recorder()
    for dtype in dtypes:
        recorder.dtype = dtype
        for name, call in (longer(getattr(torch, dtype)) | losses(getattr(torch, dtype))).items():
            if only in name:
                try:
                    with recorder:
                        backward(call())
                except Exception:  # what PyTorch has not in this dtype
                    continue
    if samples:
        _record_samples(recorder, dtypes, only)
    return recorder


def _record_samples(recorder: Recorder, dtypes: list[str], only: str) -> None:
    import torch.testing._internal.opinfo.core as core

    core.S, core.M, core.L = SIZES
    from torch.testing._internal.common_methods_invocations import op_db

    for info, dtype in itertools.product(op_db, dtypes):
        if only not in info.name or getattr(torch, dtype) not in info.supported_dtypes("cpu"):
            continue
        recorder.dtype = dtype
        gradient = getattr(torch, dtype) in info.supported_backward_dtypes("cpu")
        try:
            inputs = list(itertools.islice(info.sample_inputs("cpu", getattr(torch, dtype), gradient), 40))
        except Exception:  # a sample that asks for what is not there
            continue
        for sample in inputs:
            if max((t.numel() for t in tree_flatten(sample.input)[0] if isinstance(t, torch.Tensor)), default=0) > MOST:
                continue
            try:
                with recorder:
                    backward(info.op(sample.input, *sample.args, **sample.kwargs))
            except Exception:
                continue


# --- the same numbers ---


def close(have: torch.Tensor, want: torch.Tensor) -> bool:
    """Whether two results are one but for rounding."""
    if have.shape != want.shape or have.dtype != want.dtype:
        return False
    if not want.dtype.is_floating_point and not want.dtype.is_complex:
        return torch.equal(have, want)
    have, want = (t.to(torch.complex128 if t.dtype.is_complex else torch.float64) for t in (have, want))
    scale = want.abs().nan_to_num(0, 0, 0).max().item() if want.numel() else 0
    return torch.allclose(have, want, rtol=2e-2, atol=2e-2 * min(scale, 1.0), equal_nan=True)


def same(have: torch.Tensor, want: torch.Tensor) -> bool:
    """Bit for bit; a NaN is one."""
    if bits(have) == bits(want):
        return True
    nan = have.isnan() & want.isnan()
    return have.dtype.is_floating_point and bits(have.masked_fill(nan, 0)) == bits(want.masked_fill(nan, 0))


def copy_of(t: Any) -> Any:
    return t.clone() if isinstance(t, torch.Tensor) else t


def with_gaps(t: Any) -> Any:
    if not isinstance(t, torch.Tensor) or not t.ndim or not t.numel():
        return copy_of(t)
    wide = t.new_zeros((*t.shape[:-1], 2 * t.shape[-1]))[..., ::2]
    return wide.copy_(t)


def at_odd_place(t: Any) -> Any:
    if not isinstance(t, torch.Tensor) or not t.is_contiguous() or not t.numel():
        return copy_of(t)
    return t.new_zeros(t.numel() + 1)[1:].view(t.shape).copy_(t)


def cuts(leaves: list[Any]) -> Iterator[dict[int, int]]:
    """Ways to cut tensors: the leaves' indices and their dimensions."""
    tensors = [i for i, t in enumerate(leaves) if isinstance(t, torch.Tensor)]
    seen = set()
    for first in tensors[:2]:
        for d in range(leaves[first].ndim):
            size, back = leaves[first].shape[d], d - leaves[first].ndim
            if size < 4:
                continue
            left = {i: d for i in tensors if leaves[i].ndim > d and leaves[i].shape[d] == size}
            right = {
                i: leaves[i].ndim + back for i in tensors if leaves[i].ndim >= -back and leaves[i].shape[back] == size
            }
            for cut in (left, right, {first: d}):
                key = tuple(sorted(cut.items()))
                if key not in seen:
                    seen.add(key)
                    yield cut


def part_of(leaves: list[Any], cut: dict[int, int], start: int, length: int) -> list[Any]:
    return [t.narrow(cut[i], start, length).clone() if i in cut else copy_of(t) for i, t in enumerate(leaves)]


def cut_result(part: list[torch.Tensor], whole: list[torch.Tensor], start: int, length: int, size: int) -> Any:
    """The parts of the whole's results that are those of a part, with these; None if they are not of rows."""
    pairs = []
    if len(part) != len(whole):
        return None
    for have, want in zip(part, whole, strict=True):
        dims = [d for d in range(want.ndim) if want.shape[d] == size]
        fit = [(have, c) for d in dims if close(have, c := want.narrow(d, start, length))]
        if fit:
            pairs.append(fit[0])
        elif have.shape != want.shape or have.numel() == 0 or any(d for d in dims):
            return None
    return pairs or None


class Verdict:
    """What came of an operator's calls."""

    def __init__(self) -> None:
        self.calls = self.rows = self.refused = self.random = 0
        self.moved: Counter[str] = Counter()
        self.died = False

    def __str__(self) -> str:
        if self.died:
            return "the process of its own ended: not checked"
        moved = ", ".join(f"{what} {number}" for what, number in self.moved.items())
        return (
            f"{self.calls} calls, {self.rows} cut, {self.refused} refused, {self.random} random; "
            f"moved: {moved or 'nothing'}"
        )


def check(call: Call, verdict: Verdict) -> None:
    """Repeats a call in all ways."""
    torch.set_num_threads(1)
    whole = call.run()
    if not all(same(have, want) for have, want in zip(call.run(), whole, strict=True)):
        verdict.random += 1
        return
    verdict.calls += 1

    def compare(what: str, leaves: list[Any] | None = None) -> None:
        have = call.run(leaves)
        if not all(same(a, b) for a, b in zip(have, whole, strict=True)):
            verdict.moved[what] += 1

    for threads in (2, 3):
        torch.set_num_threads(threads)
        compare("threads")
    torch.set_num_threads(1)
    for what, change in (("gaps", with_gaps), ("place", at_odd_place)):
        try:
            compare(what, [change(t) for t in call.leaves])
        except NotImplementedError:
            raise
        except Exception:  # a view that such a tensor has not
            continue
    for cut in cuts(call.leaves):
        try:
            _check_cut(call, cut, whole, verdict)
        except NotImplementedError:
            raise
        except Exception:  # what cannot be cut so
            continue


def _check_cut(call: Call, cut: dict[int, int], whole: list[torch.Tensor], verdict: Verdict) -> None:
    first, d = next(iter(cut.items()))
    size = call.leaves[first].shape[d]
    found = []
    for start, length in ((0, 1), (1, 2), (2, size - 2), (size - 3, 3), (size - 1, 1)):
        pairs = cut_result(call.run(part_of(call.leaves, cut, start, length)), whole, start, length, size)
        if pairs is None:
            return
        found.extend(pairs)
    verdict.rows += 1
    if not all(same(have, want) for have, want in found):
        verdict.moved["parts"] += 1
    times = -(-LONG // max(call.leaves[first].numel(), 1)) + 1
    longer = [torch.cat([t] * times, cut[i]) if i in cut else t for i, t in enumerate(call.leaves)]
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        have = call.run([copy_of(t) for t in longer])
        torch.set_num_threads(1)
        for k in (0, times // 2, times - 1):
            pairs = []
            for a, b in zip(have, whole, strict=True):
                for e in range(b.ndim):
                    if a.shape[e] == times * size and b.shape[e] == size:
                        pairs.append((a.narrow(e, k * size, size), b))
                        break
            if all(close(a, b) for a, b in pairs) and not all(same(a, b) for a, b in pairs):
                verdict.moved[f"long, {threads} threads"] += 1


def entered(within: str) -> AbstractContextManager[Any]:
    """A mode, if the calls are to run in one."""
    if not within:
        return nullcontext()
    import samebits.torch

    return samebits.torch.mode(strict=within == "strict")


def check_all(calls: list[Call], within: str) -> Verdict:
    """Checks the calls of an operator."""
    verdict = Verdict()
    for call in calls:
        try:
            with entered(within), torch.no_grad():
                check(call, verdict)
        except NotImplementedError:
            verdict.refused += 1
        except Exception:  # arguments that it takes but once
            continue
    return verdict


def apart(calls: list[Call], within: str) -> Verdict:
    """The same in a process of its own: operators that are called from within PyTorch alone trust their arguments, and
    parts of these may crash them."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        os.write(write, json.dumps(vars(check_all(calls, within))).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    verdict = Verdict()
    vars(verdict).update(json.loads(text) if text else {"died": True})
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="sweep.py", description=__doc__)
    parser.add_argument("--within", choices=("mode", "strict"), default="", help="run the calls in a mode")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="with commas")
    parser.add_argument("--short", action="store_true", help="without PyTorch's samples")
    parser.add_argument("--only", default="", help="functions whose names hold this text")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so that this process, which has others begin as its copies, has no other threads
    moved = 0
    for (name, dtype), calls in sorted(record(args.dtypes.split(","), args.only, not args.short).calls.items()):
        if calls and name not in OF_MEMORY:
            verdict = apart(list(calls.values()), args.within)
            moved += bool(verdict.moved)
            print(f"{name} {dtype}: {verdict}", flush=True)
    return 1 if args.within == "strict" and moved else 0


if __name__ == "__main__":
    sys.exit(main())
