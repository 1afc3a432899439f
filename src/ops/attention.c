/* Entry point of attention (samebits/attention.h): check, describe, run. */
#include "ops/attention.h"

#include <math.h>

#include "formats/formats.h"

enum { MAX_WIDTH = 576 };

void samebits_attention_params_default(samebits_attention_params *params)
{
    if (!params) return;
    *params = (samebits_attention_params){.struct_size = sizeof *params,
                                          .scale = 1.0f,
                                          .k_format = SAMEBITS_FORMAT_Q8_0,
                                          .v_format = SAMEBITS_FORMAT_Q8_0};
}

static samebits_status check_params(const samebits_attention_params *p)
{
    if (p->struct_size != sizeof *p)
        return sb_fail(SAMEBITS_ERR_PARAM,
                       "params.struct_size is %zu, want %zu: call samebits_attention_params_default first",
                       p->struct_size, sizeof *p);
    if (!(p->softcap >= 0.0f && p->softcap < INFINITY))
        return sb_fail(SAMEBITS_ERR_PARAM, "params.softcap is %g, want 0 (none) or a positive number",
                       (double)p->softcap);
    if (p->window < 0 || (p->window && !p->causal))
        return sb_fail(SAMEBITS_ERR_PARAM, "params.window is %lld with causal %d, want 0 (all), or more and causal",
                       (long long)p->window, p->causal);
    return SAMEBITS_OK;
}

/* Blocks of 32 weights with a scale of f16, as caches have them. */
static int is_cache(samebits_format f) { return f >= SAMEBITS_FORMAT_Q4_0 && f <= SAMEBITS_FORMAT_IQ4_NL; }

/* K or V: its format and the number of columns that its last dimension holds. */
static samebits_status describe_kv(const DLTensor *t, const char *name, samebits_format blocks, sb_view *view,
                                   samebits_format *format, int64_t *width)
{
    static const samebits_format of_dtype[] = {
        [SB_F32] = SAMEBITS_FORMAT_F32, [SB_F16] = SAMEBITS_FORMAT_F16, [SB_BF16] = SAMEBITS_FORMAT_BF16};
    samebits_status status = sb_view_of(t, name, SB_SET_FLOATS | SB_SET_U8, 4, 4, view);
    if (status) return status;
    *width = view->shape[3];
    if (view->dtype != SB_U8) {
        *format = of_dtype[view->dtype];
        return SAMEBITS_OK;
    }
    if (!is_cache(blocks))
        return sb_fail(SAMEBITS_ERR_FORMAT,
                       "%s is uint8 with params.%s_format %s, want q4_0, q4_1, q5_0, q5_1, q8_0 or iq4_nl", name, name,
                       samebits_format_name(blocks));
    const sb_format *info = sb_format_info(blocks);
    if (view->shape[3] % info->block_bytes)
        return sb_fail(SAMEBITS_ERR_FORMAT, "a row of %s has %lld bytes, want a multiple of %d, the block of format %s",
                       name, (long long)view->shape[3], info->block_bytes, info->name);
    *format = blocks;
    *width = view->shape[3] / info->block_bytes * info->block;
    return sb_check_side_by_side(view, name, "bytes");
}

static samebits_status check_width(const char *name, int64_t width)
{
    if (width >= 1 && width <= MAX_WIDTH) return SAMEBITS_OK;
    return sb_fail(SAMEBITS_ERR_SHAPE, "%s has %lld columns, want 1 to %d", name, (long long)width, MAX_WIDTH);
}

static samebits_status check_shapes(sb_attention *a)
{
    char q[128], k[128], v[128];
    if (a->q.shape[3] != a->k_width || a->k.shape[1] != a->v.shape[1] || a->k.shape[2] != a->v.shape[2])
        return sb_fail(SAMEBITS_ERR_SHAPE,
                       "q %s, k %s, v %s do not fit: want (B, H, Lq, D), (B, Hkv, Lk, D), (B, Hkv, Lk, Dv)",
                       sb_shape_text(&a->q, q), sb_shape_text(&a->k, k), sb_shape_text(&a->v, v));
    if ((a->k.shape[0] != 1 && a->k.shape[0] != a->batches) || (a->v.shape[0] != 1 && a->v.shape[0] != a->batches))
        return sb_fail(SAMEBITS_ERR_SHAPE, "k and v hold %lld and %lld sequences, want 1 or q's %lld",
                       (long long)a->k.shape[0], (long long)a->v.shape[0], (long long)a->batches);
    if (a->kv_heads ? a->heads % a->kv_heads : a->heads)
        return sb_fail(SAMEBITS_ERR_SHAPE, "q has %lld heads, want a multiple of the %lld of k and v",
                       (long long)a->heads, (long long)a->kv_heads);
    if (a->keys > INT32_MAX)
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "k has %lld rows, want at most 2^31 - 1", (long long)a->keys);
    const int64_t want[4] = {a->batches, a->heads, a->queries, a->v_width};
    if (memcmp(a->out.shape, want, sizeof want))
        return sb_fail(SAMEBITS_ERR_SHAPE, "out is %s, want [%lld, %lld, %lld, %lld]", sb_shape_text(&a->out, q),
                       (long long)want[0], (long long)want[1], (long long)want[2], (long long)want[3]);
    if (a->out.dtype != SB_F32 && a->out.dtype != a->q.dtype)
        return sb_fail(SAMEBITS_ERR_DTYPE, "out is %s, want f32 or q's %s", sb_dtype_name(a->out.dtype),
                       sb_dtype_name(a->q.dtype));
    const samebits_status status = check_width("k", a->k_width);
    return status ? status : check_width("v", a->v_width);
}

/* One number a head. */
static samebits_status describe_heads(const DLTensor *t, const char *name, sb_attention *a, sb_view *view, int *has)
{
    *has = t != NULL;
    if (!t) return SAMEBITS_OK;
    samebits_status status = sb_view_of(t, name, SB_SET_F32, 1, 1, view);
    if (status) return status;
    if (view->shape[0] != a->heads)
        return sb_fail(SAMEBITS_ERR_SHAPE, "%s has %lld elements, want one for each of the %lld heads", name,
                       (long long)view->shape[0], (long long)a->heads);
    return sb_check_overlap(&a->out, view, name, 0);
}

static samebits_status check_list(const sb_attention *a)
{
    const int64_t most = a->has_index ? a->index.shape[1] : a->keys;
    for (int64_t b = 0; b < a->batches; b++) {
        const int64_t length = sb_attention_length(a, b);
        if (length < 0 || length > most)
            return sb_fail(SAMEBITS_ERR_PARAM, "key_length[%lld] is %lld, want 0 to %lld", (long long)b,
                           (long long)length, (long long)most);
        for (int64_t j = 0; a->has_index && j < length; j++) {
            const int64_t key = sb_attention_key(a, b, j);
            if (key < 0 || key >= a->keys)
                return sb_fail(SAMEBITS_ERR_PARAM, "key_index[%lld, %lld] is %lld, want a row of k: 0 to %lld",
                               (long long)b, (long long)j, (long long)key, (long long)a->keys - 1);
        }
    }
    return SAMEBITS_OK;
}

static samebits_status describe_keys(const samebits_attention_params *p, sb_attention *a)
{
    samebits_status status;
    a->has_index = p->key_index != NULL;
    a->has_length = p->key_length != NULL;
    if (a->has_index) {
        if ((status = sb_view_of(p->key_index, "key_index", SB_SET_I32, 2, 2, &a->index)) ||
            (status = sb_check_overlap(&a->out, &a->index, "key_index", 0)))
            return status;
        if (a->index.shape[0] != a->batches || a->index.shape[1] > INT32_MAX)
            return sb_fail(SAMEBITS_ERR_SHAPE,
                           "key_index has %lld lists of %lld, want one for each of the %lld sequences",
                           (long long)a->index.shape[0], (long long)a->index.shape[1], (long long)a->batches);
    }
    if (a->has_length) {
        if ((status = sb_view_of(p->key_length, "key_length", SB_SET_I32, 1, 1, &a->length)) ||
            (status = sb_check_overlap(&a->out, &a->length, "key_length", 0)))
            return status;
        if (a->length.shape[0] != a->batches)
            return sb_fail(SAMEBITS_ERR_SHAPE, "key_length has %lld elements, want one for each of the %lld sequences",
                           (long long)a->length.shape[0], (long long)a->batches);
    }
    return a->has_index || a->has_length ? check_list(a) : SAMEBITS_OK;
}

static samebits_status describe_mask(const samebits_attention_params *p, sb_attention *a)
{
    const int64_t shape[4] = {a->batches, a->heads, a->queries, a->keys};
    samebits_status status = SAMEBITS_OK;
    a->has_mask = p->mask != NULL;
    if (a->has_mask && (status = sb_view_of(p->mask, "mask", SB_SET_FLOATS | SB_SET_BOOL, 0, 4, &a->mask)))
        return status;
    if (p->slopes && (!a->has_mask || a->mask.dtype == SB_BOOL))
        return sb_fail(SAMEBITS_ERR_PARAM, "params.slopes needs an additive params.mask: slopes are factors on it");
    if (!a->has_mask) return SAMEBITS_OK;
    if ((status = sb_check_overlap(&a->out, &a->mask, "mask", 0))) return status;
    return sb_broadcast(&a->mask, "mask", 4, shape);
}

samebits_status samebits_attention(samebits_context *context, const DLTensor *q, const DLTensor *k, const DLTensor *v,
                                   const samebits_attention_params *params, DLTensor *out)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    samebits_status status;
    if (params && (status = check_params(params))) return status;
    if (params) p = *params;
    sb_attention a = {.scale = p.scale, .softcap = p.softcap, .causal = p.causal, .window = p.window};
    if ((status = sb_view_of(q, "q", SB_SET_FLOATS, 4, 4, &a.q)) ||
        (status = describe_kv(k, "k", p.k_format, &a.k, &a.k_format, &a.k_width)) ||
        (status = describe_kv(v, "v", p.v_format, &a.v, &a.v_format, &a.v_width)) ||
        (status = sb_view_of(out, "out", SB_SET_FLOATS, 4, 4, &a.out)))
        return status;
    a.batches = a.q.shape[0];
    a.heads = a.q.shape[1];
    a.queries = a.q.shape[2];
    a.kv_heads = a.k.shape[1];
    a.keys = a.k.shape[2];
    if ((status = check_shapes(&a)) || (status = sb_check_output(&a.out)) ||
        (status = sb_check_overlap(&a.out, &a.q, "q", 0)) || (status = sb_check_overlap(&a.out, &a.k, "k", 0)) ||
        (status = sb_check_overlap(&a.out, &a.v, "v", 0)) || (status = describe_mask(&p, &a)) ||
        (status = describe_heads(p.slopes, "slopes", &a, &a.slopes, &a.has_slopes)) ||
        (status = describe_heads(p.sinks, "sinks", &a, &a.sinks, &a.has_sinks)) || (status = describe_keys(&p, &a)))
        return status;
    return a.out.count ? sb_attention_run(context, &a) : SAMEBITS_OK;
}
