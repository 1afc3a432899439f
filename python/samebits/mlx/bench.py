"""Times samebits' products and attention beside MLX's own: python -m samebits.mlx.bench

Both in one process, in turn, the best of several; the weights are packed before. Products of K x N, and attention of 8
heads over 2 KV heads of 128. Few rows are computed several times in a graph, as in a model: for a graph of one call MLX
takes up to 0.1 ms, whatever is in it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

import mlx.core as mx

import samebits
import samebits.mlx as sm

PACKED = 3  #: rounds before those that count: weights are packed at their second use
GRAPH = 16  #: rows of a graph, if it has more than one call
Call = Callable[[], mx.array]
Case = tuple[str, Call, Call]  #: name, MLX's, ours


def _seconds(call: Call, rows: int) -> float:
    calls = max(1, GRAPH // rows)
    start = time.perf_counter()
    mx.eval([call() for _ in range(calls)])
    return (time.perf_counter() - start) / calls


def _products(rows: int, k: int, n: int, dtype: mx.Dtype) -> Iterator[Case]:
    name = str(dtype).rpartition(".")[2]
    x, w = mx.random.normal((rows, k)).astype(dtype), mx.random.normal((n, k)).astype(dtype)
    parts = mx.quantize(w, group_size=64, bits=4)
    mx.eval(x, w, parts)
    yield name, partial(mx.matmul, x, w.T), partial(sm.linear, x, w)
    stock, ours = (partial(f, x, *parts, group_size=64, bits=4) for f in (mx.quantized_matmul, sm.quantized_matmul))
    yield f"4 bits, {name}", stock, ours


def _attention(rows: int, dtype: mx.Dtype) -> Iterator[Case]:
    functions = mx.fast.scaled_dot_product_attention, sm.scaled_dot_product_attention
    q, k, v = (mx.random.normal((1, h, n, 128)).astype(dtype) for h, n in ((8, rows), (2, 1024), (2, 1024)))
    mx.eval(q, k, v)
    stock, ours = (partial(f, q, k, v, scale=0.1, mask="causal") for f in functions)
    yield f"attention, 1,024 keys, {str(dtype).rpartition('.')[2]}", stock, ours


def _print(threads: int, rows: int, shape: str, case: Case, rounds: int) -> None:
    name, stock, ours = case
    samebits.set_num_threads(threads)
    for _ in range(PACKED):
        mx.eval(ours())
    times = [(_seconds(stock, rows), min(_seconds(ours, rows) for _ in range(5))) for _ in range(rounds)]
    theirs, mine = (1e3 * min(column) for column in zip(*times, strict=True))
    print(f"| {threads} | {rows} | {shape} | {name} | {theirs:.3g} | {mine:.3g} | {theirs / mine:.3g} |", flush=True)


def main() -> None:
    """Prints a table, in milliseconds."""
    parser = argparse.ArgumentParser(prog="python -m samebits.mlx.bench", description=__doc__)
    parser.add_argument("--rows", default="1,8,64", help="numbers of rows, with commas (%(default)s)")
    parser.add_argument("--shapes", default="2048x2048", help="products, KxN, with commas (%(default)s)")
    parser.add_argument("--dtypes", default="float32,bfloat16", help="of the activations, with commas (%(default)s)")
    parser.add_argument("--threads", default="1,2", help="samebits' threads, with commas (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many (%(default)s)")
    parser.add_argument("--attention", action="store_true", help="attention too")
    args = parser.parse_args()
    mx.random.seed(0)
    print(f"MLX on {mx.default_device()}, samebits {samebits.__version__}")
    print("| threads | rows | K x N | | MLX | samebits | times |\n|---|---|---|---|---|---|---|")
    for threads in map(int, args.threads.split(",")):
        for rows in map(int, args.rows.split(",")):
            for dtype in (getattr(mx, name) for name in args.dtypes.split(",")):
                for shape in args.shapes.split(","):
                    k, n = map(int, shape.split("x"))
                    for case in _products(rows, k, n, dtype):
                        _print(threads, rows, f"{k} x {n}", case, args.rounds)
                for case in _attention(rows, dtype) if args.attention else ():
                    _print(threads, rows, "", case, args.rounds)


if __name__ == "__main__":
    main()
