/* q.k for the AVX2 and AVX-512 rows: a lane is a key. K is turned into panels of SB_VL * 2 keys, widened to f32,
 * so that the chain over the columns stays in its lane (spec/order.md, section dot). */
#ifndef SB_DOTS_SIMD_H
#define SB_DOTS_SIMD_H

#include "base/simd.h"
#include "kernels/attention/attention.h"
#include "order/order.h"

#define PANEL_KEYS (2 * SB_VL)
#define BLOCK_PANELS (SB_ATTENTION_BLOCK / PANEL_KEYS)
#if SB_VL == 16
#define MAX_DOT_ROWS 12
#define DOT_PANELS(rows) ((rows) <= 4 ? 2 : 1)
#else
#define MAX_DOT_ROWS 6
#define DOT_PANELS(rows) ((rows) <= 1 ? 4 : (rows) <= 2 ? 2 : 1)
#endif
#define MAX_DOT_VECTORS (2 * BLOCK_PANELS)

SB_INLINE int element_size(samebits_format f) { return f == SAMEBITS_FORMAT_F32 ? 4 : 2; }
SB_INLINE int is_contiguous(const sb_kv *kv)
{
    return kv->format != SAMEBITS_FORMAT_Q8_0 && (kv->width < 2 || kv->col_stride == element_size(kv->format));
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

/* One row to f32, padded with zeros to a multiple of SB_ATTENTION_PAD. The format is a constant. */
SB_INLINE void widen_row(samebits_format f, const sb_kv *kv, int64_t key, float *out)
{
    const char *row = kv->data + key * kv->row_stride;
    const int64_t width = kv->width;
    int64_t i = 0;
    if (f == SAMEBITS_FORMAT_Q8_0) {
        for (; i < width; i += 32, row += 34) {
            const vf d = vf_set1(load_element(SAMEBITS_FORMAT_F16, row));
            SB_UNROLL for (int e = 0; e < 32; e += SB_VL)
                vf_store(out + i + e, vf_mul(d, vi_to_f(vi_load_i8(row + 2 + e))));
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
    default: widen_row(SAMEBITS_FORMAT_F32, kv, key, out); break;
    }
}

/* Four f32 out of a row. */
SB_INLINE __m128 load_four(samebits_format f, const char *p)
{
    if (f == SAMEBITS_FORMAT_F32) return _mm_loadu_ps((const float *)p);
    const __m128i h = _mm_loadl_epi64((const __m128i *)p);
    return f == SAMEBITS_FORMAT_F16 ? _mm_cvtph_ps(h) : _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), h));
}

/* Four rows into four lanes of a panel: panel[column][PANEL_KEYS]. */
SB_INLINE void pack_four(samebits_format f, const char *const row[4], int64_t width, float *panel)
{
    int64_t i = 0;
    for (; i + 4 <= width; i += 4) {
        __m128 a = load_four(f, row[0] + i * element_size(f)), b = load_four(f, row[1] + i * element_size(f));
        __m128 c = load_four(f, row[2] + i * element_size(f)), d = load_four(f, row[3] + i * element_size(f));
        _MM_TRANSPOSE4_PS(a, b, c, d);
        _mm_storeu_ps(panel + (i + 0) * PANEL_KEYS, a);
        _mm_storeu_ps(panel + (i + 1) * PANEL_KEYS, b);
        _mm_storeu_ps(panel + (i + 2) * PANEL_KEYS, c);
        _mm_storeu_ps(panel + (i + 3) * PANEL_KEYS, d);
    }
    for (; i < width; i++)
        for (int e = 0; e < 4; e++) panel[i * PANEL_KEYS + e] = load_element(f, row[e] + i * element_size(f));
}

/* Keys past the end of the list repeat the last one; their lanes are never used. */
static void pack_panel(const sb_kv *k, const int32_t *key, int64_t keys, float *panel, float *wide)
{
    const int64_t wide_stride = sb_round_up(k->width, SB_ATTENTION_PAD);
    for (int64_t j = 0; j < PANEL_KEYS; j += 4) {
        const char *row[4];
        const int direct = is_contiguous(k);
        for (int e = 0; e < 4; e++) {
            const int64_t memory_row = key[SB_MIN(j + e, keys - 1)];
            row[e] = direct ? k->data + memory_row * k->row_stride : (const char *)(wide + e * wide_stride);
            if (!direct) widen_any(k, memory_row, wide + e * wide_stride);
        }
        if (direct && k->format == SAMEBITS_FORMAT_F16)
            pack_four(SAMEBITS_FORMAT_F16, row, k->width, panel + j);
        else if (direct && k->format == SAMEBITS_FORMAT_BF16)
            pack_four(SAMEBITS_FORMAT_BF16, row, k->width, panel + j);
        else
            pack_four(SAMEBITS_FORMAT_F32, row, k->width, panel + j);
    }
}

/* rows x panels of dots. rows and panels are constants. */
SB_INLINE void dot_tile(int rows, int panels, int64_t width, const float *q, const float *panel, float *score,
                        int64_t score_stride)
{
    vf sum[MAX_DOT_ROWS][MAX_DOT_VECTORS], total[MAX_DOT_ROWS][MAX_DOT_VECTORS];
    SB_UNROLL for (int r = 0; r < rows; r++)
        SB_UNROLL for (int v = 0; v < 2 * panels; v++) sum[r][v] = total[r][v] = vf_zero();
    for (int64_t begin = 0; begin < width; begin += SB_CHUNK) {
        const int64_t end = SB_MIN(begin + SB_CHUNK, width);
        SB_UNROLL for (int r = 0; r < rows; r++)
            SB_UNROLL for (int v = 0; v < 2 * panels; v++) sum[r][v] = vf_zero();
        for (int64_t i = begin; i < end; i++) {
            vf b[MAX_DOT_VECTORS];
            SB_UNROLL for (int v = 0; v < 2 * panels; v++)
                b[v] = vf_load(panel + (v / 2) * width * PANEL_KEYS + i * PANEL_KEYS + (v % 2) * SB_VL);
            SB_UNROLL for (int r = 0; r < rows; r++) {
                const vf a = vf_set1(q[r * width + i]);
                SB_UNROLL for (int v = 0; v < 2 * panels; v++) sum[r][v] = vf_fma(a, b[v], sum[r][v]);
            }
        }
        SB_UNROLL for (int r = 0; r < rows; r++)
            SB_UNROLL for (int v = 0; v < 2 * panels; v++)
                total[r][v] = begin ? vf_add(total[r][v], sum[r][v]) : sum[r][v];
    }
    SB_UNROLL for (int r = 0; r < rows; r++)
        SB_UNROLL for (int v = 0; v < 2 * panels; v++) vf_store(score + r * score_stride + v * SB_VL, total[r][v]);
}

SB_INLINE void dot_rows(int rows, int64_t panels, int64_t width, const float *q, const float *panel, float *score,
                        int64_t score_stride)
{
    int64_t p = 0;
    for (; p + DOT_PANELS(rows) <= panels; p += DOT_PANELS(rows))
        dot_tile(rows, DOT_PANELS(rows), width, q, panel + p * width * PANEL_KEYS, score + p * PANEL_KEYS, score_stride);
    for (; p < panels; p++)
        dot_tile(rows, 1, width, q, panel + p * width * PANEL_KEYS, score + p * PANEL_KEYS, score_stride);
}

#define DOT_CASES_6(X) X(1) X(2) X(3) X(4) X(5) X(6)
#if SB_VL == 16
#define DOT_CASES(X) DOT_CASES_6(X) X(7) X(8) X(9) X(10) X(11) X(12)
#else
#define DOT_CASES(X) DOT_CASES_6(X)
#endif

/* Largest finite |v| of a row. */
static float largest_of(const sb_kv *v, int64_t key, float *wide)
{
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

SB_INLINE void part_dots(const sb_attention_part *p)
{
    const int64_t width = p->k.width;
    float *panel = p->scratch, *wide = panel + width * SB_ATTENTION_BLOCK;
    for (int64_t j = 0; j < p->keys; j += SB_ATTENTION_BLOCK) {
        const int64_t keys = SB_MIN(SB_ATTENTION_BLOCK, p->keys - j), panels = sb_ceil_div(keys, PANEL_KEYS);
        for (int64_t i = 0; i < panels; i++)
            pack_panel(&p->k, p->key + j + i * PANEL_KEYS, keys - i * PANEL_KEYS, panel + i * width * PANEL_KEYS, wide);
        for (int64_t r = 0; r < p->rows; r += MAX_DOT_ROWS) {
            const float *q = p->q + r * width;
            float *score = p->score + r * p->score_stride + j;
            switch (SB_MIN(MAX_DOT_ROWS, p->rows - r)) {
#define CASE(rows) \
    case rows: dot_rows(rows, panels, width, q, panel, score, p->score_stride); break;
                DOT_CASES(CASE)
#undef CASE
            }
        }
        if (p->largest)
            for (int64_t i = 0; i < keys; i++) p->largest[j + i] = largest_of(&p->v, p->key[j + i], wide);
    }
}

#endif
