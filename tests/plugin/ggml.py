"""ggml's own functions through ctypes, for the tests that run ops on a backend."""
import ctypes as c
import os

P, SIZE, I64, F32 = c.c_void_p, c.c_size_t, c.c_int64, c.c_float
TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q3_k": 11, "q4_k": 12,
         "q5_k": 13, "q6_k": 14, "iq4_nl": 20, "i32": 26, "bf16": 30, "mxfp4": 39}
USAGE_WEIGHTS = 1
PROTOTYPES = {
    "ggml_init": (P, None), "ggml_free": (None, [P]), "ggml_nbytes": (SIZE, [P]), "ggml_row_size": (SIZE, [c.c_int, I64]),
    "ggml_new_tensor_2d": (P, [P, c.c_int, I64, I64]), "ggml_new_tensor_1d": (P, [P, c.c_int, I64]),
    "ggml_new_tensor_4d": (P, [P, c.c_int, I64, I64, I64, I64]),
    "ggml_view_2d": (P, [P, P, I64, I64, SIZE, SIZE]), "ggml_mul_mat": (P, [P, P, P]), "ggml_get_rows": (P, [P, P, P]),
    "ggml_rms_norm": (P, [P, P, F32]), "ggml_soft_max": (P, [P, P]),
    "ggml_flash_attn_ext": (P, [P, P, P, P, P, F32, F32, F32]),
    "ggml_new_graph": (P, [P]), "ggml_build_forward_expand": (None, [P, P]),
    "ggml_backend_alloc_ctx_tensors_from_buft": (P, [P, P]), "ggml_backend_buffer_set_usage": (None, [P, c.c_int]),
    "ggml_backend_buffer_free": (None, [P]), "ggml_backend_tensor_set": (None, [P, P, SIZE, SIZE]),
    "ggml_backend_tensor_get": (None, [P, P, SIZE, SIZE]), "ggml_backend_dev_buffer_type": (P, [P]),
    "ggml_backend_cpu_buffer_type": (P, []), "ggml_backend_dev_init": (P, [P, c.c_char_p]),
    "ggml_backend_graph_compute": (c.c_int, [P, P]), "ggml_backend_free": (None, [P]),
    "ggml_backend_reg_dev_get": (P, [P, SIZE]), "ggml_backend_dev_supports_op": (c.c_bool, [P, P]),
    "ggml_backend_buft_is_host": (c.c_bool, [P]), "ggml_out_prod": (P, [P, P, P]),
    "ggml_backend_sched_new": (P, [c.POINTER(P), c.POINTER(P), c.c_int, SIZE, c.c_bool, c.c_bool]),
    "ggml_backend_sched_reset": (None, [P]), "ggml_backend_sched_graph_compute": (c.c_int, [P, P]),
    "ggml_backend_sched_free": (None, [P]),
}


class InitParams(c.Structure):
    _fields_ = [("mem_size", SIZE), ("mem_buffer", P), ("no_alloc", c.c_bool)]


class Ggml:
    """The libraries of a folder; ggml_* functions as methods."""

    def __init__(self, folder):
        self.base = c.CDLL(os.path.join(folder, "libggml-base.so"))
        self.top = c.CDLL(os.path.join(folder, "libggml.so"))
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(self.base, name)
            function.restype = result
            function.argtypes = arguments if arguments is not None else [InitParams]
            setattr(self, name[5:], function)

    def load(self, plugin):
        """A backend's device, or None."""
        self.top.ggml_backend_load.restype = P
        registry = self.top.ggml_backend_load(plugin.encode())
        return registry and self.backend_reg_dev_get(registry, 0)

    def context(self):
        return self.init(InitParams(1 << 20, None, True))

    def get(self, tensor, offset=0, size=None):
        """A tensor's bytes."""
        size = self.nbytes(tensor) - offset if size is None else size
        data = c.create_string_buffer(size)
        self.backend_tensor_get(tensor, data, offset, size)
        return data.raw
