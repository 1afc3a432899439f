/* MLX's weights, read from the spec (spec/formats.md, section MLX), and random ones to test with. */
#ifndef MLX_H
#define MLX_H

#include "op.h"
#include "quant.h"

/* What verify takes for each width: the other groups and dtypes are those of tests/api/test_affine.c. */
typedef struct mlx_form {
    int bits, group;
    dtype scales; /* T_U8: of the formats of floats, which have no biases */
} mlx_form;

/* NULL if the format is not one of MLX's. */
const mlx_form *mlx_form_of(samebits_format format);
/* Makes w, scales and, if affine, biases of a problem with p->n rows of p->k weights, or with OP_ACROSS the reverse. */
void mlx_make(problem *p, rng *r);
/* Step `step` of row `row`, 32 weights, as the first of a block. */
void mlx_read(const problem *p, int64_t row, int64_t step, quant_block *block);
/* The p->k weights of an output as f32. */
void mlx_row(const problem *p, int64_t row, float *out);

#endif
