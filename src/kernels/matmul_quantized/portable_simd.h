/* portable-1 with quantised weights: each weight becomes the f32 that its format says, then joins the fma chain over k.
 * Few rows: decoded in registers, all of k at once. Many rows: a chunk of panels decoded once for all rows. */
#ifndef SB_PORTABLE_SIMD_H
#define SB_PORTABLE_SIMD_H

#include "kernels/matmul_quantized/matmul_quantized.h"
#include "kernels/matmul_quantized/panel_simd.h"
#include "order/order.h"

#define MAX_VECTORS 4
#define MAX_ROWS    8
#define PREFETCH    4096 /* bytes ahead, of panels that are decoded */

#if SB_VL == 16
#define SB_CASES(X)      X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define FEW_CASES(X)     X(1) X(2) X(3) X(4)
#define FEW_PANELS(rows) ((rows) <= 1 ? 4 : 2) /* at least 4 chains at once hide the latency of fma */
#define TILE_PANELS      2
#else
#define SB_CASES(X)      X(1) X(2) X(3) X(4) X(5) X(6)
#define FEW_CASES(X)     X(1) X(2) X(3)
#define FEW_PANELS(rows) ((rows) <= 1 ? 2 : 1)
#define TILE_PANELS      1
#endif

/* The 16 registers of AVX2 are for the sums: a compiler that keeps scales in them spills sums, and the chain of each
 * then goes through memory. Measured with 4-bit weights at M = 1: a third more time. */
#if defined(__AVX2__) && SB_VL == 8
#define KEEP_IN_MEMORY(array) __asm__("" : "+m"(array))
#define READ_ANEW(pointer)    __asm__("" : "+r"(pointer))
#define HAS_MASKED            1
#else
#define KEEP_IN_MEMORY(array)
#define READ_ANEW(pointer)
#define HAS_MASKED 0
#endif

/* AVX-512 turns 4 bits into a float in one instruction. */
SB_INLINE int is_looked_up(samebits_format f)
{
    return SB_VL == 16 && sb_quant_low_bits(f) == 4 && sb_quant_high_bits(f) == 0;
}

/* MLX's floats where they are not looked up: E4M3 bytes, of twice the number if it is E2M1. */
SB_INLINE int is_e4m3(samebits_format f) { return sb_format_is_scaled(f) && !is_looked_up(f); }

/* Bits a weight has where it is read; codes are then bytes. */
SB_INLINE int field_bits(samebits_format f)
{
    return sb_quant_is_coded(f) && !is_looked_up(f) ? 8 : sb_quant_low_bits(f) + sb_quant_high_bits(f);
}

#if SB_VL == 16
SB_INLINE vf look_up(samebits_format f, vi fields, int begin)
{
    static const float integers[24] = {-8, -7, -6, -5, -4, -3, -2, -1, 0,  1,  2,  3,
                                       4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15};
    static const float iq4_nl[16] = {SB_IQ4_NL_INTEGERS(0)}, e2m1[16] = {SB_E2M1_INTEGERS(0)};
    static const float mlx[16] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
    const float *values = f == SAMEBITS_FORMAT_IQ4_NL ? iq4_nl
                          : sb_format_is_scaled(f)    ? mlx
                          : sb_quant_is_e2m1(f)       ? e2m1
                                                      : integers + 8 - sb_quant_offset(f);
    return vf_lookup(vf_load(values), begin ? vi_shr(fields, begin) : fields);
}
#endif

/* Codes as signed bytes, MLX's as E4M3. */
SB_INLINE vi read_codes(samebits_format f, const uint8_t *step, int half, int z)
{
    static const int8_t iq4_nl[16] = {SB_IQ4_NL_INTEGERS(0)}, e2m1[16] = {SB_E2M1_INTEGERS(0)};
    static const uint8_t e4m3[16] = {SB_E2M1_AS_E4M3};
    const uint8_t *signed_bytes = (const uint8_t *)(f == SAMEBITS_FORMAT_IQ4_NL ? iq4_nl : e2m1);
    return vi_lookup8(sb_format_is_scaled(f) ? e4m3 : signed_bytes, read_bits(f, step, half, z, 0));
}

/* Weights that are integers times a scale are taken from the top byte of a lane, where they are 2^(32 - bits) times as
 * large, and multiplied with as much less of the scale: exact, since such a scale is at least 2^-24. The exponents of
 * MXFP4 go lower. */
SB_INLINE int is_raised(samebits_format f)
{
    return !sb_quant_has_min(f) && !is_e4m3(f) && !is_looked_up(f) && !sb_quant_is_e2m1(f);
}

/* The weights 16 * half + 4z .. + 3 of a step, a byte each, or still in nibbles if they are looked up. An offset is
 * half the range of its format: with the top bit of each weight flipped the weights are two's complement. */
SB_INLINE vi read_fields(samebits_format f, const uint8_t *step, int half, int z)
{
    if (is_looked_up(f)) return vi_load(step + z * SB_PLANE);
    if (sb_quant_is_coded(f)) return read_codes(f, step, half, z);
    if (!is_raised(f)) return read_bits(f, step, half, z, 0);
    return vi_xor(byte_mask(0x80), read_bits(f, step, half, z, 8 - field_bits(f)));
}

/* Weight i of these four, as its format says (spec/formats.md); d and m are those of the half. */
SB_INLINE vf weight(samebits_format f, vi fields, int half, int i, vf d, vf m)
{
    if (is_e4m3(f)) {
        const vi bytes = i < 3 ? vi_shl(fields, 24 - 8 * i) : fields;
        if (sb_quant_is_e2m1(f)) return vf_mul(d, from_e4m3(bytes, 0, 120));
        const vf twice = from_e4m3(bytes, 1, 121);
        return vf_mul(d, vf_select(e4m3_is_nan(bytes), vf_set1(sb_float(SB_NAN_F32)), twice));
    }
#if SB_VL == 16
    if (is_looked_up(f)) {
        const vf q = look_up(f, fields, 8 * i + 4 * half);
        return sb_quant_has_min(f) ? vf_fms(d, q, m) : vf_mul(d, q);
    }
#endif
    (void)half;
    /* GGUF's d * q is exact, so this is the one rounding of theirs too. */
    if (sb_quant_has_min(f)) return vf_fms(d, vi_to_f(vi_move_byte(fields, i, 0)), m);
    const vi top = vi_move_byte(fields, i, 3);
    return vf_mul(d, vi_to_f(is_raised(f) ? top : vi_sar(top, 24)));
}

/* Factors and minima of the two halves of a step. */
SB_INLINE void half_scales(samebits_format f, const step_scales *scales, vf d[2], vf m[2])
{
    const int two = sb_quant_parts(f) == 2;
    for (int h = 0; h < 2; h++) {
        if (sb_quant_has_e4m3(f))
            d[h] = scales->h[h];
        else
            d[h] = two ? vf_mul(scales->d, vi_to_f(scales->s[h])) : scales->d;
        if (is_raised(f)) d[h] = vf_mul(d[h], vf_set1(1.0f / (float)(1u << (32 - field_bits(f)))));
        if (sb_quant_has_min(f)) m[h] = two ? vf_mul(scales->m, vi_to_f(scales->n[h])) : scales->m;
    }
}

/* All of k for one tile of rows, each weight from its byte. */
SB_INLINE void byte_rows(samebits_format f, int rows, int panels, int64_t apart, const sb_matmul_args *a, int64_t panel)
{
    const int vectors = panels * PANEL_VECTORS;
    const int64_t steps = a->k / SB_STEP, stride = apart * a->panel_size;
    const uint8_t *w = a->w + panel * a->panel_size, *scales = sb_quant_scales(f, w, a->k);
    const float *x = a->x;
    vf sum[MAX_ROWS][MAX_VECTORS], total[MAX_ROWS][MAX_VECTORS];
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) total[r][v] = sum[r][v] = vf_zero();
    for (int64_t s = 0; s < steps; s++, x += SB_STEP * rows) {
        vf d[MAX_VECTORS][2], m[MAX_VECTORS][2];
        SB_UNROLL
        for (int v = 0; v < vectors; v++) {
            const step_scales read =
                read_scales(f, a->group, scales + v / PANEL_VECTORS * stride, s, v % PANEL_VECTORS * SB_VL);
            half_scales(f, &read, d[v], m[v]);
        }
        KEEP_IN_MEMORY(d);
        KEEP_IN_MEMORY(m);
        KEEP_IN_MEMORY(total);
        const uint8_t *step = w + s * sb_quant_step_bytes(f);
        prefetch_step(f, panels, stride, a, w, s);
        SB_UNROLL
        for (int n = 0; n < 8; n++) SB_UNROLL
        for (int p = 0; p < panels; p++) { /* a panel at a time, which few registers hold */
            vi fields[PANEL_VECTORS];
            SB_UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++)
                fields[v] = read_fields(f, step + p * stride + v * 4 * SB_VL, n / 4, n % 4);
            SB_UNROLL
            for (int i = 0; i < 4; i++) SB_UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++) {
                const int at = p * PANEL_VECTORS + v;
                const vf b = weight(f, fields[v], n / 4, i, d[at][n / 4], m[at][n / 4]);
                SB_UNROLL
                for (int r = 0; r < rows; r++) sum[r][at] = vf_fma(vf_set1(x[(4 * n + i) * rows + r]), b, sum[r][at]);
            }
        }
        if (s % (SB_CHUNK / SB_STEP) == SB_CHUNK / SB_STEP - 1 || s == steps - 1) SB_UNROLL
        for (int r = 0; r < rows; r++) SB_UNROLL
        for (int v = 0; v < vectors; v++) {
            total[r][v] = s < SB_CHUNK / SB_STEP ? sum[r][v] : vf_add(total[r][v], sum[r][v]);
            sum[r][v] = vf_zero();
        }
    }
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) {
        const int64_t column = (panel + v / PANEL_VECTORS * apart) * SB_PANEL + v % PANEL_VECTORS * SB_VL;
        vf_store(a->acc + r * a->acc_stride + column, total[r][v]);
    }
}

/* One row and nibbles: AVX2 spends much of its time on moving them down. A nibble where it lies is 16^j q, and
 * 16^j q * (d / 16^j) is the exact product d q, as long as d / 16^j is exact too. */
SB_INLINE int is_masked(samebits_format f, int rows)
{
    return HAS_MASKED && rows == 1 && sb_quant_low_bits(f) == 4 && !sb_quant_high_bits(f) && sb_quant_has_min(f);
}

typedef struct {
    vf d[4][MAX_VECTORS], m[MAX_VECTORS]; /* d / 16^j */
} nibble_scales;

SB_INLINE int steps_a_scale(samebits_format f, sb_group group) { return sb_format_is_affine(f) ? group.steps : 1; }

SB_INLINE void read_nibble_scales(samebits_format f, int vectors, sb_group group, const uint8_t *scales, int64_t stride,
                                  int64_t step, nibble_scales *out)
{
    SB_UNROLL
    for (int v = 0; v < vectors; v++) {
        const step_scales read =
            read_scales(f, group, scales + v / PANEL_VECTORS * stride, step, v % PANEL_VECTORS * SB_VL);
        out->m[v] = read.m;
        out->d[0][v] = read.d;
        out->d[1][v] = vf_mul(read.d, vf_set1(0x1p-4f));
        out->d[2][v] = vf_mul(read.d, vf_set1(0x1p-8f));
        out->d[3][v] = vf_mul(read.d, vf_set1(0x1p-12f));
    }
}

/* Whether d / 16^j is exact for all factors of these columns: 0, or normal. */
SB_INLINE int scales_are_exact(samebits_format f, int vectors, int64_t stride, const sb_matmul_args *a,
                               const uint8_t *scales)
{
    const vf least = vf_set1(0x1p-114f);
    vm exact = vf_eq(least, least);
    for (int64_t s = 0; s < a->k / SB_STEP; s += steps_a_scale(f, a->group)) {
        nibble_scales at;
        read_nibble_scales(f, vectors, a->group, scales, stride, s, &at);
        SB_UNROLL
        for (int v = 0; v < vectors; v++) {
            const vf d = at.d[0][v], size = vi_as_f(vi_and(vf_bits(d), vi_set1(INT32_MAX)));
            exact = vm_and(exact, vf_lt(least, vf_select(vf_eq(d, vf_zero()), vf_set1(1.0f), size)));
        }
    }
    return vm_all(exact);
}

/* A step of one row. Sums, fields and minima fill the registers; what else is read again costs nothing. */
SB_INLINE void masked_step(int vectors, int64_t stride, const uint8_t *step, const float *x, nibble_scales *scales,
                           vf sum[MAX_VECTORS])
{
    vf m[MAX_VECTORS];
    SB_UNROLL
    for (int v = 0; v < vectors; v++) m[v] = scales->m[v];
    SB_UNROLL
    for (int n = 0; n < 8; n++) {
        vi fields[MAX_VECTORS];
        SB_UNROLL
        for (int v = 0; v < vectors; v++)
            fields[v] = vi_load(step + v / PANEL_VECTORS * stride + n % 4 * SB_PLANE + v % PANEL_VECTORS * 4 * SB_VL);
        SB_UNROLL
        for (int i = 0; i < 4; i++) {
            const int j = n / 4 + 2 * (i % 2);
            KEEP_IN_MEMORY(*scales);
            READ_ANEW(x);
            SB_UNROLL
            for (int v = 0; v < vectors; v++) {
                if (i == 2) fields[v] = vi_shr(fields[v], 16);
                const vf q = vi_to_f(vi_and(fields[v], vi_set1(15 << 4 * j)));
                sum[v] = vf_fma(vf_set1(x[4 * n + i]), vf_fms(scales->d[j][v], q, m[v]), sum[v]);
            }
        }
    }
}

/* All of k for one row, by masks. Not inlined: it needs all registers. */
static __attribute__((noinline)) void masked_row(samebits_format f, int panels, int64_t apart, const sb_matmul_args *a,
                                                 int64_t panel)
{
    const int vectors = panels * PANEL_VECTORS;
    const int64_t steps = a->k / SB_STEP, stride = apart * a->panel_size;
    const uint8_t *w = a->w + panel * a->panel_size, *at = sb_quant_scales(f, w, a->k);
    const float *x = a->x;
    vf sum[MAX_VECTORS], total[MAX_VECTORS];
    nibble_scales scales;
    SB_UNROLL
    for (int v = 0; v < vectors; v++) total[v] = sum[v] = vf_zero();
    for (int64_t s = 0; s < steps; s++, x += SB_STEP) {
        if (s % steps_a_scale(f, a->group) == 0) read_nibble_scales(f, vectors, a->group, at, stride, s, &scales);
        KEEP_IN_MEMORY(total);
        prefetch_step(f, panels, stride, a, w, s);
        masked_step(vectors, stride, w + s * sb_quant_step_bytes(f), x, &scales, sum);
        if (s % (SB_CHUNK / SB_STEP) == SB_CHUNK / SB_STEP - 1 || s == steps - 1) SB_UNROLL
        for (int v = 0; v < vectors; v++) {
            total[v] = s < SB_CHUNK / SB_STEP ? sum[v] : vf_add(total[v], sum[v]);
            sum[v] = vf_zero();
        }
    }
    SB_UNROLL
    for (int v = 0; v < vectors; v++)
        vf_store(a->acc + (panel + v / PANEL_VECTORS * apart) * SB_PANEL + v % PANEL_VECTORS * SB_VL, total[v]);
}

/* All of k for one tile of rows. */
SB_INLINE void few_rows(samebits_format f, int rows, int panels, int64_t apart, const sb_matmul_args *a, int64_t panel)
{
    const uint8_t *scales = sb_quant_scales(f, a->w + panel * a->panel_size, a->k);
    if (is_masked(f, rows) && scales_are_exact(f, panels * PANEL_VECTORS, apart * a->panel_size, a, scales))
        masked_row(f, panels, apart, a, panel);
    else
        byte_rows(f, rows, panels, apart, a, panel);
}

/* `count` steps of a panel as f32: out[k][stride]. */
SB_INLINE void decode(samebits_format f, sb_group group, const uint8_t *panel, int64_t k, int64_t begin, int count,
                      float *out, int stride)
{
    const uint8_t *step = panel + begin * sb_quant_step_bytes(f), *scales = sb_quant_scales(f, panel, k);
    for (int s = 0; s < count; s++, step += sb_quant_step_bytes(f), out += SB_STEP * stride) {
        SB_UNROLL
        for (int i = 0; i < sb_quant_step_bytes(f); i += 64) v_prefetch(step + i + PREFETCH);
        SB_UNROLL
        for (int c = 0; c < SB_PANEL; c += SB_VL) {
            const step_scales read = read_scales(f, group, scales, begin + s, c);
            vf d[2], m[2];
            half_scales(f, &read, d, m);
            SB_UNROLL
            for (int n = 0; n < 8; n++) {
                const vi fields = read_fields(f, step + 4 * c, n / 4, n % 4);
                SB_UNROLL
                for (int i = 0; i < 4; i++)
                    vf_store(out + (4 * n + i) * stride + c, weight(f, fields, n / 4, i, d[n / 4], m[n / 4]));
            }
        }
    }
}

/* One decoded chunk of `length` steps of k for one tile of rows: acc (+)= chain. */
SB_INLINE void tile_chunk(int rows, int panels, int64_t length, int first, const float *x, const float *w, float *acc,
                          int64_t acc_stride)
{
    const int vectors = panels * PANEL_VECTORS;
    vf sum[MAX_ROWS][MAX_VECTORS];
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) sum[r][v] = vf_zero();
    for (int64_t i = 0; i < length; i++) {
        vf b[MAX_VECTORS];
        SB_UNROLL
        for (int v = 0; v < vectors; v++) b[v] = vf_load(w + i * panels * SB_PANEL + v * SB_VL);
        SB_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf xr = vf_set1(x[i * rows + r]);
            SB_UNROLL
            for (int v = 0; v < vectors; v++) sum[r][v] = vf_fma(xr, b[v], sum[r][v]);
        }
    }
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) {
        float *out = acc + r * acc_stride + v * SB_VL;
        vf_store(out, first ? sum[r][v] : vf_add(vf_load(out), sum[r][v]));
    }
}

SB_INLINE void tile_rows(int panels, const sb_matmul_args *a, int64_t panel, int64_t begin, int64_t length,
                         const float *w)
{
    for (int64_t r = 0; r < a->rows; r += a->tile) {
        const int64_t height = SB_MIN(a->tile, a->rows - r);
        const float *x = a->x + r * a->k + begin * height;
        float *acc = a->acc + r * a->acc_stride + panel * SB_PANEL;
        switch (height) {
#define CASE(rows)                                                                                                     \
    case rows: tile_chunk(rows, panels, length, begin == 0, x, w, acc, a->acc_stride); break;
            SB_CASES(CASE)
#undef CASE
        }
    }
}

/* Not inlined: the same for all formats. */
static __attribute__((noinline)) void chunk_rows(int panels, const sb_matmul_args *a, int64_t panel, int64_t begin,
                                                 int64_t length, const float *w)
{
    if (TILE_PANELS == 1 || panels == TILE_PANELS)
        tile_rows(TILE_PANELS, a, panel, begin, length, w);
    else
        tile_rows(1, a, panel, begin, length, w);
}

DEFINE_FEW_ROWS_ALL

SB_INLINE void matmul_portable(samebits_format f, const sb_matmul_args *a)
{
    if (a->rows <= a->tile && few_rows_all(f, a)) return;
    if (!a->k)
        for (int64_t r = 0; r < a->rows; r++)
            memset(a->acc + r * a->acc_stride, 0, (size_t)a->panels * SB_PANEL * sizeof *a->acc);
    float w[SB_CHUNK * TILE_PANELS * SB_PANEL] __attribute__((aligned(64)));
    for (int64_t begin = 0; begin < a->k; begin += SB_CHUNK) {
        const int64_t length = SB_MIN(SB_CHUNK, a->k - begin);
        for (int64_t p = 0; p < a->panels; p += TILE_PANELS) {
            const int panels = (int)SB_MIN(TILE_PANELS, a->panels - p);
            for (int i = 0; i < panels; i++)
                decode(f, a->group, a->w + (p + i) * a->panel_size, a->k, begin / SB_STEP, (int)(length / SB_STEP),
                       w + i * SB_PANEL, panels * SB_PANEL);
            chunk_rows(panels, a, p, begin, length, w);
        }
    }
}

#endif
