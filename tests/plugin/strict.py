#!/usr/bin/env python3
"""SAMEBITS_STRICT=1 through ggml's own scheduler: a graph with an op that stock computes and that may move fails, with the
op's name; other graphs and other backends do not, whatever was asked or failed before.

Usage: strict.py GGML_FOLDER PLUGIN
Exit status: 0 if everything holds.
"""
import ctypes
import os
import sys

from ggml import TYPES, Ggml, P

SUCCESS, FAILED = 0, -1
LOG_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class Engine:
    """A scheduler over a backend of the plugin and one of the CPU."""

    def __init__(self, ggml, device, cpu_device):
        self.ggml = ggml
        self.backends = (P * 2)(ggml.backend_dev_init(device, None), ggml.backend_dev_init(cpu_device, None))
        self.scheduler = ggml.backend_sched_new(self.backends, None, 2, 64, False, False)

    def run(self, with_stock_op):
        """Plans and computes a product, and an outer product of it if asked."""
        context = self.ggml.context()
        a, b = (self.ggml.new_tensor_2d(context, TYPES["f32"], 32, 32) for _ in range(2))
        out = self.ggml.mul_mat(context, a, b)
        if with_stock_op:
            out = self.ggml.out_prod(context, out, b)
        graph = self.ggml.new_graph(context)
        self.ggml.build_forward_expand(graph, out)
        self.ggml.backend_sched_reset(self.scheduler)
        status = self.ggml.backend_sched_graph_compute(self.scheduler, graph)
        again = self.ggml.backend_sched_graph_compute(self.scheduler, graph)  # the same plan
        self.ggml.free(context)
        return status if status == again else None

    def free(self):
        self.ggml.backend_sched_free(self.scheduler)
        for backend in self.backends:
            self.ggml.backend_free(backend)


def main():
    folder, plugin = (os.path.abspath(path) for path in sys.argv[1:])
    os.environ.pop("GGML_BACKEND_PATH", None)
    os.environ["SAMEBITS_STRICT"] = "1"
    ggml = Ggml(folder)
    cpu_device = ggml.load(os.path.join(folder, "libggml-cpu.so"))
    device = ggml.load(plugin)
    if not device or not cpu_device:
        sys.exit("the plugin or the CPU backend did not load")
    lines = []
    log = LOG_FUNCTION(lambda level, text, user: lines.append(text.decode(errors="replace")))
    ggml.base.ggml_log_set(log, None)
    context = ggml.context()
    a = ggml.new_tensor_2d(context, TYPES["f32"], 32, 32)
    taken = ggml.backend_dev_supports_op(device, ggml.out_prod(context, a, a))
    one, other = Engine(ggml, device, cpu_device), Engine(ggml, device, cpu_device)
    have = [("a question about an op that is not taken", taken, False), ("a product after it", one.run(False), SUCCESS)]
    lines.clear()
    have += [("with an outer product", one.run(True), FAILED), ("which is named", "OUT_PROD" in "".join(lines), True),
             ("a product of another backend", other.run(False), SUCCESS), ("a product of the same", one.run(False), SUCCESS),
             ("an outer product again", one.run(True), FAILED)]
    one.free()
    other.free()
    ggml.free(context)
    ggml.base.ggml_log_set(None, None)
    wrong = [f"{what}: have {got}, want {want}" for what, got, want in have if got != want]
    print("\n".join(wrong) if wrong else f"{len(have)} checks hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
