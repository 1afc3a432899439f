/* int8-1 in vectors: a lane is a column, each 32-bit word of x (4 quants of one row) meets the 4 bytes a lane that a
 * plane of a panel holds.
 *
 * Sums of a step are exact integers, so any way of adding them is the order's. On AVX2 products are added in pairs
 * of int16 modulo 2^16: what must fit is the step's final sum without the format's offset, which is subtracted at the
 * start, 16 * 2 * 127 * 16 = 65,024 in two halves for the widest, Q5. Weights without offset are unsigned, so no
 * pair saturates: 2 * 63 * 127 < 2^15. Q8_0 is split into nibbles for that. */
#ifndef SB_INT8_SIMD_H
#define SB_INT8_SIMD_H

#include "base/simd.h"
#include "kernels/matmul_quantized/int8.h"
#include "kernels/matmul_quantized/matmul_quantized.h"

#define PANEL_VECTORS (SB_PANEL / SB_VL)
#define MAX_VECTORS 8
#define MAX_ROWS 12
#define CHUNK_STEPS 16 /* steps of a panel that are decoded at once for many rows */
#define PREFETCH 1024  /* bytes ahead */

/* Sums a step and row: Q6_K has one for each of its two scales, Q8_0 one for each nibble. */
SB_INLINE int sums(samebits_format f) { return f == SAMEBITS_FORMAT_Q6_K || f == SAMEBITS_FORMAT_Q8_0 ? 2 : 1; }
/* Planes a step, as the sums take them: Q8_0 has its low nibbles, then its high ones. */
SB_INLINE int planes(samebits_format f) { return f == SAMEBITS_FORMAT_Q8_0 ? 16 : 8; }

SB_INLINE vi low_nibbles(vi v) { return vi_and(v, vi_set1(0x0F0F0F0F)); }
SB_INLINE vi high_nibbles(vi v) { return low_nibbles(vi_shr(v, 4)); }
SB_INLINE vi shifted(vi v, int left) { return left > 0 ? vi_shl(v, left) : left < 0 ? vi_shr(v, -left) : v; }

/* Planes `z` and `z + planes / 2` of a step: unsigned weights, one byte each. */
SB_INLINE void read_planes(samebits_format f, const uint8_t *step, int z, vi w[2])
{
    const vi v = vi_load(step + z * SB_PLANE);
    w[0] = low_nibbles(v);
    w[1] = high_nibbles(v);
    if (sb_gguf_high_bits(f) == 1) {
        const vi high = vi_load(step + 4 * SB_PLANE), bit = vi_set1(0x10101010);
        w[0] = vi_or(w[0], vi_and(shifted(high, 4 - z), bit));
        w[1] = vi_or(w[1], vi_and(shifted(high, -z), bit));
    } else if (sb_gguf_high_bits(f) == 2) {
        const vi bits = vi_set1(0x30303030);
        w[0] = vi_or(w[0], vi_and(shifted(vi_load(step + 4 * SB_PLANE), 4 - 2 * z), bits));
        w[1] = vi_or(w[1], vi_and(shifted(vi_load(step + 5 * SB_PLANE), 4 - 2 * z), bits));
    }
}

/* The scales of one step and vector. */
typedef struct {
    vf d, m; /* factors of the weights' and of the activations' sum; m for Q4_K and Q5_K */
    vi s[2]; /* Q6_K: the two scales, each twice a lane as int16 */
} step_scales;

SB_INLINE vi as_pair(vi a) { return vi_or(vi_and(a, vi_set1(0xFFFF)), vi_shl(a, 16)); }

/* From a panel: `scales` is the block's, `s` the step within the block, c the vector's first column. */
SB_INLINE step_scales read_scales(samebits_format f, const uint8_t *scales, int64_t s, int c)
{
    step_scales r = {.d = vf_load_f16((const uint16_t *)scales + c)};
    if (sb_gguf_has_min(f)) {
        const uint8_t *bytes = scales + 4 * SB_PANEL + s * 2 * SB_PANEL + c;
        r.d = vf_mul(r.d, vi_to_f(vi_load_u8(bytes)));
        r.m = vf_mul(vf_load_f16((const uint16_t *)scales + SB_PANEL + c), vi_to_f(vi_load_u8(bytes + SB_PANEL)));
    } else if (f == SAMEBITS_FORMAT_Q6_K) {
        const uint8_t *bytes = scales + 2 * SB_PANEL + s * 2 * SB_PANEL + c;
        r.s[0] = as_pair(vi_load_i8(bytes));
        r.s[1] = as_pair(vi_load_i8(bytes + SB_PANEL));
    }
    return r;
}

/* A chunk of a panel, decoded. */
typedef struct {
    uint8_t w[CHUNK_STEPS * 16 * SB_PLANE];
    float d[CHUNK_STEPS][SB_PANEL], m[CHUNK_STEPS][SB_PANEL];
    int32_t s[CHUNK_STEPS][2][SB_PANEL];
} __attribute__((aligned(64))) chunk;

/* Where a step's weights are read from: the panel itself, or a decoded chunk. */
typedef struct {
    const uint8_t *quants, *scales; /* the panel's streams */
    const chunk *decoded;           /* or NULL */
} source;

SB_INLINE step_scales load_scales(samebits_format f, const source *from, int64_t step, int c)
{
    if (!from->decoded)
        return read_scales(f, from->scales + step / sb_gguf_steps(f) * sb_gguf_scale_bytes(f), step % sb_gguf_steps(f), c);
    step_scales r = {.d = vf_load(from->decoded->d[step] + c)};
    if (sb_gguf_has_min(f)) r.m = vf_load(from->decoded->m[step] + c);
    if (f == SAMEBITS_FORMAT_Q6_K) {
        r.s[0] = vi_load(from->decoded->s[step][0] + c);
        r.s[1] = vi_load(from->decoded->s[step][1] + c);
    }
    return r;
}

/* Plane z and its partner, for the vector at column c. */
SB_INLINE void load_planes(samebits_format f, const source *from, int64_t step, int z, int c, vi w[2])
{
    if (!from->decoded) {
        read_planes(f, from->quants + step * sb_gguf_step_bytes(f) + 4 * c, z, w);
        return;
    }
    const uint8_t *p = from->decoded->w + (step * planes(f) + z) * SB_PLANE + 4 * c;
    w[0] = vi_load(p);
    w[1] = vi_load(p + planes(f) / 2 * SB_PLANE);
}

SB_INLINE int32_t word(const float *record, int index)
{
    int32_t w;
    memcpy(&w, record + index, sizeof w);
    return w;
}

/* Adds up one step for `rows` rows and `vectors` vectors: sum[row][vector] of `rows` records at `record`. */
SB_INLINE void step_sums(samebits_format f, int rows, int vectors, const source *from, int64_t step, const float *record,
                         vi sum[MAX_ROWS][MAX_VECTORS][2])
{
    SB_UNROLL for (int r = 0; r < rows; r++)
        SB_UNROLL for (int i = 0; i < sums(f); i++) {
            const int starts = f != SAMEBITS_FORMAT_Q4_K;
            const vi start = vi_set1(starts ? word(record, (SB_X_START + i) * rows + r) : 0);
            SB_UNROLL for (int v = 0; v < vectors; v++) sum[r][v][i] = start;
        }
    SB_UNROLL for (int z = 0; z < planes(f) / 2; z++) {
        vi w[MAX_VECTORS][2];
        SB_UNROLL for (int v = 0; v < vectors; v++)
            load_planes(f, from + v / PANEL_VECTORS, step, z, v % PANEL_VECTORS * SB_VL, w[v]);
        SB_UNROLL for (int i = 0; i < 2; i++)
            SB_UNROLL for (int r = 0; r < rows; r++) {
                /* Q8_0's two are the nibbles of the same weights, the others' are 16 weights apart. */
                const int word_index = f == SAMEBITS_FORMAT_Q8_0 ? z : z + 4 * i;
                const vi x = vi_set1(word(record, word_index * rows + r));
                SB_UNROLL for (int v = 0; v < vectors; v++) {
                    vi *out = &sum[r][v][sums(f) == 2 ? i : 0];
                    *out = vi_add16(*out, vi_dot2x2(w[v][i], x));
                }
            }
    }
}

/* t of one step: the integer sum times its scale, less the minimum's part. */
SB_INLINE vf step_value(samebits_format f, const vi sum[2], const step_scales *scales, int rows, const float *record, int r)
{
    const vi one = vi_set1(0x00010001);
    vi total;
    if (f == SAMEBITS_FORMAT_Q6_K)
        total = vi_add(vi_madd16(sum[0], scales->s[0]), vi_madd16(sum[1], scales->s[1]));
    else if (f == SAMEBITS_FORMAT_Q8_0)
        total = vi_add(vi_madd16(sum[0], one), vi_madd16(sum[1], vi_set1(0x00100010)));
    else
        total = vi_madd16(sum[0], one);
    if (f == SAMEBITS_FORMAT_Q5_K) total = vi_add(total, vi_set1(word(record, (SB_X_START + 1) * rows + r)));
    const vf t = vi_to_f(total);
    if (sb_gguf_has_min(f)) return vf_fms(t, scales->d, vf_mul(vf_set1(record[SB_X_SUM * rows + r]), scales->m));
    return vf_mul(t, scales->d);
}

/* All of k for one tile of rows, straight from the panels, sums in registers. */
SB_INLINE void few_rows(samebits_format f, int rows, int panels, const sb_matmul_args *a, int64_t panel)
{
    const int vectors = panels * PANEL_VECTORS;
    source from[MAX_VECTORS];
    SB_UNROLL for (int p = 0; p < panels; p++) {
        const uint8_t *start = a->w + (panel + p) * a->panel_size;
        from[p] = (source){start, sb_gguf_scales(f, start, a->k), NULL};
    }
    vf acc[MAX_ROWS][MAX_VECTORS];
    SB_UNROLL for (int r = 0; r < rows; r++)
        SB_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = vf_zero();
    for (int64_t s = 0; s < a->k / SB_STEP; s++) {
        const float *record = a->x + s * SB_X_DWORDS * rows;
        SB_UNROLL for (int p = 0; p < panels; p++)
            SB_UNROLL for (int i = 0; i < sb_gguf_step_bytes(f); i += 64)
                v_prefetch(from[p].quants + s * sb_gguf_step_bytes(f) + i + PREFETCH);
        vi sum[MAX_ROWS][MAX_VECTORS][2];
        step_sums(f, rows, vectors, from, s, record, sum);
        SB_UNROLL for (int v = 0; v < vectors; v++) {
            const step_scales scales = load_scales(f, from + v / PANEL_VECTORS, s, v % PANEL_VECTORS * SB_VL);
            SB_UNROLL for (int r = 0; r < rows; r++)
                acc[r][v] = vf_fma(step_value(f, sum[r][v], &scales, rows, record, r),
                                   vf_set1(record[SB_X_SCALE * rows + r]), acc[r][v]);
        }
    }
    SB_UNROLL for (int r = 0; r < rows; r++)
        SB_UNROLL for (int v = 0; v < vectors; v++)
            vf_store(a->acc + r * a->acc_stride + panel * SB_PANEL + v * SB_VL, acc[r][v]);
}

/* Decodes steps [begin, begin + count) of a panel. */
SB_INLINE void decode(samebits_format f, const uint8_t *panel, int64_t k, int64_t begin, int count, chunk *out)
{
    const uint8_t *quants = panel + begin * sb_gguf_step_bytes(f);
    const source from = {panel, sb_gguf_scales(f, panel, k), NULL};
    for (int s = 0; s < count; s++, quants += sb_gguf_step_bytes(f))
        SB_UNROLL for (int c = 0; c < SB_PANEL; c += SB_VL) {
            SB_UNROLL for (int z = 0; z < planes(f) / 2; z++) {
                vi w[2];
                v_prefetch(quants + z * SB_PLANE + 4096);
                read_planes(f, quants + 4 * c, z, w);
                uint8_t *p = out->w + (s * planes(f) + z) * SB_PLANE + 4 * c;
                vi_store(p, w[0]);
                vi_store(p + planes(f) / 2 * SB_PLANE, w[1]);
            }
            const step_scales scales = load_scales(f, &from, begin + s, c);
            vf_store(out->d[s] + c, scales.d);
            if (sb_gguf_has_min(f)) vf_store(out->m[s] + c, scales.m);
            if (f == SAMEBITS_FORMAT_Q6_K) {
                vi_store(out->s[s][0] + c, scales.s[0]);
                vi_store(out->s[s][1] + c, scales.s[1]);
            }
        }
}

/* `count` decoded steps for one tile of rows: acc += . */
SB_INLINE void tile_chunk(samebits_format f, int rows, int first, int count, const chunk *decoded, const float *x,
                          float *acc, int64_t acc_stride)
{
    const source from = {NULL, NULL, decoded};
    for (int s = 0; s < count; s++) {
        const float *record = x + s * SB_X_DWORDS * rows;
        vi sum[MAX_ROWS][MAX_VECTORS][2];
        step_sums(f, rows, PANEL_VECTORS, &from, s, record, sum);
        SB_UNROLL for (int v = 0; v < PANEL_VECTORS; v++) {
            const step_scales scales = load_scales(f, &from, s, v * SB_VL);
            SB_UNROLL for (int r = 0; r < rows; r++) {
                float *out = acc + r * acc_stride + v * SB_VL;
                const vf old = first && s == 0 ? vf_zero() : vf_load(out);
                vf_store(out, vf_fma(step_value(f, sum[r][v], &scales, rows, record, r),
                                     vf_set1(record[SB_X_SCALE * rows + r]), old));
            }
        }
    }
}

#define SB_CASES(X) X(1) X(2) X(3) X(4)
#define FEW_PANELS(rows) ((rows) <= 1 ? 2 : 1)

SB_INLINE void few_rows_all(samebits_format f, const sb_matmul_args *a)
{
    int64_t p = 0;
    switch (a->rows) {
#define CASE(rows)                                                                                         \
    case rows:                                                                                             \
        for (; p + FEW_PANELS(rows) <= a->panels; p += FEW_PANELS(rows)) few_rows(f, rows, FEW_PANELS(rows), a, p); \
        for (; p < a->panels; p++) few_rows(f, rows, 1, a, p);                                             \
        break;
        SB_CASES(CASE)
#undef CASE
    }
}

SB_INLINE void matmul_int8(samebits_format f, const sb_matmul_args *a)
{
    if (a->rows <= a->tile) {
        few_rows_all(f, a);
        return;
    }
    if (!a->k)
        for (int64_t r = 0; r < a->rows; r++)
            memset(a->acc + r * a->acc_stride, 0, (size_t)a->panels * SB_PANEL * sizeof *a->acc);
    const int64_t steps = a->k / SB_STEP;
    for (int64_t begin = 0; begin < steps; begin += CHUNK_STEPS) {
        const int count = (int)SB_MIN(CHUNK_STEPS, steps - begin);
        for (int64_t p = 0; p < a->panels; p++) {
            chunk decoded;
            decode(f, a->w + p * a->panel_size, a->k, begin, count, &decoded);
            for (int64_t r = 0; r < a->rows; r += a->tile) {
                const int64_t height = SB_MIN(a->tile, a->rows - r);
                const float *x = a->x + (r * steps + begin * height) * SB_X_DWORDS;
                float *acc = a->acc + r * a->acc_stride + p * SB_PANEL;
                switch (height) {
#define CASE(rows) \
    case rows: tile_chunk(f, rows, begin == 0, count, &decoded, x, acc, a->acc_stride); break;
                    SB_CASES(CASE)
#undef CASE
                }
            }
        }
    }
}

/* --- packing x ---------------------------------------------------------------------------------------- */

/* Two int16 in a word. */
SB_INLINE int32_t pair(int low, int high) { return (int32_t)(((uint32_t)low & 0xFFFFu) | (uint32_t)high << 16); }

/* The words from which the sums of a step start, see step_sums. */
SB_INLINE void starts(samebits_format f, const int8_t q[SB_STEP], int32_t xsum, int32_t start[2])
{
    int sum[2][2] = {{0, 0}, {0, 0}}; /* [half][which pair of a word] */
    for (int i = 0; i < SB_STEP; i++) sum[i / 16][i / 2 % 2] += q[i];
    const int low = sum[0][0] + sum[1][0], high = sum[0][1] + sum[1][1];
    start[0] = start[1] = 0;
    switch (f) {
    case SAMEBITS_FORMAT_Q4_0: start[0] = pair(-8 * low, -8 * high); break;
    case SAMEBITS_FORMAT_Q5_0: start[0] = pair(-16 * low, -16 * high); break;
    case SAMEBITS_FORMAT_Q8_0: start[1] = pair(-8 * low, -8 * high); break; /* 128 = 8 of the high nibble */
    case SAMEBITS_FORMAT_Q5_K:
        /* Only to stay within int16; added again after the sum. */
        start[0] = pair(-16 * low, -16 * high);
        start[1] = 16 * xsum;
        break;
    case SAMEBITS_FORMAT_Q6_K:
        for (int h = 0; h < 2; h++) start[h] = pair(-32 * sum[h][0], -32 * sum[h][1]);
        break;
    default: break;
    }
}

SB_INLINE void pack_int8(samebits_format f, const float *const *x, int rows, int64_t k, char *out)
{
    for (int64_t s = 0; s < k / SB_STEP; s++)
        for (int r = 0; r < rows; r++) {
            int8_t q[SB_STEP];
            const float scale = sb_quantize_step(x[r] + s * SB_STEP, q);
            int32_t xsum = 0, start[2];
            for (int i = 0; i < SB_STEP; i++) xsum += q[i];
            starts(f, q, xsum, start);
            const float sum = (float)xsum;
            char *record = out + 4 * (s * SB_X_DWORDS * rows + r);
            for (int z = 0; z < 8; z++) memcpy(record + 4 * z * rows, q + 4 * z, 4);
            memcpy(record + 4 * SB_X_SCALE * rows, &scale, 4);
            memcpy(record + 4 * SB_X_SUM * rows, &sum, 4);
            for (int i = 0; i < 2; i++) memcpy(record + 4 * (SB_X_START + i) * rows, &start[i], 4);
        }
}

#endif
