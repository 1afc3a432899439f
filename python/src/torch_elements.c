/* Element by element: samebits' activations, and PyTorch's own kernels on whole vectors. Their vector bodies and scalar
 * tails differ in the last bit, so where a row falls decides; on a contiguous tensor whose length is a multiple of a
 * vector in every thread's share only the bodies run. */
#include <string.h>

#include "torch.h"

enum {
    VECTOR = 64,  /* a multiple of any vector's elements, unrolled loops included */
    GRAIN = 32768 /* elements for which PyTorch begins to use another thread (at::internal::GRAIN_SIZE) */
};

static int64_t lcm(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        const int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* PyTorch cuts a tensor into as many shares as there are threads (gelu), or grains if these are fewer (the others). */
static int64_t whole_length(int64_t numel, int64_t threads)
{
    for (int64_t length = numel;;) {
        int64_t shares = (length + GRAIN - 1) / GRAIN;
        if (shares > threads) shares = threads;
        if (shares < 1) shares = 1;
        const int64_t step = VECTOR * lcm(shares, threads), whole = (length + step - 1) / step * step;
        if (whole == length) return whole;
        length = whole;
    }
}

PyObject *sbp_torch_whole_length(PyObject *self, PyObject *args)
{
    (void)self;
    long long numel, threads;
    if (!PyArg_ParseTuple(args, "LL:torch_whole_length", &numel, &threads)) return NULL;
    return PyLong_FromLongLong(whole_length(numel, threads));
}

static int same_shape(const DLTensor *a, const DLTensor *b)
{
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

static int is_tensor(PyObject *object) { return PyObject_TypeCheck(object, (PyTypeObject *)sbp_torch.tensor); }

/* A copy of a contiguous tensor as one dimension, with zeros up to length. */
static PyObject *padded(const DLTensor *x, int64_t length)
{
    DLTensor whole;
    PyObject *copy = sbp_torch_empty(x, 1, &length, &whole);
    if (!copy) return NULL;
    const size_t element = x->dtype.bits / 8u, size = (size_t)sbp_torch_elements(x) * element;
    if (size) memcpy(whole.data, (const char *)x->data + x->byte_offset, size);
    memset((char *)whole.data + size, 0, (size_t)length * element - size);
    return copy;
}

/* Stock's kernel on padded copies, and of its result what is asked for. */
static PyObject *run_padded(const sbp_torch_call *call, const DLTensor *first, int64_t length)
{
    const Py_ssize_t count = PyTuple_Size(call->args);
    PyObject *args = PyTuple_New(count);
    for (Py_ssize_t i = 0; args && i < count; i++) {
        DLTensor x;
        PyObject *item = PyTuple_GetItem(call->args, i);
        if (sbp_torch_view(item, &x))
            item = padded(&x, length);
        else
            Py_INCREF(item);
        if (!item)
            Py_CLEAR(args);
        else
            PyTuple_SetItem(args, i, item);
    }
    if (!args) return NULL;
    PyObject *whole = PyObject_Call(call->stock, args, call->kwargs);
    Py_DECREF(args);
    PyObject *result = whole ? sbp_torch_as(whole, first->ndim, first->shape) : NULL;
    Py_XDECREF(whole);
    return result;
}

PyObject *sbp_torch_elementwise(const sbp_torch_call *call)
{
    DLTensor first, other;
    if (!sbp_torch_view(sbp_torch_arg(call, 0), &first) || !sbp_torch_is_contiguous(&first)) return sbp_torch_left();
    for (Py_ssize_t i = 1; i < sbp_torch_count(call); i++) {
        PyObject *object = sbp_torch_arg(call, i);
        if (!is_tensor(object)) continue;
        if (!sbp_torch_view(object, &other) || !same_shape(&first, &other) || !sbp_torch_is_contiguous(&other))
            return sbp_torch_left();
    }
    const long threads = sbp_torch_threads();
    if (threads < 0) return NULL;
    const int64_t numel = sbp_torch_elements(&first), length = whole_length(numel, threads);
    if (length == numel) return PyObject_Call(call->stock, call->args, call->kwargs);
    return run_padded(call, &first, length);
}

/* x * x, which rounds alike in body and tail. */
PyObject *sbp_torch_pow(const sbp_torch_call *call)
{
    DLTensor x;
    if (!sbp_torch_view(sbp_torch_arg(call, 0), &x)) return sbp_torch_left();
    PyObject *exponent = sbp_torch_arg(call, 1);
    const double value = exponent ? PyFloat_AsDouble(exponent) : 0;
    if (PyErr_Occurred())
        PyErr_Clear();
    else if (value == 2)
        return PyObject_Call(call->stock, call->args, call->kwargs);
    return sbp_torch_elementwise(call);
}

/* A square root and a division, in f32. */
PyObject *sbp_torch_rsqrt(const sbp_torch_call *call)
{
    DLTensor x;
    if (sbp_torch_view(sbp_torch_arg(call, 0), &x) && x.dtype.bits == 32)
        return PyObject_Call(call->stock, call->args, call->kwargs);
    return sbp_torch_elementwise(call);
}

/* A number as a tensor without dimensions. The numbers of a model are few: they are kept. */
static PyObject *scalar_of(PyObject *number)
{
    static PyObject *kept;
    enum { MOST = 64 };
    const double value = PyFloat_AsDouble(number);
    const int keeps = value != 0 && value == value; /* keys of a dict are compared as values: -0 is 0, NaN nothing */
    if (PyErr_Occurred() || (!kept && !(kept = PyDict_New()))) return NULL;
    PyObject *scalar = keeps ? PyDict_GetItemWithError(kept, number) : NULL;
    Py_XINCREF(scalar);
    if (scalar || PyErr_Occurred()) return scalar;
    DLTensor view;
    const DLTensor f32 = {.dtype = {kDLFloat, 32, 1}};
    scalar = sbp_torch_empty(&f32, 0, NULL, &view);
    if (!scalar) return NULL;
    *(float *)view.data = (float)value; /* as PyTorch's kernels of all three dtypes take it */
    if (PyDict_Size(kept) >= MOST) PyDict_Clear(kept);
    if (keeps && PyDict_SetItem(kept, number, scalar)) Py_CLEAR(scalar);
    return scalar;
}

/* PyTorch's kernel of x and a number. It takes none, but a tensor without dimensions, which beside x has no say in the
 * result's dtype. */
static PyObject *with_number(const sbp_torch_call *call, PyObject *number)
{
    PyObject *scalar = scalar_of(number);
    PyObject *args = scalar ? PyTuple_Pack(3, PyTuple_GetItem(call->args, 0), sbp_torch_arg(call, 0), scalar) : NULL;
    PyObject *result = args ? PyObject_Call(call->stock, args, call->kwargs) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(scalar);
    return result;
}

/* PyTorch's kernel, of tensors that are not complex: what stands still for these alone. It is not counted. */
PyObject *sbp_torch_real(const sbp_torch_call *call)
{
    DLTensor x, y;
    PyObject *other = sbp_torch_arg(call, 1);
    if (sbp_torch_count(call) > 2 || !sbp_torch_view_any(sbp_torch_arg(call, 0), &x) || x.dtype.code == kDLComplex)
        return sbp_torch_left();
    if (!other || (sbp_torch_view_any(other, &y) && y.dtype.code != kDLComplex))
        return PyObject_Call(call->stock, call->args, call->kwargs);
    if (!(PyFloat_CheckExact(other) || PyLong_CheckExact(other)) || !sbp_torch_is_float(&x) || !x.ndim)
        return sbp_torch_left();
    return with_number(call, other);
}

/* Dense strides in x's order, as PyTorch lays out its results. */
static void dense_strides(const DLTensor *x, int64_t *strides)
{
    int order[SBP_TORCH_DIMS]; /* the outermost first */
    for (int i = 0; i < x->ndim; i++) {
        int j = i;
        for (; j > 0 && x->strides[order[j - 1]] < x->strides[i]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    int64_t stride = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        strides[order[i]] = stride;
        stride *= x->shape[order[i]] > 0 ? x->shape[order[i]] : 1;
    }
}

static PyObject *activation(const sbp_torch_call *call, samebits_activation kind)
{
    DLTensor x, out;
    int64_t strides[SBP_TORCH_DIMS], elements;
    if (sbp_torch_count(call) != 1 || !sbp_torch_view(sbp_torch_arg(call, 0), &x)) return sbp_torch_left();
    const int contiguous = sbp_torch_is_contiguous(&x);
    if (!contiguous) dense_strides(&x, strides);
    samebits_context *context = sbp_torch_context();
    PyObject *result = !context     ? NULL
                       : contiguous ? sbp_torch_empty(&x, x.ndim, x.shape, &out)
                                    : sbp_torch_empty_strided(&x, x.ndim, x.shape, strides, &out);
    if (!result) return NULL;
    if (contiguous) {
        elements = sbp_torch_elements(&x);
        x.ndim = out.ndim = 1;
        x.shape = out.shape = &elements;
        x.strides = out.strides = NULL;
    }
    SBP_TORCH_RUN(result, samebits_activate(context, &x, kind, &out));
    return result;
}

PyObject *sbp_torch_gelu(const sbp_torch_call *call)
{
    PyObject *approximate = call->kwargs ? PyDict_GetItemString(call->kwargs, "approximate") : NULL;
    if (!approximate) return activation(call, SAMEBITS_ACTIVATION_GELU);
    if (!PyUnicode_Check(approximate)) return sbp_torch_left();
    if (PyUnicode_CompareWithASCIIString(approximate, "tanh") == 0)
        return activation(call, SAMEBITS_ACTIVATION_GELU_TANH);
    if (PyUnicode_CompareWithASCIIString(approximate, "none") == 0) return activation(call, SAMEBITS_ACTIVATION_GELU);
    return sbp_torch_left();
}

PyObject *sbp_torch_silu(const sbp_torch_call *call) { return activation(call, SAMEBITS_ACTIVATION_SILU); }

PyObject *sbp_torch_sigmoid(const sbp_torch_call *call) { return activation(call, SAMEBITS_ACTIVATION_SIGMOID); }
