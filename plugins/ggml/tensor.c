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
    return (DLDataType){type == GGML_TYPE_F16 ? kDLFloat : kDLBfloat, 16, 1};
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

void sbg_view_of(const struct ggml_tensor *tensor, sbg_view *view)
{
    start(view, tensor->data, GGML_MAX_DIMS, dtype_of(tensor->type));
    const int64_t size = view->tensor.dtype.bits / 8;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        view->shape[i] = tensor->ne[GGML_MAX_DIMS - 1 - i];
        view->stride[i] = (int64_t)tensor->nb[GGML_MAX_DIMS - 1 - i] / size;
    }
}

void sbg_rows_of(const struct ggml_tensor *tensor, const void *data, sbg_view *view)
{
    const bool is_float = sbg_is_float(tensor->type);
    start(view, data, 2, is_float ? dtype_of(tensor->type) : (DLDataType){kDLUInt, 8, 1});
    size_t row = 0;
    samebits_format_row_size(sbg_format(tensor->type), tensor->ne[0], &row);
    const int64_t size = !is_float ? 1 : tensor->type == GGML_TYPE_F32 ? 4 : 2;
    view->shape[0] = tensor->ne[1];
    view->shape[1] = is_float ? tensor->ne[0] : (int64_t)row;
    view->stride[0] = (int64_t)tensor->nb[1] / size;
    view->stride[1] = is_float ? (int64_t)tensor->nb[0] / size : 1;
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

void sbg_widen_row(enum ggml_type type, const void *bytes, float *out, int64_t n)
{
    if (type == GGML_TYPE_F32)
        memcpy(out, bytes, (size_t)n * sizeof *out);
    else
        sbg_ggml.type_traits(type)->to_float(bytes, out, n);
}
