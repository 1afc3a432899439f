/* ggml tensors as DLPack tensors. ggml counts dims from the innermost and strides in bytes. */
#include <string.h>

#include "plugin.h"

/* The headers of backend API 2 have no name for it. */
enum { TYPE_NVFP4 = 40 };

samebits_format sbg_format(enum ggml_type type)
{
    samebits_format format;
    switch ((int)type) {
    case GGML_TYPE_F32: format = SAMEBITS_FORMAT_F32; break;
    case GGML_TYPE_F16: format = SAMEBITS_FORMAT_F16; break;
    case GGML_TYPE_BF16: format = SAMEBITS_FORMAT_BF16; break;
    case GGML_TYPE_Q4_0: format = SAMEBITS_FORMAT_Q4_0; break;
    case GGML_TYPE_Q4_1: format = SAMEBITS_FORMAT_Q4_1; break;
    case GGML_TYPE_Q5_0: format = SAMEBITS_FORMAT_Q5_0; break;
    case GGML_TYPE_Q5_1: format = SAMEBITS_FORMAT_Q5_1; break;
    case GGML_TYPE_Q8_0: format = SAMEBITS_FORMAT_Q8_0; break;
    case GGML_TYPE_IQ4_NL: format = SAMEBITS_FORMAT_IQ4_NL; break;
    case GGML_TYPE_MXFP4: format = SAMEBITS_FORMAT_MXFP4; break;
    case GGML_TYPE_Q2_K: format = SAMEBITS_FORMAT_Q2_K; break;
    case GGML_TYPE_Q3_K: format = SAMEBITS_FORMAT_Q3_K; break;
    case GGML_TYPE_Q4_K: format = SAMEBITS_FORMAT_Q4_K; break;
    case GGML_TYPE_Q5_K: format = SAMEBITS_FORMAT_Q5_K; break;
    case GGML_TYPE_Q6_K: format = SAMEBITS_FORMAT_Q6_K; break;
    case TYPE_NVFP4: format = SAMEBITS_FORMAT_NVFP4; break;
    default: return SAMEBITS_FORMAT_COUNT;
    }
    return samebits_format_block(format) ? format : SAMEBITS_FORMAT_COUNT;
}

bool sbg_is_float(enum ggml_type type)
{
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

static DLDataType dtype_of(enum ggml_type type)
{
    if (type == GGML_TYPE_F32) return (DLDataType){kDLFloat, 32, 1};
    if (type == GGML_TYPE_I32) return (DLDataType){kDLInt, 32, 1};
    if (sbg_is_float(type)) return (DLDataType){type == GGML_TYPE_F16 ? kDLFloat : kDLBfloat, 16, 1};
    return (DLDataType){kDLUInt, 8, 1}; /* blocks, as bytes */
}

static void start(sbg_view *view, const void *data, int ndim, DLDataType dtype)
{
    view->tensor = (DLTensor){.data = (void *)data,
                              .device = {kDLCPU, 0},
                              .ndim = ndim,
                              .dtype = dtype,
                              .shape = view->shape,
                              .strides = view->stride};
}

/* Dim `dim` is ggml's first: elements, or the bytes of a row of blocks. */
static void put_columns(const struct ggml_tensor *tensor, int dim, sbg_view *view)
{
    size_t row = 0;
    view->shape[dim] = tensor->ne[0];
    view->stride[dim] = (int64_t)tensor->nb[0] / (view->tensor.dtype.bits / 8);
    if (view->tensor.dtype.code != kDLUInt) return;
    samebits_format_row_size(sbg_format(tensor->type), tensor->ne[0], &row);
    view->shape[dim] = (int64_t)row;
    view->stride[dim] = 1;
}

void sbg_view_of(const struct ggml_tensor *tensor, sbg_view *view)
{
    enum { LAST = GGML_MAX_DIMS - 1 };
    start(view, tensor->data, GGML_MAX_DIMS, dtype_of(tensor->type));
    for (int i = 0; i < LAST; i++) {
        view->shape[i] = tensor->ne[LAST - i];
        view->stride[i] = (int64_t)tensor->nb[LAST - i] / (view->tensor.dtype.bits / 8);
    }
    put_columns(tensor, LAST, view);
}

void sbg_rows_of(const struct ggml_tensor *tensor, const void *data, sbg_view *view)
{
    start(view, data, 2, dtype_of(tensor->type));
    view->shape[0] = tensor->ne[1];
    view->stride[0] = (int64_t)tensor->nb[1] / (view->tensor.dtype.bits / 8);
    put_columns(tensor, 1, view);
}

void sbg_vector_of(const float *data, int64_t count, sbg_view *view)
{
    start(view, data, 1, dtype_of(GGML_TYPE_F32));
    view->shape[0] = count;
    view->stride[0] = 1;
}

void sbg_swap_dims(sbg_view *view, int a, int b)
{
    const int64_t shape = view->shape[a], stride = view->stride[a];
    view->shape[a] = view->shape[b];
    view->stride[a] = view->stride[b];
    view->shape[b] = shape;
    view->stride[b] = stride;
}

float sbg_param(const struct ggml_tensor *op, int index)
{
    float value;
    memcpy(&value, &op->op_params[index], sizeof value);
    return value;
}
