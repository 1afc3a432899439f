/* Rotary position embedding. */
#ifndef SAMEBITS_ROPE_H
#define SAMEBITS_ROPE_H

#include <dlpack/dlpack.h>

#include <samebits/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which two elements of a row make pair i of `pairs`. */
typedef enum samebits_rope_layout {
    SAMEBITS_ROPE_HALVES = 0,  /* i and i + pairs */
    SAMEBITS_ROPE_INTERLEAVED, /* 2i and 2i + 1 */
    SAMEBITS_ROPE_LAYOUT_COUNT
} samebits_rope_layout;

/* How position components are dealt to the pairs, when there are several. */
typedef enum samebits_rope_sections {
    SAMEBITS_ROPE_SECTIONS_NONE = 0, /* one position a row */
    SAMEBITS_ROPE_SECTIONS_BLOCKS,   /* section[0] pairs of the first, section[1] of the second, ... */
    SAMEBITS_ROPE_SECTIONS_CYCLIC,   /* first, second, third in turn; those past a section's share take the fourth */
    SAMEBITS_ROPE_SECTIONS_COUNT
} samebits_rope_sections;

typedef struct samebits_rope_params {
    size_t struct_size; /* set by samebits_rope_params_default */
    samebits_rope_layout layout;
    int64_t dims;           /* rotated elements of a row, even; 0: all */
    int64_t first;          /* the first of them */
    float base;             /* pair i turns by base^(-2i / dims) a position */
    float scale;            /* of all frequencies */
    float magnitude;        /* of cos and sin */
    const DLTensor *factor; /* NULL, or (dims / 2) f32: frequencies are divided by it */
    /* YaRN (spec/ops/rope.md); extrapolation 0: none. */
    float extrapolation, beta_fast, beta_slow;
    int64_t original_context;
    samebits_rope_sections sections;
    int64_t section[4]; /* pairs of each; with sections only */
    int inverse;        /* not 0: turn back */
} samebits_rope_params;

/* Halves, all dims, base 10000, scale 1, magnitude 1, no factor, no YaRN (beta_fast 32, beta_slow 1), no sections. */
SAMEBITS_API void samebits_rope_params_default(samebits_rope_params *params);

/* Turns each pair of a row by its position.
 * Shapes: x (..., L, D), 2 to 8 dims; position (L), or (B, L) with B the size of x's first of 3 or more dims, or (4, L)
 *   with sections; int32. out as x, which it may be. dtypes f32, f16, bf16; out x's dtype or f32; any strides >= 0.
 * Order: portable-1, spec/ops/rope.md. The cos and sin of a pair follow from its position alone.
 * Ownership: nothing is kept. params may be NULL (defaults).
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, PARAM (base not positive, dims odd or too large,
 *   numbers that are not finite, unknown layout or sections), MEMORY; out is then untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_rope(samebits_context *context, const DLTensor *x, const DLTensor *position,
                                           const samebits_rope_params *params, DLTensor *out);

#ifdef __cplusplus
}
#endif
#endif
