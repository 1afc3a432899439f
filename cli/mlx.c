#include "mlx.h"

#include <math.h>
#include <string.h>

const mlx_form *mlx_form_of(samebits_format format)
{
    static const mlx_form forms[] = {{2, 64, T_F16}, {3, 32, T_BF16}, {4, 64, T_BF16}, {5, 128, T_F16}, {6, 64, T_F32},
                                     {8, 32, T_F32}, {4, 32, T_U8},   {8, 32, T_U8},   {4, 16, T_U8}};
    const int i = (int)format - SAMEBITS_FORMAT_AFFINE_2;
    return i >= 0 && i < (int)CLI_COUNT(forms) ? &forms[i] : NULL;
}

/* Scales of moderate size, and no NaN among the weights. */
static void fill_floats(problem *p, int64_t scales, rng *r)
{
    const int has_e4m3 = p->op->format == SAMEBITS_FORMAT_MLX_NVFP4;
    for (int64_t i = 0; i < scales; i++) {
        const uint8_t byte = (uint8_t)(rng_next(r) >> 56);
        *(uint8_t *)tensor_at(&p->scales, i) = has_e4m3 ? byte & 0xFE : (uint8_t)(117 + byte % 8);
    }
    if (p->op->format != SAMEBITS_FORMAT_MLX_MXFP8) return;
    for (int64_t i = 0; i < p->n * p->k; i++) ((uint8_t *)tensor_at(&p->w, 0))[i] &= 0xFE;
}

void mlx_make(problem *p, rng *r)
{
    const mlx_form *f = mlx_form_of(p->op->format);
    const int across = (p->op->flags & OP_ACROSS) != 0;
    const int64_t rows = across ? p->k : p->n, length = across ? p->n : p->k;
    const int64_t words = length * f->bits / 32, groups = length / f->group;
    tensor_make2(&p->w, T_U32, LAYOUT_PLAIN, rows, words);
    tensor_make2(&p->scales, f->scales, LAYOUT_PLAIN, rows, groups);
    for (int64_t i = 0; i < rows * words; i++) {
        const uint32_t word = (uint32_t)(rng_next(r) >> 32);
        memcpy(tensor_at(&p->w, i), &word, sizeof word);
    }
    if (f->scales == T_U8) {
        fill_floats(p, rows * groups, r);
        return;
    }
    tensor_make2(&p->biases, f->scales, LAYOUT_PLAIN, rows, groups);
    tensor_fill(&p->scales, FILL_UNIT, r);
    tensor_fill(&p->biases, FILL_UNIT, r);
}

/* Element i of a row: bits [i * bits, (i + 1) * bits), in one word or across two. */
static int integer(const uint8_t *words, int64_t i, int bits)
{
    const int64_t bit = i * bits;
    uint64_t window = 0;
    memcpy(&window, words + bit / 32 * 4, bit % 32 + bits > 32 ? 8 : 4);
    return (int)(window >> (bit % 32) & ((1u << bits) - 1));
}

static const uint8_t *words_of(const problem *p, int64_t row) { return tensor_at(&p->w, row * p->w.shape[1]); }

static const float e2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/* Four bits of exponent, three of mantissa, and one NaN of each sign. */
static float e4m3(int byte)
{
    const int exponent = byte >> 3 & 15, mantissa = byte & 7;
    float magnitude = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    if (exponent == 15 && mantissa == 7) magnitude = NAN;
    return byte & 128 ? -magnitude : magnitude;
}

static float e8m0(int byte) { return byte == 255 ? INFINITY : ldexpf(1.0f, byte - 127); }

static float scale_of(const problem *p, int64_t group)
{
    const int byte = *(const uint8_t *)tensor_at(&p->scales, group);
    return p->op->format == SAMEBITS_FORMAT_MLX_NVFP4 ? e4m3(byte) : e8m0(byte);
}

/* int8-1 has E2M1 alone: twice its numbers are integers. */
static void read_floats(const problem *p, int64_t row, int64_t step, quant_block *block)
{
    const int group = mlx_form_of(p->op->format)->group;
    const uint8_t *words = words_of(p, row);
    for (int i = 0; i < 2; i++) {
        const int64_t index = row * p->scales.shape[1] + (32 * step + 16 * i) / group;
        block->half[i] = 0.5f * scale_of(p, index);
        block->scale[i] = 1;
    }
    block->d = block->half[0];
    for (int i = 0; i < 32; i++) block->q[i] = (int)(2 * e2m1[integer(words, 32 * step + i, 4)]);
}

void mlx_read(const problem *p, int64_t row, int64_t step, quant_block *block)
{
    const mlx_form *f = mlx_form_of(p->op->format);
    if (f->scales == T_U8) {
        read_floats(p, row, step, block);
        return;
    }
    const int64_t group = row * p->scales.shape[1] + 32 * step / f->group;
    *block = (quant_block){.d = tensor_get(&p->scales, group), .dmin = -tensor_get(&p->biases, group)};
    for (int i = 0; i < 2; i++) block->scale[i] = block->min[i] = 1;
    const uint8_t *words = words_of(p, row);
    for (int i = 0; i < 32; i++) block->q[i] = integer(words, 32 * step + i, f->bits);
}

/* Weight `at` of a row of w. */
static float weight(const problem *p, const mlx_form *f, int64_t row, int64_t at)
{
    const int64_t group = row * p->scales.shape[1] + at / f->group;
    const int q = integer(words_of(p, row), at, f->bits);
    if (f->scales == T_U8) return (f->bits == 8 ? e4m3(q) : e2m1[q]) * scale_of(p, group);
    return fmaf(tensor_get(&p->scales, group), (float)q, tensor_get(&p->biases, group));
}

void mlx_row(const problem *p, int64_t row, float *out)
{
    const mlx_form *f = mlx_form_of(p->op->format);
    const int across = (p->op->flags & OP_ACROSS) != 0;
    for (int64_t i = 0; i < p->k; i++) out[i] = across ? weight(p, f, i, row) : weight(p, f, row, i);
}
