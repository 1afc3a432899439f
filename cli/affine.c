#include "affine.h"

#include <math.h>
#include <string.h>

const affine_form *affine_form_of(samebits_format format)
{
    static const affine_form forms[] = {{2, 64, T_F16},  {3, 32, T_BF16}, {4, 64, T_BF16},
                                        {5, 128, T_F16}, {6, 64, T_F32},  {8, 32, T_F32}};
    const int i = (int)format - SAMEBITS_FORMAT_AFFINE_2;
    return i >= 0 && i < (int)CLI_COUNT(forms) ? &forms[i] : NULL;
}

void affine_make(problem *p, rng *r)
{
    const affine_form *f = affine_form_of(p->op->format);
    const int64_t words = p->k * f->bits / 32, groups = p->k / f->group;
    tensor_make2(&p->w, T_U32, LAYOUT_PLAIN, p->n, words);
    tensor_make2(&p->scales, f->scales, LAYOUT_PLAIN, p->n, groups);
    tensor_make2(&p->biases, f->scales, LAYOUT_PLAIN, p->n, groups);
    for (int64_t i = 0; i < p->n * words; i++) {
        const uint32_t word = (uint32_t)(rng_next(r) >> 32);
        memcpy(tensor_at(&p->w, i), &word, sizeof word);
    }
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

void affine_read(const problem *p, int64_t row, int64_t step, quant_block *block)
{
    const affine_form *f = affine_form_of(p->op->format);
    const int64_t group = row * p->scales.shape[1] + 32 * step / f->group;
    *block = (quant_block){.d = tensor_get(&p->scales, group), .dmin = -tensor_get(&p->biases, group)};
    for (int i = 0; i < 2; i++) block->scale[i] = block->min[i] = 1;
    const uint8_t *words = words_of(p, row);
    for (int i = 0; i < 32; i++) block->q[i] = integer(words, 32 * step + i, f->bits);
}

void affine_row(const problem *p, int64_t row, float *out)
{
    const affine_form *f = affine_form_of(p->op->format);
    const uint8_t *words = words_of(p, row);
    for (int64_t i = 0; i < p->k; i++) {
        const int64_t group = row * p->scales.shape[1] + i / f->group;
        out[i] = fmaf(tensor_get(&p->scales, group), (float)integer(words, i, f->bits), tensor_get(&p->biases, group));
    }
}
