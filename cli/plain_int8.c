/* Order int8-1 in plain C (spec/ops/matmul_quantized.md). */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mlx.h"
#include "plain.h"
#include "quant.h"

enum { STEP = 32 };

/* One row's activations: quants, and a scale for each step of 32. */
static void quantise(const float *x, int64_t k, const float *other, int *q, float *scale)
{
    for (int64_t s = 0; s < k / STEP; s++) {
        float largest = 0.0f;
        int finite = 1;
        for (int64_t i = s * STEP; i < (s + 1) * STEP; i++) {
            finite &= isfinite(x[i]) != 0;
            largest = fmaxf(largest, fabsf(x[i]));
            if (other) largest = fmaxf(largest, fabsf(other[i]));
        }
        const int zero = !finite || largest < 0x1p-64f;
        const float inverse = 127.0f / largest;
        for (int64_t i = s * STEP; i < (s + 1) * STEP; i++) q[i] = zero ? 0 : (int)rintf(x[i] * inverse);
        scale[s] = !finite ? NAN : zero ? 0.0f : largest / 127.0f;
    }
}

/* The integer sums of a step, scaled by the weights' own scales. */
static float step_value(samebits_format format, const quant_block *b, int step, const int *x)
{
    int sums[2] = {0, 0}, totals[2] = {0, 0};
    for (int i = 0; i < STEP; i++) {
        sums[i / 16] += x[i] * b->q[step * STEP + i];
        totals[i / 16] += x[i];
    }
    const int *scale = b->scale + 2 * step, *min = b->min + 2 * step;
    const int total = totals[0] + totals[1];
    if (format == SAMEBITS_FORMAT_Q2_K)
        return fmaf((float)(scale[0] * sums[0] + scale[1] * sums[1]), b->d,
                    -((float)(min[0] * totals[0] + min[1] * totals[1]) * b->dmin));
    if (format == SAMEBITS_FORMAT_NVFP4 || format == SAMEBITS_FORMAT_MLX_NVFP4)
        return fmaf((float)sums[0], b->half[2 * step], (float)sums[1] * b->half[2 * step + 1]);
    if (quant_has_min(format) || (format < SAMEBITS_FORMAT_MLX_MXFP4 && mlx_form_of(format)))
        return fmaf((float)(sums[0] + sums[1]), b->d * (float)scale[0], -((float)total * (b->dmin * (float)min[0])));
    return (float)(scale[0] * sums[0] + scale[1] * sums[1]) * b->d;
}

/* The block of column `col` that holds step `step`; returns the step's place in it. */
static int read_step(const problem *p, int64_t col, int64_t step, quant_block *b)
{
    if (mlx_form_of(p->op->format)) {
        mlx_read(p, col, step, b);
        return 0;
    }
    const int64_t per_block = samebits_format_block(p->op->format) / STEP, blocks = p->k / STEP / per_block;
    const int64_t row_size = p->w.shape[1];
    quant_read(p->op->format, (uint8_t *)tensor_at(&p->w, col * row_size) + step / per_block * (row_size / blocks), b);
    return (int)(step % per_block);
}

static float dot(const plain_call *call, int64_t col, const int *q, const float *scale)
{
    const int64_t steps = call->p->k / STEP;
    const int swap = call->fault == FAULT_SWAP && call->how.cpu != SAMEBITS_CPU_SCALAR;
    float acc = 0.0f;
    quant_block b;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t s = swap ? steps - 1 - i : i;
        const int place = read_step(call->p, col, s, &b);
        acc = fmaf(step_value(call->p->op->format, &b, place, q + s * STEP), scale[s], acc);
    }
    return acc;
}

static __attribute__((noinline)) void rows(const plain_call *call)
{
    const problem *p = call->p;
    const int64_t m = call->x->shape[0];
    float *x = cli_alloc((size_t)p->k * sizeof *x), *next = cli_alloc((size_t)p->k * sizeof *next);
    float *scale = cli_alloc((size_t)p->k * sizeof *scale);
    int *q = cli_alloc((size_t)p->k * sizeof *q);
    for (int64_t row = 0; row < m; row++) {
        const int leak = call->fault == FAULT_LEAK && row + 1 < m;
        tensor_row(call->x, row, x);
        if (leak) tensor_row(call->x, row + 1, next);
        quantise(x, p->k, leak ? next : NULL, q, scale);
        for (int64_t col = 0; col < p->n; col++)
            tensor_set(call->out, row * p->n + col, plain_epilogue(p, col, dot(call, col, q, scale)));
    }
    free(x);
    free(next);
    free(scale);
    free(q);
}

void plain_int8(const plain_call *call)
{
    fenv_t host;
    fegetenv(&host);
    if (call->fault != FAULT_FLUSH) fesetenv(FE_DFL_ENV);
    rows(call);
    fesetenv(&host);
}
