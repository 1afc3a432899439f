/* Reading panels of GGUF blocks in vectors: a lane is a column (formats/gguf.h). */
#ifndef SB_PANEL_SIMD_H
#define SB_PANEL_SIMD_H

#include "base/simd.h"
#include "formats/gguf.h"

#define PANEL_VECTORS (SB_PANEL / SB_VL)

SB_INLINE vi low_nibbles(vi v) { return vi_and(v, vi_set1(0x0F0F0F0F)); }
SB_INLINE vi shifted(vi v, int left) { return left > 0 ? vi_shl(v, left) : left < 0 ? vi_shr(v, -left) : v; }

/* The weights 16 * half + 4z + i of a step, unsigned, as they lie in a panel. */
SB_INLINE vi read_plane(samebits_format f, const uint8_t *step, int half, int z)
{
    if (f == SAMEBITS_FORMAT_Q8_0) return vi_load(step + (4 * half + z) * SB_PLANE);
    const vi v = vi_load(step + z * SB_PLANE), low = low_nibbles(half ? vi_shr(v, 4) : v);
    if (sb_gguf_high_bits(f) == 1)
        return vi_or(low, vi_and(shifted(vi_load(step + 4 * SB_PLANE), 4 - z - 4 * half), vi_set1(0x10101010)));
    if (sb_gguf_high_bits(f) == 2)
        return vi_or(low, vi_and(shifted(vi_load(step + (4 + half) * SB_PLANE), 4 - 2 * z), vi_set1(0x30303030)));
    return low;
}

/* The scales of one step and the vector of columns from c. */
typedef struct {
    vf d, m; /* factor of the weights, and the minimum (Q4_K, Q5_K) */
    vi s[2]; /* Q6_K: what d is still to be multiplied with, for each half of the step */
} step_scales;

/* `scales` is the panel's stream. Products of d and dmin with scales are exact. */
SB_INLINE step_scales read_scales(samebits_format f, const uint8_t *scales, int64_t step, int c)
{
    const uint8_t *block = scales + step / sb_gguf_steps(f) * sb_gguf_scale_bytes(f);
    const int s = (int)(step % sb_gguf_steps(f));
    step_scales r = {.d = vf_load_f16((const uint16_t *)block + c)};
    if (sb_gguf_has_min(f)) {
        const uint8_t *bytes = block + 4 * SB_PANEL + s * 2 * SB_PANEL + c;
        r.d = vf_mul(r.d, vi_to_f(vi_load_u8(bytes)));
        r.m = vf_mul(vf_load_f16((const uint16_t *)block + SB_PANEL + c), vi_to_f(vi_load_u8(bytes + SB_PANEL)));
    } else if (f == SAMEBITS_FORMAT_Q6_K) {
        const uint8_t *bytes = block + 2 * SB_PANEL + s * 2 * SB_PANEL + c;
        r.s[0] = vi_load_i8(bytes);
        r.s[1] = vi_load_i8(bytes + SB_PANEL);
    }
    return r;
}

#endif
