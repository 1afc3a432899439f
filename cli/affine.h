/* MLX's affine weights, read from the spec (spec/formats.md, section affine), and random ones to test with. */
#ifndef AFFINE_H
#define AFFINE_H

#include "op.h"
#include "quant.h"

/* What verify takes for each width: the other groups and dtypes are those of tests/api/test_affine.c. */
typedef struct affine_form {
    int bits, group;
    dtype scales;
} affine_form;

/* NULL if the format is not affine. */
const affine_form *affine_form_of(samebits_format format);
/* Makes w, scales and biases of a problem with p->n rows of p->k weights. */
void affine_make(problem *p, rng *r);
/* Step `step` of row `row`, 32 weights, as the first of a block. */
void affine_read(const problem *p, int64_t row, int64_t step, quant_block *block);
/* A row as f32. */
void affine_row(const problem *p, int64_t row, float *out);

#endif
