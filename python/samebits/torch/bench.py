"""Times the mode beside stock PyTorch: python -m samebits.torch.bench [--hf DIR] [--threads 1,2]

Small operators, for what a call costs beyond its arithmetic: the processor's time of the calling thread, the least of
many. With --hf a causal language model of transformers, float32 and bfloat16, stock and mode in turn, medians."""

from __future__ import annotations

import argparse
import contextlib
import gc
import inspect
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import samebits
import samebits.torch

Call = Callable[[], Any]
CALLS, BLOCKS = 100, 60
WARM = 2  #: rounds before those that count: weights are packed at their second use


def _operators() -> dict[str, Call]:
    x, odd, square = torch.randn(2, 64), torch.randn(2, 61), torch.randn(64, 64)
    w, bias, row, large = torch.randn(64, 64), torch.randn(64), torch.randn(1, 128), torch.randn(128, 128)
    batch, q = torch.randn(2, 2, 64), torch.randn(1, 2, 2, 16)
    right, wide, pairs = torch.randn(2, 64, 3), torch.randn(8, 8).double(), torch.randn(8, 8, dtype=torch.complex64)
    return {
        "mm": lambda: torch.mm(x, square),
        "linear": lambda: F.linear(x, w, bias),
        "linear, packed": lambda: F.linear(row, large),
        "bmm": lambda: torch.bmm(batch, right),
        "mm, float64": lambda: torch.mm(wide, wide),
        "mm, complex64": lambda: torch.mm(pairs, pairs),
        "attention": lambda: F.scaled_dot_product_attention(q, q, q),
        "softmax": lambda: torch.softmax(x, -1),
        "log_softmax": lambda: torch.log_softmax(x, -1),
        "layer_norm": lambda: F.layer_norm(x, (64,), bias, bias),
        "sum": lambda: x.sum(-1),
        "sum of all": lambda: x.sum(),
        "mean": lambda: x.mean(-1, keepdim=True),
        "silu": lambda: F.silu(x),
        "softplus, padded": lambda: F.softplus(odd),
        "silu, columns": lambda: F.silu(square.t()),
        "gelu": lambda: F.gelu(x),
        "softplus": lambda: F.softplus(x),
        "pow 2": lambda: x.pow(2),
        "mul": lambda: x * x,
        "mul by a number": lambda: x * 0.5,
        "mul, complex64": lambda: pairs * pairs,
        "add, not taken": lambda: x + x,
    }


def _microseconds(call: Call) -> float:
    def block() -> float:
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        return time.thread_time() - start

    return 1e6 * min(block() for _ in range(BLOCKS)) / CALLS


@torch.inference_mode()
def dispatch(operators: dict[str, Call]) -> None:
    """Prints microseconds a call, one thread. Stock's come first, before the process has been in a mode."""
    torch.set_num_threads(1)
    stock = {name: _microseconds(call) for name, call in operators.items()}
    with samebits.torch.mode(strict=True):
        ours = {name: _microseconds(call) for name, call in operators.items()}
        print(f"dispatch in {samebits.torch.report().dispatch}\n")
    after = {name: _microseconds(call) for name, call in operators.items()}
    print("| us a call, 1 thread | stock | mode | more | outside of a mode, more |\n|---|---|---|---|---|")
    for name in operators:
        times = stock[name], ours[name], ours[name] - stock[name], after[name] - stock[name]
        print(f"| {name} |" + "".join(f" {value:.1f} |" for value in times), flush=True)


def _seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _scenarios(model: Any) -> dict[str, Callable[[], float]]:
    ids = torch.randint(5, 1000, (8, 300))
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"  # by version

    def read() -> float:
        return _seconds(lambda: model(input_ids=ids[:1], use_cache=True, logits_to_keep=1))

    def decode(rows: int, steps: int = 8) -> float:
        cache = getattr(model(input_ids=ids[:rows, :100], use_cache=True, logits_to_keep=1), name)

        def run() -> None:
            for i in range(100, 100 + steps):
                model(input_ids=ids[:rows, i : i + 1], use_cache=True, **{name: cache})

        return _seconds(run) / steps

    return {"read 300 tokens": read, "a token": lambda: decode(1), "a token of 8 sequences": lambda: decode(8)}


def _rows(model: Any, dtype: str, threads: list[int], rounds: int, order: str) -> None:
    for number in threads:
        torch.set_num_threads(number)
        for name, scenario in _scenarios(model).items():
            times: dict[bool, list[float]] = {False: [], True: []}
            for round_ in range(WARM + rounds):
                for ours in (False, True):
                    with samebits.torch.mode(order=order) if ours else contextlib.nullcontext():
                        seconds = scenario()
                    if round_ >= WARM:
                        times[ours].append(seconds)
            theirs, mine = (1e3 * statistics.median(times[ours]) for ours in (False, True))
            print(f"| {name}, {dtype} | {number} | {theirs:.1f} | {mine:.1f} | {theirs / mine:.2f} |", flush=True)


def checkpoint(folder: str, dtypes: list[str], threads: list[int], rounds: int, order: str) -> None:
    """Prints milliseconds."""
    import transformers

    load: Any = transformers.AutoModelForCausalLM.from_pretrained
    print("\n| | threads | stock, ms | mode, ms | times |\n|---|---|---|---|---|")
    for dtype in dtypes:
        model = load(folder, dtype=getattr(torch, dtype)).eval()
        with torch.inference_mode():
            _rows(model, dtype, threads, rounds, order)
        del model
        gc.collect()


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="python -m samebits.torch.bench", description=__doc__)
    parser.add_argument("--hf", metavar="DIR", help="a checkpoint of transformers")
    parser.add_argument("--dtypes", default="float32,bfloat16", help="its dtypes, with commas (float32,bfloat16)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas (1,2)")
    parser.add_argument("--order", default="portable-1", help="of its products of bfloat16 (portable-1)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the checkpoint (3)")
    args = parser.parse_args()
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__}, samebits {samebits.__version__}")
    dispatch(_operators())  # not made in inference mode, whose tensors are not packed
    if args.hf:
        threads = [int(number) for number in args.threads.split(",")]
        checkpoint(args.hf, args.dtypes.split(","), threads, args.rounds, args.order)


if __name__ == "__main__":
    main()
