/* The ops this backend takes, and how each is handed to samebits. */
#include <math.h>
#include <string.h>

#include "plugin.h"

static float param(const struct ggml_tensor *op, int index)
{
    float value;
    memcpy(&value, &op->op_params[index], sizeof value);
    return value;
}

/* A packed weight may be read as the first operand of a product or a table only. */
static bool reads_packed(const struct ggml_tensor *op)
{
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor *src = op->src[i];
        if (!src) continue;
        const struct ggml_tensor *owner = src->view_src ? src->view_src : src;
        if (!owner->buffer || !sbg_is_our_type(owner->buffer->buft)) continue;
        const bool is_weight = i == 0 && (op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_GET_ROWS);
        if (!is_weight || !sbg_packable(src)) return true;
    }
    return false;
}

static void swap_dims(sbg_view *view, int a, int b)
{
    const int64_t shape = view->shape[a], stride = view->stride[a];
    view->shape[a] = view->shape[b];
    view->stride[a] = view->stride[b];
    view->shape[b] = shape;
    view->stride[b] = stride;
}

/* ALiBi's factor of each head, as ggml defines it: powers of 2^(-bias/n) for the first n heads, n the largest
 * power of two, and odd powers of its square root for the rest. Rounded once from f64. */
enum { MAX_HEADS = 1024 };

static void slopes_of(float max_bias, int64_t heads, float *slopes)
{
    int64_t n = 1;
    while (2 * n <= heads) n *= 2;
    for (int64_t h = 0; h < heads; h++) {
        const double power = h < n ? (double)(h + 1) : 0.5 * (double)(2 * (h - n) + 1);
        slopes[h] = (float)exp2(-(double)max_bias / (double)n * power);
    }
}

static void vector_of(const float *data, int64_t count, sbg_view *view)
{
    view->tensor = (DLTensor){.data = (void *)data,
                              .device = {kDLCPU, 0},
                              .ndim = 1,
                              .dtype = {kDLFloat, 32, 1},
                              .shape = view->shape,
                              .strides = view->stride};
    view->shape[0] = count;
    view->stride[0] = 1;
}

/* Widens a row with the host's own function, the one its own ops use. */
static void widen_row(enum ggml_type type, const void *bytes, float *out, int64_t n)
{
    if (type == GGML_TYPE_F32)
        memcpy(out, bytes, (size_t)n * sizeof *out);
    else
        sbg_ggml.type_traits(type)->to_float(bytes, out, n);
}

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
    swap_dims(&weights, weights.tensor.ndim - 2, weights.tensor.ndim - 1); /* (..., K, N) */
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

/* --- FLASH_ATTN_EXT: src q (D, Lq, H, B), k (D, Lk, Hkv, B), v (Dv, Lk, Hkv, B), mask, sinks --- */

/* The quantised ones whose weights are one product, which no compiler can round differently. */
static bool supports_cache(enum ggml_type type)
{
    return sbg_is_float(type) || type == GGML_TYPE_Q8_0 || type == GGML_TYPE_Q5_0 || type == GGML_TYPE_Q4_0 ||
           type == GGML_TYPE_IQ4_NL;
}

static bool supports_attention(const struct ggml_tensor *op)
{
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3], *sinks = op->src[4];
    if (q->type != GGML_TYPE_F32 || op->type != GGML_TYPE_F32 || !supports_cache(k->type) || !supports_cache(v->type))
        return false;
    if (k->ne[0] > 576 || v->ne[0] > 576 || q->ne[2] > MAX_HEADS || q->ne[2] % k->ne[2] || k->ne[2] != v->ne[2] ||
        k->ne[3] != v->ne[3] || (k->ne[3] != 1 && k->ne[3] != q->ne[3]))
        return false;
    if (mask && (mask->type != GGML_TYPE_F16 || (mask->ne[2] != 1 && mask->ne[2] != q->ne[2]) ||
                 (mask->ne[3] != 1 && mask->ne[3] != q->ne[3]) || mask->ne[0] != k->ne[1] || mask->ne[1] < q->ne[1]))
        return false;
    return !sinks || sinks->type == GGML_TYPE_F32;
}

/* A quantised cache in f32, contiguous (B, H, L, D), in memory of the arena that the caller gives back. */
static samebits_status widen(sbg_backend *backend, const struct ggml_tensor *t, sbg_view *view, size_t *size)
{
    *size = (size_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]) * sizeof(float);
    const samebits_allocator arena = sbg_arena_allocator(&backend->arena);
    float *out = arena.alloc(arena.user, *size ? *size : 1, 64);
    if (!out) return SAMEBITS_ERR_MEMORY;
    view->tensor = (DLTensor){.data = out,
                              .device = {kDLCPU, 0},
                              .ndim = 4,
                              .dtype = {kDLFloat, 32, 1},
                              .shape = view->shape,
                              .strides = view->stride};
    int64_t stride = 1;
    for (int i = 0; i < 4; i++) {
        view->shape[3 - i] = t->ne[i];
        view->stride[3 - i] = stride;
        stride *= t->ne[i];
    }
    for (int64_t i3 = 0; i3 < t->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < t->ne[2]; i2++)
            for (int64_t i1 = 0; i1 < t->ne[1]; i1++, out += t->ne[0])
                widen_row(t->type,
                          (const char *)t->data + i1 * (int64_t)t->nb[1] + i2 * (int64_t)t->nb[2] +
                              i3 * (int64_t)t->nb[3],
                          out, t->ne[0]);
    return SAMEBITS_OK;
}

typedef struct {
    sbg_view view;
    size_t size; /* of memory to give back; 0: the cache itself */
} cache_view;

static samebits_status open_cache(sbg_backend *backend, const struct ggml_tensor *tensor, cache_view *cache)
{
    cache->size = 0;
    if (!sbg_is_float(tensor->type)) return widen(backend, tensor, &cache->view, &cache->size);
    sbg_view_of(tensor, &cache->view);
    return SAMEBITS_OK;
}

static void close_cache(sbg_backend *backend, cache_view *cache)
{
    const samebits_allocator arena = sbg_arena_allocator(&backend->arena);
    if (cache->size) arena.free(arena.user, cache->view.tensor.data, cache->size);
}

static samebits_status attention(sbg_backend *backend, struct ggml_tensor *op)
{
    const struct ggml_tensor *q = op->src[0], *mask = op->src[3], *sinks = op->src[4];
    const float max_bias = param(op, 1);
    float factors[MAX_HEADS];
    sbg_view query, mask_view, sink_view, slope_view, out;
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.scale = param(op, 0);
    p.softcap = param(op, 2);
    sbg_view_of(q, &query);
    sbg_view_of(op, &out);
    swap_dims(&out, 1, 2); /* ggml stores (B, Lq, H, Dv) */
    if (mask) {
        sbg_view_of(mask, &mask_view);
        mask_view.shape[2] = q->ne[1]; /* it may have rows of padding */
        p.mask = &mask_view.tensor;
    }
    if (mask && max_bias > 0) {
        slopes_of(max_bias, q->ne[2], factors);
        vector_of(factors, q->ne[2], &slope_view);
        p.slopes = &slope_view.tensor;
    }
    if (sinks) {
        vector_of(sinks->data, sinks->ne[0], &sink_view);
        p.sinks = &sink_view.tensor;
    }
    cache_view k, v = {.size = 0};
    samebits_status status = open_cache(backend, op->src[1], &k);
    if (status) return status;
    status = open_cache(backend, op->src[2], &v);
    if (!status)
        status = samebits_attention(backend->samebits, &query.tensor, &k.view.tensor, &v.view.tensor, &p, &out.tensor);
    close_cache(backend, &v);
    close_cache(backend, &k);
    return status;
}

/* --- GET_ROWS: from packed weights, so that an embedding which is also the output matrix exists once --- */

enum { MIN_TABLE_ROWS = 256 }; /* small tables serve other ops too, which read them plain */

static bool supports_get_rows(const struct ggml_tensor *op)
{
    const struct ggml_tensor *table = op->src[0];
    return table->buffer && sbg_is_our_type(table->buffer->buft) && sbg_packable(table) &&
           table->ne[1] >= MIN_TABLE_ROWS && op->src[1]->type == GGML_TYPE_I32 && op->type == GGML_TYPE_F32;
}

static samebits_status get_rows(sbg_backend *backend, struct ggml_tensor *op)
{
    const struct ggml_tensor *table = op->src[0], *index = op->src[1];
    const sbg_packed *packed = sbg_packed_of(table);
    const samebits_allocator arena = sbg_arena_allocator(&backend->arena);
    void *bytes = arena.alloc(arena.user, table->nb[1], 64);
    samebits_status status = bytes ? SAMEBITS_OK : SAMEBITS_ERR_MEMORY;
    for (int64_t i = 0; i < index->ne[0] && !status; i++) {
        int32_t row;
        memcpy(&row, (const char *)index->data + i * (int64_t)index->nb[0], sizeof row);
        float *out = (float *)((char *)op->data + i * (int64_t)op->nb[1]);
        if (row < 0 || row >= table->ne[1]) {
            sbg_error("%s: there is no row %d\n", table->name, row);
            status = SAMEBITS_ERR_PARAM;
        } else if (packed) {
            status = samebits_weights_restore_rows(packed->part[row / packed->rows], row % packed->rows, 1, bytes,
                                                   table->nb[1]);
            if (!status) widen_row(table->type, bytes, out, table->ne[0]);
        } else {
            widen_row(table->type, (const char *)table->data + row * (int64_t)table->nb[1], out, table->ne[0]);
        }
    }
    if (bytes) arena.free(arena.user, bytes, table->nb[1]);
    return status;
}

/* --- SOFT_MAX, RMS_NORM, NORM --- */

static bool supports_softmax(const struct ggml_tensor *op)
{
    const struct ggml_tensor *x = op->src[0], *mask = op->src[1], *sinks = op->src[2];
    if (x->type != GGML_TYPE_F32 || op->type != GGML_TYPE_F32 || x->ne[2] > MAX_HEADS) return false;
    if (mask && (!sbg_is_float(mask->type) || (mask->ne[2] != 1 && mask->ne[2] != x->ne[2]) ||
                 (mask->ne[3] != 1 && mask->ne[3] != x->ne[3]) || mask->ne[0] != x->ne[0] || mask->ne[1] < x->ne[1]))
        return false;
    return !sinks || sinks->type == GGML_TYPE_F32;
}

static samebits_status softmax(sbg_backend *backend, struct ggml_tensor *op)
{
    const struct ggml_tensor *x = op->src[0], *mask = op->src[1], *sinks = op->src[2];
    const float max_bias = param(op, 1);
    float factors[MAX_HEADS];
    sbg_view in, mask_view, sink_view, slope_view, out;
    samebits_softmax_params p;
    samebits_softmax_params_default(&p);
    p.scale = param(op, 0);
    sbg_view_of(x, &in);
    sbg_view_of(op, &out);
    if (mask) {
        sbg_view_of(mask, &mask_view);
        mask_view.shape[2] = x->ne[1];
        p.mask = &mask_view.tensor;
    }
    if (mask && max_bias > 0) {
        slopes_of(max_bias, x->ne[2], factors);
        vector_of(factors, x->ne[2], &slope_view);
        p.slopes = &slope_view.tensor;
    }
    if (sinks) {
        vector_of(sinks->data, sinks->ne[0], &sink_view);
        p.sinks = &sink_view.tensor;
    }
    return samebits_softmax(backend->samebits, &in.tensor, &p, &out.tensor);
}

static bool supports_norm(const struct ggml_tensor *op)
{
    return op->src[0]->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32;
}

static samebits_status rms_norm(sbg_backend *backend, struct ggml_tensor *op)
{
    sbg_view in, out;
    sbg_view_of(op->src[0], &in);
    sbg_view_of(op, &out);
    return samebits_rms_norm(backend->samebits, &in.tensor, NULL, param(op, 0), &out.tensor);
}

static samebits_status layer_norm(sbg_backend *backend, struct ggml_tensor *op)
{
    sbg_view in, out;
    sbg_view_of(op->src[0], &in);
    sbg_view_of(op, &out);
    return samebits_layer_norm(backend->samebits, &in.tensor, NULL, NULL, param(op, 0), &out.tensor);
}

static const struct {
    enum ggml_op op;
    bool (*supports)(const struct ggml_tensor *op);
    samebits_status (*compute)(sbg_backend *backend, struct ggml_tensor *op);
} ops[] = {
    {GGML_OP_MUL_MAT, supports_mul_mat, mul_mat},
    {GGML_OP_GET_ROWS, supports_get_rows, get_rows},
    {GGML_OP_FLASH_ATTN_EXT, supports_attention, attention},
    {GGML_OP_SOFT_MAX, supports_softmax, softmax},
    {GGML_OP_RMS_NORM, supports_norm, rms_norm},
    {GGML_OP_NORM, supports_norm, layer_norm},
};

bool sbg_supports(const struct ggml_tensor *op)
{
    switch (op->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE: return true;
    default: break;
    }
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].op == op->op) return ops[i].supports(op) && !reads_packed(op);
    return false;
}

samebits_status sbg_compute(sbg_backend *backend, struct ggml_tensor *op)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].op == op->op) return ops[i].compute(backend, op);
    return SAMEBITS_OK; /* views compute nothing */
}

bool sbg_stock_moves(enum ggml_op op)
{
    /* Element by element, or row by row in an order that only the row's length decides. What is not listed
     * may split or block its sums by the batch. */
    switch (op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
    case GGML_OP_DUP:
    case GGML_OP_CPY:
    case GGML_OP_CONT:
    case GGML_OP_CONCAT:
    case GGML_OP_REPEAT:
    case GGML_OP_PAD:
    case GGML_OP_ROLL:
    case GGML_OP_SET:
    case GGML_OP_FILL:
    case GGML_OP_TRI:
    case GGML_OP_ARANGE:
    case GGML_OP_GET_ROWS:
    case GGML_OP_SET_ROWS:
    case GGML_OP_DIAG:
    case GGML_OP_DIAG_MASK_INF:
    case GGML_OP_DIAG_MASK_ZERO:
    case GGML_OP_ADD:
    case GGML_OP_ADD1:
    case GGML_OP_ADD_ID:
    case GGML_OP_ACC:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV:
    case GGML_OP_SQR:
    case GGML_OP_SQRT:
    case GGML_OP_LOG:
    case GGML_OP_SIN:
    case GGML_OP_COS:
    case GGML_OP_SCALE:
    case GGML_OP_CLAMP:
    case GGML_OP_UNARY:
    case GGML_OP_GLU:
    case GGML_OP_LEAKY_RELU:
    case GGML_OP_ROPE:
    case GGML_OP_NORM:
    case GGML_OP_RMS_NORM:
    case GGML_OP_L2_NORM:
    case GGML_OP_SUM_ROWS:
    case GGML_OP_MEAN:
    case GGML_OP_ARGMAX:
    case GGML_OP_ARGSORT:
    case GGML_OP_TOP_K: return false;
    default: return true;
    }
}
