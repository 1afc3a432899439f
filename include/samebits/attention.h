/* Scaled dot product attention whose sums over keys are exact. */
#ifndef SAMEBITS_ATTENTION_H
#define SAMEBITS_ATTENTION_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#include <samebits/context.h>
#include <samebits/weights.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samebits_attention_params {
    size_t struct_size;     /* set by samebits_attention_params_default */
    float scale;            /* multiplies q.k; default 1 */
    float softcap;          /* c > 0: s = c * tanh(s / c); 0: none */
    int causal;             /* key at list position j is visible to query i iff j <= i + L - Lq, L the list's length */
    int64_t window;         /* > 0, with causal: only the last `window` visible positions; 0: all */
    const DLTensor *mask;   /* NULL; bool (true keeps) or f32/f16/bf16 added after softcap; broadcasts to
                               (B, H, Lq, Lk) over the memory order of keys; -inf hides a key */
    const DLTensor *slopes; /* NULL, or f32 (H): factor on the additive mask (ALiBi) */
    const DLTensor *sinks;  /* NULL, or f32 (H): a logit that joins maximum and denominator */
    const DLTensor *key_index;  /* NULL, or int32 (B, Lmax): the key rows of each sequence, in list order */
    const DLTensor *key_length; /* NULL, or int32 (B): how many entries of the list (or of Lk) count */
    samebits_format k_format;   /* what a uint8 k holds: Q8_0 (default), Q4_0, Q4_1, Q5_0, Q5_1 or IQ4_NL */
    samebits_format v_format;   /* what a uint8 v holds, likewise */
} samebits_attention_params;

SAMEBITS_API void samebits_attention_params_default(samebits_attention_params *params);

/* out = softmax(mask(scale * q k^T)) v, for each query row and head over its visible keys.
 * Shapes: q (B, H, Lq, D), k (B, Hkv, Lk, D), v (B, Hkv, Lk, Dv), out (B, H, Lq, Dv); H a multiple of Hkv;
 *   D and Dv 1..576; a B of 1 in k or v broadcasts. q f32, f16 or bf16; k and v each any of these,
 *   or uint8 blocks (params.k_format, v_format), the last dimension being the bytes of a row (contiguous); out q's
 *   dtype or f32; any strides >= 0. B, H, Lq and Lk may be 0.
 *   A query without a visible key gives 0. Hidden keys are never read.
 * Order: portable-1, spec/ops/attention.md: exact over keys, so neither their place in memory nor the
 *   order of the list (without causal) nor any split moves a bit.
 * Ownership: nothing is kept. params may be NULL (defaults).
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, FORMAT, PARAM,
 *   MEMORY; out is then untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_attention(samebits_context *context, const DLTensor *q, const DLTensor *k,
                                                const DLTensor *v, const samebits_attention_params *params,
                                                DLTensor *out);

#ifdef __cplusplus
}
#endif
#endif
