/* q.k for the SIMD rows: a lane is a key. K is turned into panels of SB_VL * 2 keys, widened to f32,
 * so that the chain over the columns stays in its lane (spec/order.md, section dot). */
#ifndef SB_DOTS_SIMD_H
#define SB_DOTS_SIMD_H

#include "base/simd.h"
#include "kernels/attention/attention.h"
#include "order/order.h"

#define PANEL_KEYS   (2 * SB_VL)
#define BLOCK_PANELS (SB_ATTENTION_BLOCK / PANEL_KEYS)
#if SB_VL == 16
#define MAX_DOT_ROWS     12
#define DOT_PANELS(rows) 1
#else
#define MAX_DOT_ROWS     6
#define DOT_PANELS(rows) ((rows) <= 2 ? 2 : 1)
#endif
#define MAX_DOT_VECTORS (2 * BLOCK_PANELS)

SB_INLINE int element_size(samebits_format f) { return f == SAMEBITS_FORMAT_F32 ? 4 : 2; }
SB_INLINE int is_contiguous(const sb_kv *kv)
{
    return sb_format_is_float(kv->format) && (kv->width < 2 || kv->col_stride == element_size(kv->format));
}

SB_INLINE float load_element(samebits_format f, const char *p)
{
    uint16_t h;
    float x;
    if (f == SAMEBITS_FORMAT_F32) {
        memcpy(&x, p, sizeof x);
        return x;
    }
    memcpy(&h, p, sizeof h);
    return f == SAMEBITS_FORMAT_F16 ? sb_from_f16(h) : sb_from_bf16(h);
}

SB_INLINE vf load_vector(samebits_format f, const char *p)
{
    if (f == SAMEBITS_FORMAT_F32) return vf_load((const float *)p);
    return f == SAMEBITS_FORMAT_F16 ? vf_load_f16((const uint16_t *)p) : vf_load_bf16((const uint16_t *)p);
}

/* A row of blocks that have no vector code of their own. */
static void widen_blocks(const sb_kv *kv, int64_t key, float *out)
{
    const sb_rows rows = {.format = kv->format, .data = kv->data, .k = kv->width, .row_stride = kv->row_stride};
    sb_row_values(&rows, key, out);
    for (int64_t i = kv->width; i % SB_ATTENTION_PAD; i++) out[i] = 0.0f;
}

/* One row to f32, padded with zeros to a multiple of SB_ATTENTION_PAD. The format is a constant. */
SB_INLINE void widen_row(samebits_format f, const sb_kv *kv, int64_t key, float *out)
{
    const char *row = kv->data + key * kv->row_stride;
    const int64_t width = kv->width;
    int64_t i = 0;
    if (f == SAMEBITS_FORMAT_Q8_0) {
        for (; i < width; i += 32, row += 34) {
            const vf d = vf_set1(load_element(SAMEBITS_FORMAT_F16, row));
            SB_UNROLL
            for (int e = 0; e < 32; e += SB_VL) vf_store(out + i + e, vf_mul(d, vi_to_f(vi_load_i8(row + 2 + e))));
        }
    } else {
        if (is_contiguous(kv))
            for (; i + SB_VL <= width; i += SB_VL) vf_store(out + i, load_vector(f, row + i * element_size(f)));
        for (; i < width; i++) out[i] = load_element(f, row + i * kv->col_stride);
    }
    for (; i % SB_ATTENTION_PAD; i++) out[i] = 0.0f;
}

static void widen_any(const sb_kv *kv, int64_t key, float *out)
{
    switch (kv->format) {
    case SAMEBITS_FORMAT_F16: widen_row(SAMEBITS_FORMAT_F16, kv, key, out); break;
    case SAMEBITS_FORMAT_BF16: widen_row(SAMEBITS_FORMAT_BF16, kv, key, out); break;
    case SAMEBITS_FORMAT_Q8_0: widen_row(SAMEBITS_FORMAT_Q8_0, kv, key, out); break;
    case SAMEBITS_FORMAT_F32: widen_row(SAMEBITS_FORMAT_F32, kv, key, out); break;
    default: widen_blocks(kv, key, out); break;
    }
}

/* Eight columns of 16 rows of 16-bit numbers, transposed: out[column] has rows 0..7, then 8..15. */
SB_INLINE void transpose_16(const char *const row[16], vh out[8])
{
    vh a[8], b[8];
    SB_UNROLL
    for (int i = 0; i < 8; i++) a[i] = vh_load_2(row[i], row[i + 8]);
    SB_UNROLL
    for (int i = 0; i < 4; i++) {
        b[2 * i] = vh_zip_low_16(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = vh_zip_high_16(a[2 * i], a[2 * i + 1]);
    }
    SB_UNROLL
    for (int i = 0; i < 2; i++) SB_UNROLL
    for (int h = 0; h < 2; h++) {
        a[4 * i + 2 * h] = vh_zip_low_32(b[4 * i + h], b[4 * i + 2 + h]);
        a[4 * i + 2 * h + 1] = vh_zip_high_32(b[4 * i + h], b[4 * i + 2 + h]);
    }
    SB_UNROLL
    for (int i = 0; i < 4; i++) {
        out[2 * i] = vh_zip_low_64(a[i], a[4 + i]);
        out[2 * i + 1] = vh_zip_high_64(a[i], a[4 + i]);
    }
}

/* Columns of 16 rows, one after the other: column[c][row], eight columns at most. */
SB_INLINE void transpose_columns(const char *const row[16], int64_t i, int64_t columns, uint16_t column[8][16])
{
    if (columns == 8) {
        const char *at[16];
        vh out[8];
        SB_UNROLL
        for (int e = 0; e < 16; e++) at[e] = row[e] + 2 * i;
        transpose_16(at, out);
        SB_UNROLL
        for (int c = 0; c < 8; c++) vh_store(column[c], out[c]);
    } else {
        for (int64_t c = 0; c < columns; c++)
            for (int e = 0; e < 16; e++) memcpy(&column[c][e], row[e] + 2 * (i + c), 2);
    }
}

/* The next rows come while these are used, a line of four rows every eight columns: 16 streams are more than the
 * hardware follows. */
SB_INLINE void prefetch_rows(const char *const row[16], int64_t i)
{
    const int64_t first = i / 8 % 4 * 4;
    for (int64_t e = first; e < first + 4; e++) v_prefetch(row[e] + i / 32 * 64);
}

/* Sixteen rows of 16-bit numbers into lanes of a panel: panel[column][PANEL_KEYS]. */
SB_INLINE void pack_16(samebits_format f, const char *const row[16], const char *const next[16], int64_t width,
                       float *panel)
{
    for (int64_t i = 0; i < width; i += 8) {
        uint16_t column[8][16];
        const int64_t columns = SB_MIN(8, width - i);
        prefetch_rows(next, i);
        transpose_columns(row, i, columns, column);
        for (int64_t c = 0; c < columns; c++) SB_UNROLL
        for (int v = 0; v < 16; v += SB_VL)
            vf_store(panel + (i + c) * PANEL_KEYS + v, load_vector(f, (const char *)&column[c][v]));
    }
}

/* Four rows of f32, likewise. */
SB_INLINE void pack_four(const float *const row[4], int64_t width, float *panel)
{
    int64_t i = 0;
    for (; i + 4 <= width; i += 4) {
        vq column[4];
        SB_UNROLL
        for (int e = 0; e < 4; e++) column[e] = vq_load(row[e] + i);
        vq_transpose(column);
        SB_UNROLL
        for (int e = 0; e < 4; e++) vq_store(panel + (i + e) * PANEL_KEYS, column[e]);
    }
    for (; i < width; i++)
        for (int e = 0; e < 4; e++) panel[i * PANEL_KEYS + e] = row[e][i];
}

/* Keys past the end of the list repeat the last one; their lanes are never used. */
SB_INLINE const char *key_row(const sb_kv *k, const int32_t *key, int64_t keys, int64_t j)
{
    return k->data + key[SB_MIN(j, keys - 1)] * k->row_stride;
}

SB_INLINE void key_rows(const sb_kv *k, const int32_t *key, int64_t keys, int64_t j, const char *row[16])
{
    for (int e = 0; e < 16; e++) row[e] = key_row(k, key, keys, j + e);
}

static void pack_panel(const sb_kv *k, const int32_t *key, int64_t keys, float *panel, float *wide)
{
    const int64_t wide_stride = sb_round_up(k->width, SB_ATTENTION_PAD);
    if (is_contiguous(k) && k->format != SAMEBITS_FORMAT_F32) {
        for (int64_t j = 0; j < PANEL_KEYS; j += 16) {
            const char *row[16], *next[16];
            key_rows(k, key, keys, j, row);
            key_rows(k, key, keys, j + 16, next);
            if (k->format == SAMEBITS_FORMAT_F16)
                pack_16(SAMEBITS_FORMAT_F16, row, next, k->width, panel + j);
            else
                pack_16(SAMEBITS_FORMAT_BF16, row, next, k->width, panel + j);
        }
        return;
    }
    for (int64_t j = 0; j < PANEL_KEYS; j += 4) {
        const float *row[4];
        for (int e = 0; e < 4; e++) {
            row[e] = wide + e * wide_stride;
            if (is_contiguous(k))
                row[e] = (const float *)(const void *)key_row(k, key, keys, j + e);
            else
                widen_any(k, key[SB_MIN(j + e, keys - 1)], wide + e * wide_stride);
        }
        pack_four(row, k->width, panel + j);
    }
}

/* rows x panels of dots. rows and panels are constants. */
SB_INLINE void dot_tile(int rows, int panels, int64_t width, const float *q, const float *panel, float *score,
                        int64_t score_stride)
{
    vf sum[MAX_DOT_ROWS][MAX_DOT_VECTORS], total[MAX_DOT_ROWS][MAX_DOT_VECTORS];
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < 2 * panels; v++) sum[r][v] = total[r][v] = vf_zero();
    for (int64_t begin = 0; begin < width; begin += SB_CHUNK) {
        const int64_t end = SB_MIN(begin + SB_CHUNK, width);
        SB_UNROLL
        for (int r = 0; r < rows; r++) SB_UNROLL
        for (int v = 0; v < 2 * panels; v++) sum[r][v] = vf_zero();
        for (int64_t i = begin; i < end; i++) {
            vf b[MAX_DOT_VECTORS];
            SB_UNROLL
            for (int v = 0; v < 2 * panels; v++)
                b[v] = vf_load(panel + (v / 2) * width * PANEL_KEYS + i * PANEL_KEYS + (v % 2) * SB_VL);
            SB_UNROLL
            for (int r = 0; r < rows; r++) {
                const vf a = vf_set1(q[r * width + i]);
                SB_UNROLL
                for (int v = 0; v < 2 * panels; v++) sum[r][v] = vf_fma(a, b[v], sum[r][v]);
            }
        }
        SB_UNROLL
        for (int r = 0; r < rows; r++) SB_UNROLL
        for (int v = 0; v < 2 * panels; v++) total[r][v] = begin ? vf_add(total[r][v], sum[r][v]) : sum[r][v];
    }
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < 2 * panels; v++) vf_store(score + r * score_stride + v * SB_VL, total[r][v]);
}

SB_INLINE void dot_rows(int rows, int64_t panels, int64_t width, const float *q, const float *panel, float *score,
                        int64_t score_stride)
{
    int64_t p = 0;
    for (; p + DOT_PANELS(rows) <= panels; p += DOT_PANELS(rows))
        dot_tile(rows, DOT_PANELS(rows), width, q, panel + p * width * PANEL_KEYS, score + p * PANEL_KEYS,
                 score_stride);
    for (; p < panels; p++)
        dot_tile(rows, 1, width, q, panel + p * width * PANEL_KEYS, score + p * PANEL_KEYS, score_stride);
}

#define DOT_CASES_6(X) X(1) X(2) X(3) X(4) X(5) X(6)
#if SB_VL == 16
#define DOT_CASES(X) DOT_CASES_6(X) X(7) X(8) X(9) X(10) X(11) X(12)
#else
#define DOT_CASES(X) DOT_CASES_6(X)
#endif

/* Largest finite |v| of a row of bf16. */
static float largest_of_bf16(const char *row, int64_t width)
{
    vh largest = vh_set1(0);
    for (int64_t i = 0; i < width; i += 16)
        largest = vh_max(largest, vh_up_to(vh_and(vh_load(row + 2 * i), vh_set1(INT16_MAX)), vh_set1(0x7F7F)));
    return sb_from_bf16(vh_largest(largest));
}

/* Largest finite |v| of a row. */
static float largest_of(const sb_kv *v, int64_t key, float *wide)
{
    if (v->format == SAMEBITS_FORMAT_BF16 && is_contiguous(v) && v->width % 16 == 0)
        return largest_of_bf16(v->data + key * v->row_stride, v->width);
    widen_any(v, key, wide);
    vi largest = vi_set1(0);
    for (int64_t i = 0; i < v->width; i += SB_VL) {
        const vi bits = vi_and(vf_bits(vf_load(wide + i)), vi_set1(INT32_MAX));
        largest = vi_max(largest, vi_and(bits, vf_bits(vf_select(vf_lt(vi_as_f(bits), vf_set1(INFINITY)),
                                                                 vi_as_f(vi_set1(-1)), vf_zero()))));
    }
    int32_t lane[SB_VL], top = 0;
    vi_store(lane, largest);
    for (int i = 0; i < SB_VL; i++) top = SB_MAX(top, lane[i]);
    return sb_float((uint32_t)top);
}

/* A few rows of q against 16-bit K: no panel, the columns go from the transpose to the chains. All but the
 * pointers, widths and counts are constants; `groups` of 16 keys give independent chains. */
SB_INLINE void dot_direct(samebits_format f, int rows, int groups, const sb_kv *k, const int32_t *key, int64_t keys,
                          const float *q, float *score, int64_t score_stride)
{
    enum { VECTORS = 16 / SB_VL };
    const char *row[2][16], *next[2][16];
    vf sum[4][2 * VECTORS], total[4][2 * VECTORS];
    for (int g = 0; g < groups; g++) {
        key_rows(k, key, keys, 16 * g, row[g]);
        key_rows(k, key, keys, 16 * (groups + g), next[g]);
    }
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < groups * VECTORS; v++) total[r][v] = vf_zero();
    for (int64_t begin = 0; begin < k->width; begin += SB_CHUNK) {
        const int64_t end = SB_MIN(begin + SB_CHUNK, k->width);
        SB_UNROLL
        for (int r = 0; r < rows; r++) SB_UNROLL
        for (int v = 0; v < groups * VECTORS; v++) sum[r][v] = vf_zero();
        for (int64_t i = begin; i < end; i += 8) {
            uint16_t column[2][8][16];
            const int64_t columns = SB_MIN(8, end - i);
            SB_UNROLL
            for (int g = 0; g < groups; g++) {
                prefetch_rows(next[g], i);
                transpose_columns(row[g], i, columns, column[g]);
            }
            for (int64_t c = 0; c < columns; c++) SB_UNROLL
            for (int v = 0; v < groups * VECTORS; v++) {
                const vf b = load_vector(f, (const char *)&column[v / VECTORS][c][v % VECTORS * SB_VL]);
                SB_UNROLL
                for (int r = 0; r < rows; r++) sum[r][v] = vf_fma(vf_set1(q[r * k->width + i + c]), b, sum[r][v]);
            }
        }
        SB_UNROLL
        for (int r = 0; r < rows; r++) SB_UNROLL
        for (int v = 0; v < groups * VECTORS; v++) total[r][v] = begin ? vf_add(total[r][v], sum[r][v]) : sum[r][v];
    }
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < groups * VECTORS; v++) vf_store(score + r * score_stride + v * SB_VL, total[r][v]);
}

#define MAX_DIRECT_ROWS     4
#define DIRECT_GROUPS(rows) (SB_VL == 16 ? 2 : 1)

SB_INLINE void dots_direct(samebits_format f, const sb_attention_part *p)
{
    switch (p->rows) {
#define CASE(rows)                                                                                                     \
    case rows:                                                                                                         \
        for (int64_t j = 0; j < p->keys; j += 16 * DIRECT_GROUPS(rows))                                                \
            dot_direct(f, rows, DIRECT_GROUPS(rows), &p->k, p->key + j, p->keys - j, p->q, p->score + j,               \
                       p->score_stride);                                                                               \
        break;
        CASE(1) CASE(2) CASE(3) CASE(4)
#undef CASE
    }
}

static void dots_of_panels(const sb_attention_part *p)
{
    const int64_t width = p->k.width;
    float *panel = p->scratch, *wide = panel + width * SB_ATTENTION_BLOCK;
    for (int64_t j = 0; j < p->keys; j += SB_ATTENTION_BLOCK) {
        const int64_t keys = SB_MIN(SB_ATTENTION_BLOCK, p->keys - j), panels = sb_ceil_div(keys, PANEL_KEYS);
        for (int64_t i = 0; i < panels; i++)
            pack_panel(&p->k, p->key + j + i * PANEL_KEYS, p->keys - j - i * PANEL_KEYS, panel + i * width * PANEL_KEYS,
                       wide);
        for (int64_t r = 0; r < p->rows; r += MAX_DOT_ROWS) {
            const float *q = p->q + r * width;
            float *score = p->score + r * p->score_stride + j;
            switch (SB_MIN(MAX_DOT_ROWS, p->rows - r)) {
#define CASE(rows)                                                                                                     \
    case rows: dot_rows(rows, panels, width, q, panel, score, p->score_stride); break;
                DOT_CASES(CASE)
#undef CASE
            }
        }
    }
}

SB_INLINE void part_dots(const sb_attention_part *p)
{
    const int direct = p->rows <= MAX_DIRECT_ROWS && is_contiguous(&p->k);
    if (direct && p->k.format == SAMEBITS_FORMAT_F16)
        dots_direct(SAMEBITS_FORMAT_F16, p);
    else if (direct && p->k.format == SAMEBITS_FORMAT_BF16)
        dots_direct(SAMEBITS_FORMAT_BF16, p);
    else
        dots_of_panels(p);
    for (int64_t j = 0; j < p->keys && p->largest; j++) p->largest[j] = largest_of(&p->v, p->key[j], p->scratch);
}

#endif
