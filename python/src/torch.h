/* PyTorch's operators in C: what the files of samebits._core that serve samebits.torch share. They are built without
 * PyTorch, and find at run time its Python functions, DLPack's table of C functions (DLPackExchangeAPI, DLPack 1.3) and
 * a few functions of its stable C interface. */
#ifndef SBP_TORCH_H
#define SBP_TORCH_H

#include "binding.h"

enum { SBP_TORCH_DIMS = 8 };
/* The dtypes of the C functions: float32, float16 and bfloat16; for products also float64 and complex64. */
enum { SBP_TORCH_FLOATS = 3, SBP_TORCH_DTYPES = 5 };

/* --- torch_tensor.c --- */

/* What the kernels call in Python, given once by torch_configure. */
typedef struct sbp_torch_calls {
    PyObject *tensor;                    /* the type torch.Tensor */
    PyObject *parameter;                 /* the type torch.nn.Parameter */
    PyObject *empty_strided;             /* torch.empty_strided */
    PyObject *as_strided;                /* torch.as_strided */
    PyObject *get_num_threads;           /* torch.get_num_threads */
    PyObject *is_grad_enabled;           /* torch.is_grad_enabled */
    PyObject *is_inference;              /* torch.is_inference_mode_enabled */
    PyObject *contexts;                  /* threads: Context */
    PyObject *context;                   /* makes one */
    PyObject *entries;                   /* the packed weights that there are */
    PyObject *pack;                      /* makes one, or returns None */
    PyObject *is_conj;                   /* torch.is_conj */
    PyObject *options[SBP_TORCH_DTYPES]; /* keywords of empty_strided for each dtype */
    Py_ssize_t packed_from;              /* smaller weights are packed within the call */
} sbp_torch_calls;
extern sbp_torch_calls sbp_torch;

/* torch_configure(exchange, shims, **calls): how much can be done in C, by the table `exchange`, a capsule or None, and
 * the functions of the loaded library `shims`. */
enum { SBP_TORCH_PYTHON, SBP_TORCH_C_PARTLY, SBP_TORCH_C };
PyObject *sbp_torch_configure(PyObject *self, PyObject *args, PyObject *kwargs);
/* Whether the table is there. */
int sbp_torch_is_configured(void);

/* A tensor's memory, shape and strides, borrowed from the tensor. 0, without an exception, for what no kernel takes:
 * other objects, dtypes than float32, float16 and bfloat16, layouts than strided, devices than the CPU. */
int sbp_torch_view(PyObject *object, DLTensor *view);
/* The same with float64 and complex64, but for tensors that stand for their conjugates. */
int sbp_torch_view_wide(PyObject *object, DLTensor *view);
/* The same of any dtype; a complex one may stand for its conjugate. */
int sbp_torch_view_any(PyObject *object, DLTensor *view);
/* The same of an argument that may be None or missing, for which *view is NULL. */
int sbp_torch_view_optional(PyObject *object, DLTensor *storage, DLTensor **view);
/* PyTorch's name of a dtype, borrowed. */
PyObject *sbp_torch_dtype(DLDataType dtype);
int sbp_torch_same_dtype(const DLTensor *a, const DLTensor *b);
int sbp_torch_is_float(const DLTensor *t);
int64_t sbp_torch_elements(const DLTensor *t);
int sbp_torch_is_contiguous(const DLTensor *t);
/* A new contiguous tensor of like's dtype, and its view; or one with these strides. NULL with an exception set. */
PyObject *sbp_torch_empty_strided(const DLTensor *like, int ndim, const int64_t *shape, const int64_t *strides,
                                  DLTensor *view);
PyObject *sbp_torch_empty(const DLTensor *like, int ndim, const int64_t *shape, DLTensor *view);
/* A view of a tensor that starts where it does and is contiguous. */
PyObject *sbp_torch_as(PyObject *tensor, int ndim, const int64_t *shape);
/* PyTorch's number of threads, and their context; -1 and NULL with an exception set. */
long sbp_torch_threads(void);
samebits_context *sbp_torch_context(void);
/* What a Python function without arguments says; -1 with an exception set. */
int sbp_torch_ask(PyObject *function);

/* A view of two dimensions that holds its shape: not to be moved. */
typedef struct sbp_torch_matrix {
    DLTensor tensor;
    int64_t shape[2], strides[2];
} sbp_torch_matrix;
void sbp_torch_as_matrix(const DLTensor *memory, int64_t rows, int64_t columns, int64_t row_stride,
                         int64_t column_stride, sbp_torch_matrix *m);
/* A column of ones of that dtype. */
void sbp_torch_ones(DLDataType dtype, int64_t rows, sbp_torch_matrix *m);

/* --- torch_products.c, torch_rows.c, torch_attention.c, torch_elements.c --- */

/* A call of an operator: its arguments behind the dispatch keys. The dispatcher leaves out those at the end that equal
 * their defaults. */
typedef struct sbp_torch_call {
    PyObject *mode, *args, *kwargs, *stock;
} sbp_torch_call;

/* How many positional arguments there are, and the nth of them or NULL. */
Py_ssize_t sbp_torch_count(const sbp_torch_call *call);
PyObject *sbp_torch_arg(const sbp_torch_call *call, Py_ssize_t n);

/* The operator's result, NULL with an exception set, or Py_NotImplemented for what is left to Python. */
typedef PyObject *sbp_torch_fn(const sbp_torch_call *call);
sbp_torch_fn sbp_torch_mm, sbp_torch_bmm, sbp_torch_addmm, sbp_torch_baddbmm, sbp_torch_addmv, sbp_torch_dot,
    sbp_torch_vdot, sbp_torch_attention, sbp_torch_sum, sbp_torch_mean, sbp_torch_softmax, sbp_torch_log_softmax,
    sbp_torch_layer_norm, sbp_torch_elementwise, sbp_torch_gelu, sbp_torch_silu, sbp_torch_sigmoid, sbp_torch_pow,
    sbp_torch_rsqrt, sbp_torch_real;

/* torch_whole_length(numel, threads): the least length from numel up of which every thread's share is whole vectors. */
PyObject *sbp_torch_whole_length(PyObject *self, PyObject *args);

/* torch_packed(b, memory): b's packed weights or None; `memory` is b's capsule. */
PyObject *sbp_torch_packed(PyObject *self, PyObject *args);

PyObject *sbp_torch_left(void); /* Py_NotImplemented */
/* Runs a C call without the GIL; drops the result, with an exception set, if it fails. */
#define SBP_TORCH_RUN(result, call_expression)                                                                         \
    samebits_status status;                                                                                            \
    Py_BEGIN_ALLOW_THREADS status = call_expression;                                                                   \
    Py_END_ALLOW_THREADS if (status)                                                                                   \
    {                                                                                                                  \
        Py_CLEAR(result);                                                                                              \
        sbp_result(status);                                                                                            \
    }

/* --- torch_kernel.c --- */

/* torch_enter(mode): the mode that calls of this thread run in, or None. torch_default(mode): that of threads which
 * are in none of their own. torch_current(): the mode of this thread. */
PyObject *sbp_torch_enter(PyObject *self, PyObject *mode);
PyObject *sbp_torch_default(PyObject *self, PyObject *mode);
PyObject *sbp_torch_current(PyObject *self, PyObject *unused);
/* Adds the type TorchKernel. */
int sbp_add_torch_type(PyObject *module);

#endif
