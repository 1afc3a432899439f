"""The plugin's door: runs ops on it through ggml's own functions, in a process of its own, since a process has one
order and one ggml.

Usage: ggml_door.py GGML_FOLDER PLUGIN INPUTS.npz OUTPUTS.npz
INPUTS: arrays "op case argument", where a case is a dtype or a format of weights, and 16-bit
floats are uint16. OUTPUTS: "op case"."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "plugin"))
from ggml import TYPES, Ggml  # noqa: E402

EPS = 1e-6


class Door:
    """A device of a ggml, and tensors of one graph after another."""

    def __init__(self, folder, plugin):
        self.ggml = Ggml(folder)
        self.device = self.ggml.load(plugin)
        if not self.device:
            sys.exit(f"{plugin} did not load")
        self.context, self.data = self.ggml.context(), []

    def tensor(self, array, kind, shape=None):
        """A tensor of an array, whose last dimension is ggml's first; `shape` where blocks hide the elements."""
        sizes = [1] * (4 - array.ndim) + list(shape or array.shape)
        made = self.ggml.new_tensor_4d(self.context, TYPES[kind], *reversed(sizes))
        self.data.append((made, np.ascontiguousarray(array)))
        return made

    def run(self, out):
        """Computes what stands in the context, and begins another."""
        ggml = self.ggml
        if not ggml.backend_dev_supports_op(self.device, out):
            sys.exit("the plugin leaves this op to another backend")
        graph = ggml.new_graph(self.context)
        ggml.build_forward_expand(graph, out)
        memory = ggml.backend_alloc_ctx_tensors_from_buft(self.context, ggml.backend_cpu_buffer_type())
        for tensor, array in self.data:
            ggml.backend_tensor_set(tensor, array.ctypes.data_as(ctypes.c_void_p), 0, array.nbytes)
        backend = ggml.backend_dev_init(self.device, None)
        if ggml.backend_graph_compute(backend, graph):
            sys.exit("the plugin failed")
        result = np.frombuffer(ggml.get(out), np.float32)
        ggml.backend_free(backend)
        ggml.backend_buffer_free(memory)
        ggml.free(self.context)
        self.context, self.data = ggml.context(), []
        return result


def linear(door, x, w, kind="f32", k=None):
    """x (M, K) f32, w (N, K) of a kind."""
    weights = door.tensor(w, kind, (len(w), k) if k else None)
    out = door.ggml.mul_mat(door.context, weights, door.tensor(x, "f32"))
    return door.run(out).reshape(len(x), len(w))


def attention(door, q, k, v, scale, kind="f32"):
    """Causal; q (1, H, L, D) f32, k and v of a kind. ggml's result is (1, L, H, D)."""
    n = q.shape[2]
    mask = np.where(np.tri(n, dtype=bool), np.float16(0), np.float16(-np.inf))
    tensors = [door.tensor(q, "f32"), door.tensor(k, kind), door.tensor(v, kind), door.tensor(mask, "f16")]
    out = door.ggml.flash_attn_ext(door.context, *tensors, float(scale), 0.0, 0.0)
    return door.run(out).reshape(1, n, q.shape[1], v.shape[-1]).transpose(0, 2, 1, 3)


def compute(door, op, case, arrays):
    if op == "linear":
        return linear(door, arrays["x"], arrays["w"], case)
    if op in ("portable-1", "int8-1"):
        return linear(door, arrays["x"], arrays["w"], case, arrays["x"].shape[1])
    if op == "attention":
        return attention(door, arrays["q"], arrays["k"], arrays["v"], arrays["scale"], case)
    x = door.tensor(arrays["x"], "f32")
    made = door.ggml.soft_max(door.context, x) if op == "softmax" else door.ggml.rms_norm(door.context, x, EPS)
    return door.run(made).reshape(arrays["x"].shape)


def main():
    folder, plugin, inputs, outputs = (os.path.abspath(path) for path in sys.argv[1:])
    door, cases = Door(folder, plugin), {}
    with np.load(inputs) as stored:
        for name in stored:
            op, case, argument = name.split()
            cases.setdefault((op, case), {})[argument] = stored[name]
    results = {f"{op} {case}": compute(door, op, case, arrays) for (op, case), arrays in cases.items()}
    np.savez(outputs, **results)


if __name__ == "__main__":
    main()
