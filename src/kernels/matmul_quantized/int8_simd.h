/* int8-1 in vectors: a lane is a column, each 32-bit word of x (4 quants of one row) meets the 4 bytes a lane that a
 * plane of a panel holds.
 *
 * Sums of a step are exact integers, so any way of adding them is the order's. With VNNI, and with Arm's dot products,
 * a lane adds up in int32. AVX2 and NEON add pairs of int16 modulo 2^16: the products have unsigned weights (at most
 * 63, so a pair is at most 2 * 63 * 127 < 2^15), the sum starts from -offset * (sum of the quants), and so what must
 * fit is only the sum with the offset taken off: 16 * 127 * 16 = 32,512 for Q5 over 32 weights and for Q6 over 16, less
 * for the others. The bytes of Q8_0 and IQ4_NL do not fit, Arm's dot products want signed ones: they have a way of
 * their own. */
#ifndef SB_INT8_SIMD_H
#define SB_INT8_SIMD_H

#include "kernels/matmul_quantized/int8.h"
#include "kernels/matmul_quantized/matmul_quantized.h"
#include "kernels/matmul_quantized/panel_simd.h"

#define MAX_VECTORS  4
#define MAX_ROWS     8
#define CHUNK_STEPS  16 /* steps of a panel that are decoded at once for many rows */
#define STREAM_TILES 4  /* up to this many tiles of rows it is best to read each panel from beginning to end */

#if SB_VL == 16
#define SB_CASES(X)      X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define FEW_CASES(X)     X(1) X(2) X(3) X(4)
#define FEW_PANELS(rows) ((rows) <= 1 ? 4 : 2)
#define TILE_PANELS      2
#else
#define SB_CASES(X)      X(1) X(2) X(3) X(4)
#define FEW_CASES(X)     SB_CASES(X)
#define FEW_PANELS(rows) ((rows) <= 2 ? 2 : 1)
#define TILE_PANELS      1
#endif

#if defined(SB_DOT4_MAX)
#define PAIRS        0
#define SIGNED_BYTES (SB_DOT4_MAX < 255) /* unsigned bytes do not fit */
SB_INLINE vi dot(vi sum, vi u, vi s) { return vi_dot4(sum, u, s); }
SB_INLINE vi total(vi sum) { return sum; }
SB_INLINE vi scaled(vi sum, vi scale) { return vi_mul(sum, scale); }
SB_INLINE vi scale_lanes(vi scale) { return scale; }
#else
#define PAIRS        1 /* a lane of a sum is two int16 */
#define SIGNED_BYTES 1
SB_INLINE vi dot(vi sum, vi u, vi s) { return vi_dot2x2(sum, u, s); }
SB_INLINE vi total(vi sum) { return vi_madd16(sum, vi_set1(0x00010001)); }
SB_INLINE vi scaled(vi sum, vi scale) { return vi_madd16(sum, scale); }
SB_INLINE vi scale_lanes(vi scale) { return vi_or(vi_and(scale, vi_set1(0xFFFF)), vi_shl(scale, 16)); }
#endif

/* Two scales a step: two sums one after the other. */
SB_INLINE int parts(samebits_format f) { return sb_quant_parts(f); }
SB_INLINE int has_two_integers(samebits_format f) { return parts(f) == 2 && !sb_quant_has_e4m3(f); }
SB_INLINE int has_two_mins(samebits_format f) { return sb_quant_has_min(f) && parts(f) == 2; }
/* Whether decoded weights lie as matrix products of bytes want them: two planes' words in turn. */
#if defined(SB_HAS_MMLA)
#define MMLA 1
#else
#define MMLA 0
#endif
/* Bytes are read as they lie; the others are decoded to bytes once when there are many rows. */
SB_INLINE int has_decoded(samebits_format f) { return MMLA || sb_quant_low_bits(f) != 8; }

/* Two scales become lanes that a sum is multiplied with, two minima the int16 of a lane. */
SB_INLINE step_scales read_int8_scales(samebits_format f, sb_group group, const uint8_t *scales, int64_t step, int c)
{
    step_scales r = read_scales(f, group, scales, step, c);
    if (has_two_integers(f))
        for (int h = 0; h < 2; h++) r.s[h] = scale_lanes(r.s[h]);
    if (has_two_mins(f)) r.n[0] = vi_or(r.n[0], vi_shl(r.n[1], 16));
    return r;
}

/* A chunk of a panel, decoded. */
typedef struct {
    uint8_t w[CHUNK_STEPS * 8 * SB_PLANE];
    float d[CHUNK_STEPS][SB_PANEL], m[CHUNK_STEPS][SB_PANEL]; /* or the scales of both halves */
    int32_t s[CHUNK_STEPS][2][SB_PANEL], n[CHUNK_STEPS][SB_PANEL];
} __attribute__((aligned(64))) chunk;

/* Where a step's weights are read from: the panel itself, or a decoded chunk. */
typedef struct {
    const uint8_t *quants, *scales; /* the panel's streams */
    const chunk *decoded;           /* what is_decoded below, a constant, chooses */
    sb_group group;
} source;

SB_INLINE step_scales load_scales(samebits_format f, int is_decoded, const source *from, int64_t step, int c)
{
    if (!is_decoded) return read_int8_scales(f, from->group, from->scales, step, c);
    step_scales r = {.d = vf_load(from->decoded->d[step] + c)};
    if (sb_quant_has_e4m3(f)) {
        r.h[0] = r.d;
        r.h[1] = vf_load(from->decoded->m[step] + c);
    }
    if (sb_quant_has_min(f)) r.m = vf_load(from->decoded->m[step] + c);
    if (has_two_integers(f)) {
        r.s[0] = vi_load(from->decoded->s[step][0] + c);
        r.s[1] = vi_load(from->decoded->s[step][1] + c);
    }
    if (has_two_mins(f)) r.n[0] = vi_load(from->decoded->n[step] + c);
    return r;
}

SB_INLINE vi load_plane(samebits_format f, int is_decoded, const source *from, int64_t step, int half, int z, int c)
{
    if (!is_decoded) return read_plane(f, from->quants + step * sb_quant_step_bytes(f) + 4 * c, half, z);
    return vi_load(from->decoded->w + (step * 8 + 4 * half + z) * SB_PLANE + 4 * c);
}

/* Bytes without VNNI are made signed: their products stay within int16, pair by pair, and are added up as int32. */
SB_INLINE int is_signed(samebits_format f)
{
    return SIGNED_BYTES && (sb_quant_offset(f) == 128 || sb_centre(f) == 128);
}
SB_INLINE int is_centred(samebits_format f) { return is_signed(f) ? sb_centre(f) == 128 : PAIRS && sb_centre(f); }
/* 6 bits without an offset in pairs: two products fit int16, the sum of all does not. */
SB_INLINE int is_wide(samebits_format f) { return PAIRS && f == SAMEBITS_FORMAT_AFFINE_6; }
SB_INLINE int starts_at_zero(samebits_format f)
{
    return is_signed(f) || is_wide(f) || (sb_quant_offset(f) == 0 && !is_centred(f));
}

SB_INLINE vi dot_weights(samebits_format f, vi sum, vi w, vi x)
{
#if SIGNED_BYTES
    if (is_signed(f)) return vi_dot4_signed(sum, vi_xor(w, vi_set1((int32_t)0x80808080)), x);
    if (is_wide(f)) return vi_dot4_signed(sum, w, x);
#else
    (void)f;
#endif
    return dot(sum, w, x);
}

SB_INLINE int32_t word(const float *record, int index)
{
    int32_t w;
    memcpy(&w, record + index, sizeof w);
    return w;
}

/* A sum of the integers of a step, as isum of the order; with two scales one part of it. */
SB_INLINE vi finish_sum(samebits_format f, vi sum, const step_scales *scales, int part, int rows, const float *record,
                        int r)
{
    if (has_two_integers(f)) return scaled(sum, scales->s[part]);
    const vi whole = is_signed(f) || is_wide(f) ? sum : total(sum);
    return is_centred(f) ? vi_add(whole, vi_set1(word(record, (SB_X_START + 1) * rows + r))) : whole;
}

/* Adds up one part of a step: sum += w . x. */
SB_INLINE void part_sums(samebits_format f, int is_decoded, int rows, int vectors, const source *from, int64_t step,
                         const float *record, int part, vi sum[MAX_ROWS][MAX_VECTORS])
{
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++)
        sum[r][v] = vi_set1(starts_at_zero(f) ? 0 : word(record, (SB_X_START + part) * rows + r));
    SB_UNROLL
    for (int n = 0; n < 8 / parts(f); n++) {
        /* Both halves of a plane in turn, or all of one half where each half has its scale. */
        const int half = parts(f) == 2 ? part : n % 2, z = parts(f) == 2 ? n : n / 2;
        vi w[MAX_VECTORS];
        SB_UNROLL
        for (int v = 0; v < vectors; v++)
            w[v] = load_plane(f, is_decoded, from + v / PANEL_VECTORS, step, half, z, v % PANEL_VECTORS * SB_VL);
        SB_UNROLL
        for (int r = 0; r < rows; r++) {
            const vi x = vi_set1(word(record, (4 * half + z) * rows + r));
            SB_UNROLL
            for (int v = 0; v < vectors; v++) sum[r][v] = dot_weights(f, sum[r][v], w[v], x);
        }
    }
}

#if MMLA
/* part_sums of a decoded step, two rows at a time; an odd last row meets itself, and its second sum is dropped. */
SB_INLINE void part_products(samebits_format f, int rows, int vectors, const source *from, int64_t step,
                             const float *record, int part, vi sum[MAX_ROWS][MAX_VECTORS])
{
    SB_UNROLL
    for (int r = 0; r < rows; r += 2) {
        const int start = (SB_X_START + part) * rows + r, second = r + 1 < rows;
        const int32_t a = starts_at_zero(f) ? 0 : word(record, start), b = second ? word(record, start + 1) : a;
        SB_UNROLL
        for (int v = 0; v < vectors; v++) vi_tangle(a, starts_at_zero(f) ? 0 : b, &sum[r][v], &sum[r + 1][v]);
    }
    SB_UNROLL
    for (int n = 8 / parts(f) * part; n < 8 / parts(f) * (part + 1); n += 2) SB_UNROLL
    for (int r = 0; r < rows; r += 2) {
        const float *first = record + n * rows + r;
        const int8x16_t x = r + 1 < rows ? v_two_rows(first, first + rows)
                                         : v_one_row(word(record, n * rows + r), word(record, (n + 1) * rows + r));
        SB_UNROLL
        for (int v = 0; v < vectors; v++)
            vi_mmla(&sum[r][v], &sum[r + 1][v], x,
                    from[v / PANEL_VECTORS].decoded->w + (step * 8 + n) * SB_PLANE + v % PANEL_VECTORS * 8 * SB_VL);
    }
    SB_UNROLL
    for (int r = 0; r < rows; r += 2) SB_UNROLL
    for (int v = 0; v < vectors; v++) vi_untangle(&sum[r][v], &sum[r + 1][v]);
}
#endif

/* Adds up one step of `rows` rows and `vectors` vectors, the records of x at `record`: isum of the order; with scales
 * that are floats t of the order, as bits. */
SB_INLINE void step_sums(samebits_format f, int is_decoded, int rows, int vectors, const source *from, int64_t step,
                         const float *record, const step_scales scales[MAX_VECTORS], vi isum[MAX_ROWS][MAX_VECTORS])
{
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) isum[r][v] = vi_set1(0);
    SB_UNROLL
    for (int part = 0; part < parts(f); part++) {
        vi sum[MAX_ROWS][MAX_VECTORS];
#if MMLA
        if (is_decoded)
            part_products(f, rows, vectors, from, step, record, part, sum);
        else
#endif
            part_sums(f, is_decoded, rows, vectors, from, step, record, part, sum);
        SB_UNROLL
        for (int r = 0; r < rows; r++) SB_UNROLL
        for (int v = 0; v < vectors; v++) {
            const vi more = finish_sum(f, sum[r][v], &scales[v], part, rows, record, r);
            if (sb_quant_has_e4m3(f) && part == 1)
                isum[r][v] =
                    vf_bits(vf_fma(vi_to_f(isum[r][v]), scales[v].h[0], vf_mul(vi_to_f(more), scales[v].h[1])));
            else
                isum[r][v] = vi_add(isum[r][v], more);
        }
    }
}

/* acc of one step more. */
SB_INLINE vf step_value(samebits_format f, vi isum, const step_scales *scales, int rows, const float *record, int r,
                        vf acc)
{
    vf t = sb_quant_has_e4m3(f) ? vi_as_f(isum) : vi_to_f(isum);
    if (has_two_mins(f)) {
        const vi sums = vi_set1(word(record, SB_X_START * rows + r));
        t = vf_fms(t, scales->d, vf_mul(vi_to_f(vi_madd16(scales->n[0], sums)), scales->m));
    } else if (sb_quant_has_min(f))
        t = vf_fms(t, scales->d, vf_mul(vf_set1(record[SB_X_SUM * rows + r]), scales->m));
    else if (!sb_quant_has_e4m3(f))
        t = vf_mul(t, scales->d);
    return vf_fma(t, vf_set1(record[SB_X_SCALE * rows + r]), acc);
}

/* All of k for one tile of rows, straight from the panels, sums in registers. */
SB_INLINE void few_rows(samebits_format f, int rows, int panels, int64_t apart, const sb_matmul_args *a, int64_t panel)
{
    const int vectors = panels * PANEL_VECTORS;
    source from[MAX_VECTORS];
    SB_UNROLL
    for (int p = 0; p < panels; p++) {
        const uint8_t *start = a->w + (panel + p * apart) * a->panel_size;
        from[p] = (source){start, sb_quant_scales(f, start, a->k), NULL, a->group};
    }
    vf acc[MAX_ROWS][MAX_VECTORS];
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) acc[r][v] = vf_zero();
    for (int64_t s = 0; s < a->k / SB_STEP; s++) {
        const float *record = a->x + s * SB_X_DWORDS * rows;
        prefetch_step(f, panels, apart * a->panel_size, a, from[0].quants, s);
        step_scales scales[MAX_VECTORS];
        SB_UNROLL
        for (int v = 0; v < vectors; v++)
            scales[v] = load_scales(f, 0, from + v / PANEL_VECTORS, s, v % PANEL_VECTORS * SB_VL);
        vi isum[MAX_ROWS][MAX_VECTORS];
        step_sums(f, 0, rows, vectors, from, s, record, scales, isum);
        SB_UNROLL
        for (int v = 0; v < vectors; v++) SB_UNROLL
        for (int r = 0; r < rows; r++) acc[r][v] = step_value(f, isum[r][v], &scales[v], rows, record, r, acc[r][v]);
    }
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) {
        const int64_t column = (panel + v / PANEL_VECTORS * apart) * SB_PANEL + v % PANEL_VECTORS * SB_VL;
        vf_store(a->acc + r * a->acc_stride + column, acc[r][v]);
    }
}

/* Planes n and n + 1 of a step, decoded, for the columns from c. */
SB_INLINE void decode_planes(samebits_format f, const uint8_t *quants, int n, int c, uint8_t *out)
{
    const vi first = read_plane(f, quants + 4 * c, n / 4, n % 4),
             second = read_plane(f, quants + 4 * c, (n + 1) / 4, (n + 1) % 4);
#if MMLA
    const vi flip = vi_set1(is_signed(f) ? (int32_t)0x80808080 : 0);
    vi_store_zipped(out + n * SB_PLANE + 8 * c, vi_xor(first, flip), vi_xor(second, flip));
#else
    vi_store(out + n * SB_PLANE + 4 * c, first);
    vi_store(out + (n + 1) * SB_PLANE + 4 * c, second);
#endif
}

/* Decodes steps [begin, begin + count) of a panel. */
SB_INLINE void decode(samebits_format f, const source *panel, int64_t begin, int count, chunk *out)
{
    for (int s = 0; s < count; s++) {
        const uint8_t *quants = panel->quants + (begin + s) * sb_quant_step_bytes(f);
        SB_UNROLL
        for (int c = 0; c < SB_PANEL; c += SB_VL) {
            SB_UNROLL
            for (int n = 0; n < 8; n += 2) decode_planes(f, quants, n, c, out->w + s * 8 * SB_PLANE);
            const step_scales scales = load_scales(f, 0, panel, begin + s, c);
            vf_store(out->d[s] + c, sb_quant_has_e4m3(f) ? scales.h[0] : scales.d);
            if (sb_quant_has_e4m3(f)) vf_store(out->m[s] + c, scales.h[1]);
            if (sb_quant_has_min(f)) vf_store(out->m[s] + c, scales.m);
            if (has_two_integers(f)) {
                vi_store(out->s[s][0] + c, scales.s[0]);
                vi_store(out->s[s][1] + c, scales.s[1]);
            }
            if (has_two_mins(f)) vi_store(out->n[s] + c, scales.n[0]);
        }
    }
}

/* A chunk of up to TILE_PANELS panels, and the rows that it meets. */
typedef struct {
    const sb_matmul_args *a;
    source from[TILE_PANELS];
    int64_t panel, begin;              /* first panel, first step */
    int64_t start;                     /* the first step's place in `from` */
    int count;                         /* steps */
    const uint8_t *ahead[TILE_PANELS]; /* the chunk that comes next, */
    int step_bytes;                    /* and how much of it a step of this one brings into cache */
} chunk_job;

/* The job's steps for one tile of rows: acc += . */
SB_INLINE void tile_chunk(samebits_format f, int rows, int panels, int fetches, const chunk_job *job, const float *x,
                          float *acc, int64_t acc_stride)
{
    const int vectors = panels * PANEL_VECTORS, first = job->begin == 0;
    const int64_t begin = job->start;
    const source *from = job->from;
    for (int s = 0; s < job->count; s++) {
        for (int i = 0; fetches && i < job->step_bytes; i += 64) SB_UNROLL
        for (int p = 0; p < panels; p++) v_prefetch(job->ahead[p] + s * job->step_bytes + i);
        const float *record = x + s * SB_X_DWORDS * rows;
        step_scales scales[MAX_VECTORS];
        SB_UNROLL
        for (int v = 0; v < vectors; v++)
            scales[v] = load_scales(f, has_decoded(f), from + v / PANEL_VECTORS, begin + s, v % PANEL_VECTORS * SB_VL);
        vi isum[MAX_ROWS][MAX_VECTORS];
        step_sums(f, has_decoded(f), rows, vectors, from, begin + s, record, scales, isum);
        SB_UNROLL
        for (int v = 0; v < vectors; v++) SB_UNROLL
        for (int r = 0; r < rows; r++) {
            float *out = acc + r * acc_stride + v * SB_VL;
            const vf old = first && s == 0 ? vf_zero() : vf_load(out);
            vf_store(out, step_value(f, isum[r][v], &scales[v], rows, record, r, old));
        }
    }
}

SB_INLINE void tile_rows(samebits_format f, int panels, const chunk_job *job)
{
    const sb_matmul_args *a = job->a;
    for (int64_t r = 0; r < a->rows; r += a->tile) {
        const int64_t height = SB_MIN(a->tile, a->rows - r);
        const float *x = a->x + (r * (a->k / SB_STEP) + job->begin * height) * SB_X_DWORDS;
        float *acc = a->acc + r * a->acc_stride + job->panel * SB_PANEL;
        switch (height) {
#define CASE(rows)                                                                                                     \
    case rows: tile_chunk(f, rows, panels, r == 0, job, x, acc, a->acc_stride); break;
            SB_CASES(CASE)
#undef CASE
        }
    }
}

/* Once decoded some formats are alike, so their tiles are compiled once. */
#define DEFINE_TILES(name, format)                                                                                     \
    static __attribute__((noinline)) void tile_rows_##name(int panels, const chunk_job *job)                           \
    {                                                                                                                  \
        if (TILE_PANELS == 1 || panels == TILE_PANELS)                                                                 \
            tile_rows(format, TILE_PANELS, job);                                                                       \
        else                                                                                                           \
            tile_rows(format, 1, job);                                                                                 \
    }
DEFINE_TILES(plain, SAMEBITS_FORMAT_Q4_0)
DEFINE_TILES(min, SAMEBITS_FORMAT_Q4_K)
#if PAIRS
DEFINE_TILES(min_centred, SAMEBITS_FORMAT_Q5_K)
DEFINE_TILES(min_wide, SAMEBITS_FORMAT_AFFINE_6)
#else
#define tile_rows_min_centred tile_rows_min
#define tile_rows_min_wide    tile_rows_min
#endif
#if SIGNED_BYTES
DEFINE_TILES(signed, SAMEBITS_FORMAT_IQ4_NL)
#else
#define tile_rows_signed tile_rows_plain
#endif
DEFINE_TILES(two_scales, SAMEBITS_FORMAT_Q6_K)
DEFINE_TILES(two_mins, SAMEBITS_FORMAT_Q2_K)
DEFINE_TILES(two_floats, SAMEBITS_FORMAT_NVFP4)
DEFINE_TILES(bytes, SAMEBITS_FORMAT_Q8_0)
DEFINE_TILES(bytes_min, SAMEBITS_FORMAT_AFFINE_8)

SB_INLINE void tile_rows_of(samebits_format f, int panels, const chunk_job *job)
{
    switch (f) {
    case SAMEBITS_FORMAT_AFFINE_2:
    case SAMEBITS_FORMAT_AFFINE_3:
    case SAMEBITS_FORMAT_AFFINE_4:
    case SAMEBITS_FORMAT_Q4_1:
    case SAMEBITS_FORMAT_Q4_K: tile_rows_min(panels, job); break;
    case SAMEBITS_FORMAT_AFFINE_5:
    case SAMEBITS_FORMAT_Q5_1:
    case SAMEBITS_FORMAT_Q5_K: tile_rows_min_centred(panels, job); break;
    case SAMEBITS_FORMAT_AFFINE_6: tile_rows_min_wide(panels, job); break;
    case SAMEBITS_FORMAT_AFFINE_8: tile_rows_bytes_min(panels, job); break;
    case SAMEBITS_FORMAT_Q2_K: tile_rows_two_mins(panels, job); break;
    case SAMEBITS_FORMAT_Q3_K:
    case SAMEBITS_FORMAT_Q6_K: tile_rows_two_scales(panels, job); break;
    case SAMEBITS_FORMAT_NVFP4:
    case SAMEBITS_FORMAT_MLX_NVFP4: tile_rows_two_floats(panels, job); break;
    case SAMEBITS_FORMAT_Q8_0: tile_rows_bytes(panels, job); break;
    case SAMEBITS_FORMAT_IQ4_NL: tile_rows_signed(panels, job); break;
    default: tile_rows_plain(panels, job);
    }
}

/* One chunk of up to TILE_PANELS panels for all rows; next_panel and next_begin say which comes next. */
SB_INLINE void chunk_rows(samebits_format f, const sb_matmul_args *a, int64_t panel, int64_t begin, int64_t next_panel,
                          int64_t next_begin)
{
    const int panels = (int)SB_MIN(TILE_PANELS, a->panels - panel);
    const int count = (int)SB_MIN(CHUNK_STEPS, a->k / SB_STEP - begin);
    chunk decoded[TILE_PANELS];
    chunk_job job = {.a = a,
                     .panel = panel,
                     .begin = begin,
                     .start = has_decoded(f) ? 0 : begin,
                     .count = count,
                     .step_bytes = sb_quant_step_bytes(f)};
    for (int p = 0; p < panels; p++) {
        const uint8_t *w = a->w + (panel + p) * a->panel_size;
        job.ahead[p] = a->w + (next_panel + p) * a->panel_size + next_begin * sb_quant_step_bytes(f);
        job.from[p] = (source){w, sb_quant_scales(f, w, a->k), NULL, a->group};
        if (has_decoded(f)) {
            decode(f, &job.from[p], begin, count, &decoded[p]);
            job.from[p].decoded = &decoded[p];
        }
    }
    tile_rows_of(f, panels, &job);
}

DEFINE_FEW_ROWS_ALL

SB_INLINE void matmul_int8(samebits_format f, const sb_matmul_args *a)
{
    if (a->rows <= a->tile && few_rows_all(f, a)) return;
    if (!a->k)
        for (int64_t r = 0; r < a->rows; r++)
            memset(a->acc + r * a->acc_stride, 0, (size_t)a->panels * SB_PANEL * sizeof *a->acc);
    const int64_t steps = a->k / SB_STEP;
    if (a->rows <= STREAM_TILES * a->tile) {
        for (int64_t p = 0; p < a->panels; p += TILE_PANELS)
            for (int64_t begin = 0; begin < steps; begin += CHUNK_STEPS) {
                const int last = begin + CHUNK_STEPS >= steps;
                chunk_rows(f, a, p, begin, last ? p + TILE_PANELS : p, last ? 0 : begin + CHUNK_STEPS);
            }
        return;
    }
    for (int64_t begin = 0; begin < steps; begin += CHUNK_STEPS)
        for (int64_t p = 0; p < a->panels; p += TILE_PANELS) {
            const int last = p + TILE_PANELS >= a->panels;
            chunk_rows(f, a, p, begin, last ? 0 : p + TILE_PANELS, last ? begin + CHUNK_STEPS : begin);
        }
}

#endif
