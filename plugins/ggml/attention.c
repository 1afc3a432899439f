/* FLASH_ATTN_EXT and SOFT_MAX: the ops with masks, ALiBi slopes and sinks. */
#include <math.h>
#include <string.h>

#include "plugin.h"

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

/* What the two ops share: mask, ALiBi slopes and sinks as samebits takes them; NULL where an op has none. */
typedef struct {
    sbg_view mask_view, slope_view, sink_view;
    float factors[MAX_HEADS];
    const DLTensor *mask, *slopes, *sinks;
} extras;

static void open_extras(const struct ggml_tensor *mask, const struct ggml_tensor *sinks, float max_bias, int64_t rows,
                        int64_t heads, extras *e)
{
    e->mask = e->slopes = e->sinks = NULL;
    if (mask) {
        sbg_view_of(mask, &e->mask_view);
        e->mask_view.shape[2] = rows; /* it may have rows of padding */
        e->mask = &e->mask_view.tensor;
    }
    if (mask && max_bias > 0) {
        slopes_of(max_bias, heads, e->factors);
        sbg_vector_of(e->factors, heads, &e->slope_view);
        e->slopes = &e->slope_view.tensor;
    }
    if (sinks) {
        sbg_vector_of(sinks->data, sinks->ne[0], &e->sink_view);
        e->sinks = &e->sink_view.tensor;
    }
}

/* --- FLASH_ATTN_EXT: src q (D, Lq, H, B), k (D, Lk, Hkv, B), v (Dv, Lk, Hkv, B), mask, sinks --- */

static bool supports_cache(enum ggml_type type)
{
    return sbg_is_float(type) || type == GGML_TYPE_Q8_0 || type == GGML_TYPE_Q5_1 || type == GGML_TYPE_Q5_0 ||
           type == GGML_TYPE_Q4_1 || type == GGML_TYPE_Q4_0 || type == GGML_TYPE_IQ4_NL;
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

static samebits_status attention(sbg_backend *backend, struct ggml_tensor *op)
{
    const struct ggml_tensor *q = op->src[0];
    sbg_view query, k, v, out;
    extras e;
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.scale = sbg_param(op, 0);
    p.softcap = sbg_param(op, 2);
    sbg_view_of(q, &query);
    sbg_view_of(op, &out);
    sbg_swap_dims(&out, 1, 2); /* ggml stores (B, Lq, H, Dv) */
    open_extras(op->src[3], op->src[4], sbg_param(op, 1), q->ne[1], q->ne[2], &e);
    p.mask = e.mask;
    p.slopes = e.slopes;
    p.sinks = e.sinks;
    sbg_view_of(op->src[1], &k);
    sbg_view_of(op->src[2], &v);
    p.k_format = sbg_format(op->src[1]->type);
    p.v_format = sbg_format(op->src[2]->type);
    return samebits_attention(backend->samebits, &query.tensor, &k.tensor, &v.tensor, &p, &out.tensor);
}

/* --- SOFT_MAX: x (N, M, H, B), mask, sinks --- */

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
    const struct ggml_tensor *x = op->src[0];
    sbg_view in, out;
    extras e;
    samebits_softmax_params p;
    samebits_softmax_params_default(&p);
    p.scale = sbg_param(op, 0);
    sbg_view_of(x, &in);
    sbg_view_of(op, &out);
    open_extras(op->src[1], op->src[2], sbg_param(op, 1), x->ne[1], x->ne[2], &e);
    p.mask = e.mask;
    p.slopes = e.slopes;
    p.sinks = e.sinks;
    return samebits_softmax(backend->samebits, &in.tensor, &p, &out.tensor);
}

const sbg_op sbg_attention = {GGML_OP_FLASH_ATTN_EXT, supports_attention, attention};
const sbg_op sbg_softmax = {GGML_OP_SOFT_MAX, supports_softmax, softmax};
