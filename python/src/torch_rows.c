/* softmax, log_softmax and layer_norm along the last dimension of contiguous tensors. */
#include <math.h>
#include <stdlib.h>

#include "torch.h"

/* Whether argument n is the last dimension of x. */
static int is_last(const sbp_torch_call *call, Py_ssize_t n, const DLTensor *x)
{
    PyObject *object = sbp_torch_arg(call, n);
    const long dim = object ? PyLong_AsLong(object) : -1;
    if (PyErr_Occurred())
        PyErr_Clear();
    else
        return object && x->ndim && (dim == -1 || dim == x->ndim - 1);
    return 0;
}

/* x of _softmax(x, dim, half_to_float), where it is taken. */
static int take(const sbp_torch_call *call, DLTensor *x)
{
    PyObject *widen = sbp_torch_arg(call, 2);
    return !call->kwargs && sbp_torch_view(sbp_torch_arg(call, 0), x) && is_last(call, 1, x) && widen == Py_False &&
           sbp_torch_is_contiguous(x);
}

PyObject *sbp_torch_softmax(const sbp_torch_call *call)
{
    DLTensor x, out;
    if (!take(call, &x)) return sbp_torch_left();
    samebits_context *context = sbp_torch_context();
    PyObject *result = context ? sbp_torch_empty(&x, x.ndim, x.shape, &out) : NULL;
    if (!result) return NULL;
    SBP_TORCH_RUN(result, samebits_softmax(context, &x, NULL, &out));
    return result;
}

PyObject *sbp_torch_log_softmax(const sbp_torch_call *call)
{
    DLTensor x, out;
    if (!take(call, &x)) return sbp_torch_left();
    samebits_context *context = sbp_torch_context();
    PyObject *result = context ? sbp_torch_empty(&x, x.ndim, x.shape, &out) : NULL;
    if (!result) return NULL;
    SBP_TORCH_RUN(result, samebits_log_softmax(context, &x, &out));
    return result;
}

/* Normalised over its last dimension alone, as `shape` says: a list of one number. */
static int over_last(PyObject *shape, const DLTensor *x)
{
    if (!shape || !PyList_Check(shape) || PyList_Size(shape) != 1 || !x->ndim) return 0;
    const long long size = PyLong_AsLongLong(PyList_GetItem(shape, 0));
    if (PyErr_Occurred())
        PyErr_Clear();
    else
        return size == x->shape[x->ndim - 1];
    return 0;
}

/* Whether weight or bias are there at all, or fit. */
static int is_of_columns(const DLTensor *weight, const DLTensor *x)
{
    return !weight || (weight->ndim == 1 && weight->shape[0] == x->shape[x->ndim - 1]);
}

/* Each row's mean and 1 / sqrt(variance + eps), which the gradient takes; deviations has x's elements. */
static samebits_status moments(samebits_context *context, const DLTensor *x, float eps, float *deviations,
                               DLTensor *mean, DLTensor *rstd)
{
    const int64_t columns = x->shape[x->ndim - 1], rows = sbp_torch_elements(x) / columns;
    const DLTensor wide = {.data = deviations, .device = x->device, .dtype = mean->dtype};
    sbp_torch_matrix in, ones, first, second, away;
    sbp_torch_as_matrix(x, rows, columns, columns, 1, &in);
    sbp_torch_as_matrix(mean, rows, 1, 1, 1, &first);
    sbp_torch_as_matrix(rstd, rows, 1, 1, 1, &second);
    sbp_torch_as_matrix(&wide, rows, columns, columns, 1, &away);
    samebits_epilogue epilogue;
    samebits_epilogue_default(&epilogue);
    epilogue.alpha = 1.0 / (double)columns;
    samebits_status status;
    sbp_torch_ones(x->dtype, columns, &ones);
    if ((status = samebits_matmul(context, &in.tensor, &ones.tensor, &epilogue, &first.tensor)) ||
        (status = samebits_sub(context, &in.tensor, &first.tensor, &away.tensor)) ||
        (status = samebits_mul(context, &away.tensor, &away.tensor, &away.tensor)))
        return status;
    sbp_torch_ones(wide.dtype, columns, &ones);
    if ((status = samebits_matmul(context, &away.tensor, &ones.tensor, &epilogue, &second.tensor))) return status;
    float *value = rstd->data;
    for (int64_t i = 0; i < rows; i++) value[i] = 1.0f / sqrtf(value[i] + eps);
    return SAMEBITS_OK;
}

/* (result, mean, rstd), the last two in x's dtype, as PyTorch's gradient expects them, unless `mixed`. */
static PyObject *triple(const DLTensor *x, int mixed, PyObject *result, PyObject *mean, PyObject *rstd)
{
    if (mixed || x->dtype.bits == 32) return PyTuple_Pack(3, result, mean, rstd);
    PyObject *dtype = sbp_torch_dtype(x->dtype), *first = PyObject_CallMethod(mean, "to", "O", dtype);
    PyObject *second = first ? PyObject_CallMethod(rstd, "to", "O", dtype) : NULL;
    PyObject *all = second ? PyTuple_Pack(3, result, first, second) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    return all;
}

/* What the operator returns besides the result: empty in inference mode, where no gradient can follow. */
static PyObject *with_moments(samebits_context *context, const DLTensor *x, int mixed, float eps, PyObject *result)
{
    const int inference = sbp_torch_ask(sbp_torch.is_inference);
    DLTensor mean, rstd, f32 = *x;
    int64_t shape[SBP_TORCH_DIMS];
    const int ndim = inference ? 1 : x->ndim;
    for (int i = 0; i < ndim; i++) shape[i] = x->shape[i];
    shape[ndim - 1] = inference ? 0 : 1;
    f32.dtype = (DLDataType){kDLFloat, 32, 1};
    PyObject *first = inference < 0 ? NULL : sbp_torch_empty(&f32, ndim, shape, &mean);
    PyObject *second = first && !inference ? sbp_torch_empty(&f32, ndim, shape, &rstd) : NULL;
    if (second) {
        float *deviations = malloc((size_t)sbp_torch_elements(x) * sizeof *deviations);
        if (deviations) {
            SBP_TORCH_RUN(second, moments(context, x, eps, deviations, &mean, &rstd));
        } else {
            PyErr_NoMemory();
            Py_CLEAR(second);
        }
        free(deviations);
    } else if (first && inference) {
        Py_INCREF(first);
        second = first;
    }
    PyObject *all = second ? triple(x, mixed, result, first, second) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    return all;
}

PyObject *sbp_torch_layer_norm(const sbp_torch_call *call)
{
    DLTensor x, weight_storage, bias_storage, *weight, *bias, out;
    if (sbp_torch_count(call) != 5 || call->kwargs || !sbp_torch_view(sbp_torch_arg(call, 0), &x) ||
        !over_last(sbp_torch_arg(call, 1), &x) || !sbp_torch_elements(&x) || !sbp_torch_is_contiguous(&x) ||
        !sbp_torch_view_optional(sbp_torch_arg(call, 2), &weight_storage, &weight) ||
        !sbp_torch_view_optional(sbp_torch_arg(call, 3), &bias_storage, &bias) || !is_of_columns(weight, &x) ||
        !is_of_columns(bias, &x))
        return sbp_torch_left();
    const float eps = (float)PyFloat_AsDouble(sbp_torch_arg(call, 4));
    samebits_context *context = PyErr_Occurred() ? NULL : sbp_torch_context();
    PyObject *result = context ? sbp_torch_empty(&x, x.ndim, x.shape, &out) : NULL;
    if (!result) return NULL;
    SBP_TORCH_RUN(result, samebits_layer_norm(context, &x, weight, bias, eps, &out));
    const int mixed = (weight && !sbp_torch_same_dtype(&x, weight)) || (bias && !sbp_torch_same_dtype(&x, bias));
    PyObject *all = result ? with_moments(context, &x, mixed, eps, result) : NULL;
    Py_XDECREF(result);
    return all;
}
