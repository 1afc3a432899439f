#!/usr/bin/env python3
"""The plugin's buffer of weights, through ggml's own functions: what is written is read back byte for byte, in any
pieces, and packed weights give the bits that plain ones give.

Usage: buffer.py GGML_FOLDER PLUGIN
Exit status: 0 if everything holds.
"""
import os
import random
import struct
import sys

from ggml import TYPES, USAGE_WEIGHTS, Ggml

OP_MUL_MAT, OP_GET_ROWS = "MUL_MAT", "GET_ROWS"


class Check:
    def __init__(self):
        self.count = self.bad = 0

    def __call__(self, what, holds):
        self.count += 1
        if not holds:
            self.bad += 1
            print(f"FAIL {what}")


def round_trip(ggml, weights_type, check, name, k, n):
    context = ggml.context()
    tensor = ggml.new_tensor_2d(context, TYPES[name], k, n)
    row = ggml.row_size(TYPES[name], k)
    view = ggml.view_2d(context, tensor, k, 5, row, 3 * row)
    buffer = ggml.backend_alloc_ctx_tensors_from_buft(context, weights_type)
    ggml.backend_buffer_set_usage(buffer, USAGE_WEIGHTS)
    data = random.randbytes(ggml.nbytes(tensor))
    what = f"{name} {n}x{k}"
    for turn in ("first", "again"):
        ggml.backend_tensor_set(tensor, data, 0, len(data))
        check(f"{what}: whole, {turn}", ggml.get(tensor) == data)
        check(f"{what}: piece, {turn}", ggml.get(tensor, row + 3, 2 * row) == data[row + 3:3 * row + 3])
        check(f"{what}: view, {turn}", ggml.get(view) == data[3 * row:8 * row])
        patch = random.randbytes(row + 1)
        ggml.backend_tensor_set(tensor, patch, row - 1, len(patch))
        data = data[:row - 1] + patch + data[2 * row:]
        check(f"{what}: after a piece is written, {turn}", ggml.get(tensor) == data)
    ggml.backend_buffer_free(buffer)
    ggml.free(context)


def weights_of(name, k, n):
    """Bytes of n rows. Random blocks with a scale of about 1, so that sums stay finite."""
    if name in ("f32", "f16", "bf16"):
        values = [random.gauss(0, 1) for _ in range(n * k)]
        if name == "f16":
            return struct.pack(f"<{n * k}e", *values)
        packed = struct.pack(f"<{n * k}f", *values)
        return packed if name == "f32" else b"".join(packed[i + 2:i + 4] for i in range(0, len(packed), 4))
    layout = {"q4_0": (32, 18, [0]), "q4_1": (32, 20, [0, 2]), "q5_0": (32, 22, [0]), "q5_1": (32, 24, [0, 2]),
              "q8_0": (32, 34, [0]), "iq4_nl": (32, 18, [0]), "mxfp4": (32, 17, []), "q2_k": (256, 84, [80, 82]),
              "q3_k": (256, 110, [108]), "q4_k": (256, 144, [0, 2]), "q5_k": (256, 176, [0, 2]),
              "q6_k": (256, 210, [208])}
    block, size, scales = layout[name]
    rows = bytearray(random.randbytes(n * k // block * size))
    for begin in range(0, len(rows), size):
        for scale in scales:
            rows[begin + scale:begin + scale + 2] = struct.pack("<e", random.uniform(0.5, 1.5))
        if name == "mxfp4":
            rows[begin] = random.choice((127, 128))
    return bytes(rows)


def compute(ggml, device, buffer_type, op, name, rows, k, n, operand):
    """One op with its weights in a buffer of this type; None if the device does not take it."""
    weights_context, context = ggml.context(), ggml.context()
    weights = ggml.new_tensor_2d(weights_context, TYPES[name], k, n)
    buffer = ggml.backend_alloc_ctx_tensors_from_buft(weights_context, buffer_type)
    ggml.backend_buffer_set_usage(buffer, USAGE_WEIGHTS)
    ggml.backend_tensor_set(weights, rows, 0, len(rows))
    if op == OP_MUL_MAT:
        x = ggml.new_tensor_2d(context, TYPES["f32"], k, len(operand) // (4 * k))
        out = ggml.mul_mat(context, weights, x)
    else:
        x = ggml.new_tensor_1d(context, TYPES["i32"], len(operand) // 4)
        out = ggml.get_rows(context, weights, x)
    result = None
    if ggml.backend_dev_supports_op(device, out):
        graph = ggml.new_graph(context)
        ggml.build_forward_expand(graph, out)
        work = ggml.backend_alloc_ctx_tensors_from_buft(context, ggml.backend_cpu_buffer_type())
        ggml.backend_tensor_set(x, operand, 0, len(operand))
        backend = ggml.backend_dev_init(device, None)
        if ggml.backend_graph_compute(backend, graph) == 0:
            result = ggml.get(out)
        ggml.backend_free(backend)
        ggml.backend_buffer_free(work)
    ggml.backend_buffer_free(buffer)
    ggml.free(context)
    ggml.free(weights_context)
    return result


def same_bits(ggml, device, cpu_device, weights_type, check, name, k, n):
    rows = weights_of(name, k, n)
    plain_type = ggml.backend_cpu_buffer_type()
    for m in (1, 7):
        x = struct.pack(f"<{m * k}f", *(random.gauss(0, 1) for _ in range(m * k)))
        packed, plain = (compute(ggml, device, t, OP_MUL_MAT, name, rows, k, n, x) for t in (weights_type, plain_type))
        check(f"{name} {n}x{k}: product of {m} rows, packed as plain", packed is not None and packed == plain)
        other = bytearray(rows)
        other[len(rows) // n - 18] ^= 1  # in the first row, not the last byte of a float
        changed = compute(ggml, device, weights_type, OP_MUL_MAT, name, bytes(other), k, n, x)
        check(f"{name} {n}x{k}: product of {m} rows sees one changed bit", changed != packed)
    index = struct.pack("<4i", n - 1, 0, n // 2, n - 1)
    packed = compute(ggml, device, weights_type, OP_GET_ROWS, name, rows, k, n, index)
    plain = compute(ggml, cpu_device, plain_type, OP_GET_ROWS, name, rows, k, n, index)
    check(f"{name} {n}x{k}: rows of a table as the CPU's", packed is not None and packed == plain)


def main():
    folder, plugin = (os.path.abspath(path) for path in sys.argv[1:])
    os.environ.pop("GGML_BACKEND_PATH", None)
    random.seed(1)
    ggml = Ggml(folder)
    cpu_device = ggml.load(os.path.join(folder, "libggml-cpu.so"))
    device = ggml.load(plugin)
    if not device or not cpu_device:
        sys.exit("the plugin or the CPU backend did not load")
    weights_type = ggml.backend_dev_buffer_type(device)
    check = Check()
    check("the buffer of weights is not host memory", not ggml.backend_buft_is_host(weights_type))
    for name in (name for name in TYPES if name != "i32"):
        round_trip(ggml, weights_type, check, name, 512, 37)
        same_bits(ggml, device, cpu_device, weights_type, check, name, 512, 300)
    round_trip(ggml, weights_type, check, "f32", 1024, 9001)  # packed in three parts
    same_bits(ggml, device, cpu_device, weights_type, check, "q8_0", 1024, 17000)  # in two
    print(f"{check.count} checks, {check.bad} failed")
    return 1 if check.bad else 0


if __name__ == "__main__":
    sys.exit(main())
