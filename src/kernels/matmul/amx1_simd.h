/* Order amx-1 in vectors, for machines without AMX: the floating-point environment flushes as the order says, since
 * x86 decides after rounding whether a result is subnormal. */
#ifndef SB_AMX1_SIMD_H
#define SB_AMX1_SIMD_H

#include "base/fpenv.h"
#include "base/simd.h"
#include "kernels/matmul/matmul.h"

#define MAX_ROWS    4
#define SB_CASES(X) X(1) X(2) X(3) X(4)

/* One tile of rows and one vector of columns. */
SB_INLINE void tile(int rows, const sb_matmul_args *a, const float *x, const uint16_t *w, float *acc)
{
    vf total[MAX_ROWS], even[MAX_ROWS], odd[MAX_ROWS];
    SB_UNROLL
    for (int r = 0; r < rows; r++) total[r] = vf_zero();
    for (int64_t k = 0; k < a->k; k += SB_AMX1_BLOCK) {
        const int64_t end = SB_MIN(k + SB_AMX1_BLOCK, a->k);
        SB_UNROLL
        for (int r = 0; r < rows; r++) even[r] = odd[r] = vf_zero();
        for (int64_t i = k; i < end; i += 2) {
            const vi pairs = vi_load(w + i * SB_PANEL);
            const vf b = vi_as_f(vi_shl(pairs, 16)), next = vi_as_f(vi_high_halves(pairs));
            SB_UNROLL
            for (int r = 0; r < rows; r++) even[r] = vf_fma(vf_set1(x[i * rows + r]), b, even[r]);
            if (i + 1 == end) break;
            SB_UNROLL
            for (int r = 0; r < rows; r++) odd[r] = vf_fma(vf_set1(x[(i + 1) * rows + r]), next, odd[r]);
        }
        /* What 0 * 0 in place of missing steps does: -0 becomes +0. */
        const int lacks_even = end - k < SB_AMX1_BLOCK - 1, lacks_odd = end - k < SB_AMX1_BLOCK;
        SB_UNROLL
        for (int r = 0; r < rows; r++) {
            if (lacks_even) even[r] = vf_add(even[r], vf_zero());
            if (lacks_odd) odd[r] = vf_add(odd[r], vf_zero());
            total[r] = vf_add(total[r], vf_add(even[r], odd[r]));
        }
    }
    SB_UNROLL
    for (int r = 0; r < rows; r++) vf_store(acc + r * a->acc_stride, total[r]);
}

/* Not inlined: no operation may leave the environment that is set around the call. */
static __attribute__((noinline)) void all_tiles(const sb_matmul_args *a)
{
    for (int64_t col = 0; col < a->panels * SB_PANEL; col += SB_VL)
        for (int64_t r = 0; r < a->rows; r += a->tile) {
            const uint16_t *w = (const uint16_t *)(a->w + col / SB_PANEL * a->panel_size) + 2 * (col % SB_PANEL);
            float *acc = a->acc + r * a->acc_stride + col;
            switch (SB_MIN(a->tile, a->rows - r)) {
#define CASE(rows)                                                                                                     \
    case rows: tile(rows, a, a->x + r * a->k, w, acc); break;
                SB_CASES(CASE)
#undef CASE
            }
        }
}

SB_INLINE void matmul_amx1(const sb_matmul_args *a)
{
    const sb_fpenv order = sb_fpenv_enter_flushing();
    all_tiles(a);
    sb_fpenv_leave(order);
}

#endif
