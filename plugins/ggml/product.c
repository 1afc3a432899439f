/* MUL_MAT, MUL_MAT_ID and GET_ROWS: the ops that read weights. */
#include <string.h>

#include "plugin.h"

/* --- MUL_MAT: dst (N, M) = src1 (K, M) with weights src0 (K, N), and two batch dims --- */

static bool supports_mul_mat(const struct ggml_tensor *op)
{
    const struct ggml_tensor *w = op->src[0], *x = op->src[1];
    const samebits_format format = sbg_format(w->type);
    if (format == SAMEBITS_FORMAT_COUNT || op->type != GGML_TYPE_F32) return false;
    if (w->ne[0] % samebits_format_block(format)) return false;
    return x->type == GGML_TYPE_F32 || (sbg_is_float(w->type) && sbg_is_float(x->type));
}

/* One matrix of a batch, as a 2-D view. */
static void matrix_of(const struct ggml_tensor *tensor, int64_t i2, int64_t i3, sbg_view *view)
{
    sbg_view_of(tensor, view);
    view->tensor.data = (char *)tensor->data + i2 * (int64_t)tensor->nb[2] + i3 * (int64_t)tensor->nb[3];
    view->tensor.ndim = 2;
    view->tensor.shape = view->shape + 2;
    view->tensor.strides = view->stride + 2;
}

static samebits_status mul_mat_quantized(sbg_backend *backend, const struct ggml_tensor *w, const struct ggml_tensor *x,
                                         struct ggml_tensor *op)
{
    const int64_t repeat2 = x->ne[2] / w->ne[2], repeat3 = x->ne[3] / w->ne[3];
    for (int64_t i3 = 0; i3 < x->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < x->ne[2]; i2++) {
            sbg_view rows, in, out;
            sbg_rows_of(w, (const char *)w->data + i2 / repeat2 * (int64_t)w->nb[2] + i3 / repeat3 * (int64_t)w->nb[3],
                        &rows);
            matrix_of(x, i2, i3, &in);
            matrix_of(op, i2, i3, &out);
            const samebits_status status =
                samebits_matmul_quantized(backend->samebits, &in.tensor, &rows.tensor, sbg_format(w->type),
                                          backend->options->order, NULL, &out.tensor);
            if (status) return status;
        }
    return SAMEBITS_OK;
}

/* (B, H, rows, cols) as (B / b, b, H / h, h, rows, cols): ggml repeats each weight matrix for h consecutive
 * heads, so that the weights have 1 where the others have h. With one row a head the heads are the rows. */
static void grouped_view(const struct ggml_tensor *tensor, int64_t b, int64_t h, bool heads_are_rows, sbg_view *view)
{
    sbg_view flat;
    sbg_view_of(tensor, &flat);
    *view = flat;
    view->tensor.shape = view->shape;
    view->tensor.strides = view->stride;
    view->tensor.ndim = heads_are_rows ? 5 : 6;
    view->shape[0] = flat.shape[0] / b;
    view->stride[0] = flat.stride[0] * b;
    view->shape[1] = b;
    view->stride[1] = flat.stride[0];
    view->shape[2] = flat.shape[1] / h;
    view->stride[2] = flat.stride[1] * h;
    view->shape[3] = h;
    view->stride[3] = flat.stride[1];
    const int last = view->tensor.ndim - 1;
    if (!heads_are_rows) {
        view->shape[4] = flat.shape[2];
        view->stride[4] = flat.stride[2];
    }
    view->shape[last] = flat.shape[3];
    view->stride[last] = flat.stride[3];
}

static samebits_status mul_mat_float(sbg_backend *backend, const struct ggml_tensor *w, const struct ggml_tensor *x,
                                     struct ggml_tensor *op)
{
    const int64_t h = x->ne[2] / w->ne[2], b = x->ne[3] / w->ne[3];
    const bool heads_are_rows = x->ne[1] == 1 && h > 1;
    sbg_view in, weights, out;
    grouped_view(x, b, h, heads_are_rows, &in);
    grouped_view(w, 1, 1, false, &weights);
    grouped_view(op, b, h, heads_are_rows, &out);
    if (heads_are_rows) { /* (B, 1, H, N, K): the head dim of one repeat is gone */
        memmove(&weights.shape[3], &weights.shape[4], 2 * sizeof *weights.shape);
        memmove(&weights.stride[3], &weights.stride[4], 2 * sizeof *weights.stride);
        weights.tensor.ndim = 5;
    }
    sbg_swap_dims(&weights, weights.tensor.ndim - 2, weights.tensor.ndim - 1); /* (..., K, N) */
    return samebits_matmul(backend->samebits, &in.tensor, &weights.tensor, NULL, &out.tensor);
}

static samebits_status mul_mat_packed(sbg_backend *backend, const sbg_packed *packed, const struct ggml_tensor *x,
                                      struct ggml_tensor *op)
{
    const samebits_order order = sbg_is_float(op->src[0]->type) ? SAMEBITS_ORDER_PORTABLE_1 : backend->options->order;
    sbg_view in, out;
    sbg_view_of(x, &in);
    sbg_view_of(op, &out);
    samebits_status status = SAMEBITS_OK;
    for (int i = 0; i < packed->count && !status; i++) {
        out.tensor.byte_offset = (uint64_t)(i * packed->rows) * op->nb[0];
        out.shape[3] = samebits_weights_rows(packed->part[i]);
        status = samebits_linear_prepared(backend->samebits, &in.tensor, packed->part[i], order, NULL, &out.tensor);
    }
    return status;
}

static samebits_status mul_mat(sbg_backend *backend, struct ggml_tensor *op)
{
    const struct ggml_tensor *w = op->src[0], *x = op->src[1];
    const sbg_packed *packed = sbg_packed_of(w);
    if (packed) return mul_mat_packed(backend, packed, x, op);
    return sbg_is_float(w->type) ? mul_mat_float(backend, w, x, op) : mul_mat_quantized(backend, w, x, op);
}

/* --- MUL_MAT_ID: dst (N, U, T) = src1 (K, U or 1, T) with the experts src2 (U, T) of src0 (K, N, E) --- */

static bool supports_mul_mat_id(const struct ggml_tensor *op)
{
    const struct ggml_tensor *w = op->src[0], *x = op->src[1], *index = op->src[2];
    const samebits_format format = sbg_format(w->type);
    if (format == SAMEBITS_FORMAT_COUNT || op->type != GGML_TYPE_F32 || x->type != GGML_TYPE_F32) return false;
    if (w->ne[0] % samebits_format_block(format) || (x->ne[1] != 1 && x->ne[1] != index->ne[0])) return false;
    return index->type == GGML_TYPE_I32;
}

/* A view without its first dims, which are 1. */
static void drop_dims(sbg_view *view, int count)
{
    view->tensor.ndim -= count;
    view->tensor.shape += count;
    view->tensor.strides += count;
}

/* All experts as (E, N, K), or (E, N, bytes). */
static void experts_of(const struct ggml_tensor *w, sbg_view *view)
{
    sbg_rows_of(w, w->data, view);
    const int64_t size = view->tensor.dtype.bits / 8;
    memmove(view->shape + 1, view->shape, 2 * sizeof *view->shape);
    memmove(view->stride + 1, view->stride, 2 * sizeof *view->stride);
    view->shape[0] = w->ne[2];
    view->stride[0] = (int64_t)w->nb[2] / size;
    view->tensor.ndim = 3;
}

static samebits_status mul_mat_id(sbg_backend *backend, struct ggml_tensor *op)
{
    const struct ggml_tensor *w = op->src[0];
    const sbg_packed *packed = sbg_packed_of(w);
    const samebits_order order = sbg_is_float(w->type) ? SAMEBITS_ORDER_PORTABLE_1 : backend->options->order;
    sbg_view x, index, out, experts;
    sbg_view_of(op->src[1], &x);
    sbg_view_of(op, &out);
    sbg_view_of(op->src[2], &index);
    drop_dims(&x, 1);
    drop_dims(&out, 1);
    drop_dims(&index, 2);
    if (x.shape[2] != out.shape[2]) { /* one row of x for all experts of a token */
        x.shape[2] = out.shape[2];
        x.stride[2] = 0;
    }
    if (!packed) {
        experts_of(w, &experts);
        return samebits_gather_linear(backend->samebits, &x.tensor, &experts.tensor, sbg_format(w->type), &index.tensor,
                                      order, NULL, &out.tensor);
    }
    samebits_status status = SAMEBITS_OK;
    for (int i = 0; i < packed->count && !status; i += packed->matrices) {
        const samebits_weights *const *list = (const samebits_weights *const *)packed->part + i;
        out.tensor.byte_offset = (uint64_t)(i / packed->matrices * packed->rows) * op->nb[0];
        out.shape[3] = samebits_weights_rows(list[0]);
        status = samebits_gather_prepared(backend->samebits, &x.tensor, list, packed->matrices, &index.tensor, order,
                                          NULL, &out.tensor);
    }
    return status;
}

/* --- GET_ROWS: also from packed weights, so that an embedding which is also the output matrix exists once --- */

enum { MIN_TABLE_ROWS = 256 }; /* small tables serve other ops too, which read them plain */

static bool supports_get_rows(const struct ggml_tensor *op)
{
    const struct ggml_tensor *table = op->src[0];
    const samebits_format format = sbg_format(table->type);
    if (format == SAMEBITS_FORMAT_COUNT || op->src[1]->type != GGML_TYPE_I32 || op->type != GGML_TYPE_F32) return false;
    if (table->buffer && sbg_is_our_type(table->buffer->buft))
        return sbg_packable(table) && table->ne[1] >= MIN_TABLE_ROWS;
    return table->ne[0] % samebits_format_block(format) == 0;
}

/* From a packed table, whose parts hold some rows each: one row after another. */
static samebits_status get_packed_rows(sbg_backend *backend, const struct ggml_tensor *table, const sbg_packed *packed,
                                       struct ggml_tensor *op)
{
    const struct ggml_tensor *index = op->src[1];
    for (int64_t i = 0; i < index->ne[0]; i++) {
        int32_t row;
        memcpy(&row, (const char *)index->data + i * (int64_t)index->nb[0], sizeof row);
        if (row < 0 || row >= table->ne[1]) {
            sbg_error("%s: there is no row %d\n", table->name, row);
            return SAMEBITS_ERR_PARAM;
        }
        int32_t in_part = (int32_t)(row % packed->rows);
        int64_t columns = table->ne[0];
        const DLTensor id = {.data = &in_part, .device = {kDLCPU, 0}, .dtype = {kDLInt, 32, 1}};
        DLTensor out = {.data = (char *)op->data + i * (int64_t)op->nb[1],
                        .device = {kDLCPU, 0},
                        .ndim = 1,
                        .dtype = {kDLFloat, 32, 1},
                        .shape = &columns};
        const samebits_status status =
            samebits_embedding_prepared(backend->samebits, packed->part[row / packed->rows], &id, &out);
        if (status) return status;
    }
    return SAMEBITS_OK;
}

/* The rows of each matrix of a table. */
static samebits_status get_plain_rows(sbg_backend *backend, const struct ggml_tensor *table, struct ggml_tensor *op)
{
    const struct ggml_tensor *index = op->src[1];
    samebits_status status = SAMEBITS_OK;
    for (int64_t i = 0; i < index->ne[1] * index->ne[2] && !status; i++) {
        const int64_t i2 = i % index->ne[1], i3 = i / index->ne[1];
        sbg_view rows, id, out;
        sbg_rows_of(table, (const char *)table->data + i2 * (int64_t)table->nb[2] + i3 * (int64_t)table->nb[3], &rows);
        sbg_view_of(index, &id);
        sbg_view_of(op, &out);
        drop_dims(&id, 3);
        drop_dims(&out, 2);
        id.tensor.byte_offset = (uint64_t)i2 * index->nb[1] + (uint64_t)i3 * index->nb[2];
        out.tensor.byte_offset = (uint64_t)i2 * op->nb[2] + (uint64_t)i3 * op->nb[3];
        status = samebits_embedding(backend->samebits, &rows.tensor, sbg_format(table->type), &id.tensor, &out.tensor);
    }
    return status;
}

static samebits_status get_rows(sbg_backend *backend, struct ggml_tensor *op)
{
    const struct ggml_tensor *table = op->src[0];
    const sbg_packed *packed = sbg_packed_of(table);
    return packed ? get_packed_rows(backend, table, packed, op) : get_plain_rows(backend, table, op);
}

const sbg_op sbg_mul_mat = {GGML_OP_MUL_MAT, supports_mul_mat, mul_mat};
const sbg_op sbg_mul_mat_id = {GGML_OP_MUL_MAT_ID, supports_mul_mat_id, mul_mat_id};
const sbg_op sbg_get_rows = {GGML_OP_GET_ROWS, supports_get_rows, get_rows};
