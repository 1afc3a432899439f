/* Attention as the engine runs it: every argument checked and filled in. */
#ifndef SB_OPS_ATTENTION_H
#define SB_OPS_ATTENTION_H

#include <samebits/attention.h>

#include "base/context.h"
#include "ops/tensor.h"

typedef struct sb_attention {
    sb_view q, k, v, out;
    samebits_format k_format, v_format;
    int64_t batches, heads, kv_heads, queries, keys, k_width, v_width;
    float scale, softcap;
    int causal;
    int64_t window;
    int has_mask, has_slopes, has_sinks, has_index, has_length;
    sb_view mask; /* broadcast to (B, H, Lq, Lk) */
    sb_view slopes, sinks, index, length;
} sb_attention;

/* Runs attention whose arguments have been checked and whose output is not empty. Errors: OVERFLOW, MEMORY. */
samebits_status sb_attention_run(const samebits_context *context, const sb_attention *attention);

/* The keys of sequence b that count: list positions [0, length). */
SB_INLINE int64_t sb_attention_length(const sb_attention *a, int64_t b)
{
    if (a->has_length) return ((const int32_t *)(const void *)a->length.data)[b * a->length.stride[0]];
    return a->has_index ? a->index.shape[1] : a->keys;
}

/* The K and V row at a list position. */
SB_INLINE int64_t sb_attention_key(const sb_attention *a, int64_t b, int64_t position)
{
    if (!a->has_index) return position;
    return ((const int32_t *)(const void *)a->index.data)[b * a->index.stride[0] + position * a->index.stride[1]];
}

#endif
