"""Times samebits' products and attention beside MLX's own: python -m samebits.mlx.bench

Both in one process, in turn, the best of several; K = N = 2,048."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import mlx.core as mx

import samebits
import samebits.mlx as sm

SIZE, ROUNDS = 2048, 3
Call = Callable[[], mx.array]


def _seconds(call: Call) -> float:
    start = time.perf_counter()
    mx.eval(call())
    return time.perf_counter() - start


def _products(rows: int) -> Iterator[tuple[str, Call, Call]]:
    w = mx.random.normal((SIZE, SIZE))
    for dtype in (mx.float32, mx.bfloat16, mx.float16):
        x, v = mx.random.normal((rows, SIZE)).astype(dtype), w.astype(dtype)
        name = str(dtype).rpartition(".")[2]
        mx.eval(x, v)
        yield name, partial(mx.matmul, x, v.T), partial(sm.linear, x, v)
        parts = mx.quantize(v, group_size=64, bits=4)
        mx.eval(parts)
        stock, ours = (partial(f, x, *parts, group_size=64, bits=4) for f in (mx.quantized_matmul, sm.quantized_matmul))
        yield f"4 bits, {name}", stock, ours


def _attention(rows: int) -> Iterator[tuple[str, Call, Call]]:
    functions = mx.fast.scaled_dot_product_attention, sm.scaled_dot_product_attention
    for dtype in (mx.float32, mx.bfloat16):
        q, k, v = (mx.random.normal((1, h, n, 128)).astype(dtype) for h, n in ((8, rows), (2, 1024), (2, 1024)))
        mx.eval(q, k, v)
        stock, ours = (partial(f, q, k, v, scale=0.1, mask="causal") for f in functions)
        yield f"attention, 1,024 keys, {str(dtype).rpartition('.')[2]}", stock, ours


def main() -> None:
    """Prints a table, in milliseconds."""
    mx.random.seed(0)
    print(f"MLX on {mx.default_device()}, samebits {samebits.__version__}, {samebits.get_num_threads()} threads")
    print("| rows | | MLX | samebits | times |\n|---|---|---|---|---|")
    for rows in (1, 8, 64):
        for name, stock, ours in (*_products(rows), *_attention(rows)):
            for _ in range(3):  # weights are packed at their second use
                mx.eval(ours())
            times = [(_seconds(stock), min(_seconds(ours) for _ in range(5))) for _ in range(ROUNDS)]
            theirs, mine = (1e3 * min(column) for column in zip(*times, strict=True))
            print(f"| {rows} | {name} | {theirs:.3g} | {mine:.3g} | {theirs / mine:.3g} |", flush=True)


if __name__ == "__main__":
    main()
