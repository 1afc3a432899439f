/* Order amx-1 in plain C (spec/ops/matmul.md, section amx-1). */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

#include "plain.h"

enum { BLOCK = 32 };

/* Rounded as if exponents had no lower bound; a magnitude below 2^-126 is then a zero of its sign. The operands are 0
 * or normal. Where the result may be that small, all of it is done 96 exponents higher: none of it is subnormal there,
 * and one operand is below 1. */
static float fma_flushed(float a, float b, float c)
{
    const float r = fmaf(a, b, c);
    if (!(fabsf(r) < 0x1p-100f && fabsf(c) < 0x1p-90f)) return r;
    const int a_is_small = fabsf(a) < fabsf(b);
    const float high = fmaf(ldexpf(a_is_small ? a : b, 96), a_is_small ? b : a, ldexpf(c, 96));
    return fabsf(high) < 0x1p-30f ? copysignf(0.0f, high) : ldexpf(high, -96);
}

static float flushed(float x) { return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x; }

static float dot(const plain_call *call, const float *x, const float *w)
{
    const int64_t k = call->p->k, block = call->fault == FAULT_CHUNK ? BLOCK / 2 : BLOCK;
    float acc = 0.0f;
    for (int64_t begin = 0; begin < k; begin += block) {
        float even = 0.0f, odd = 0.0f;
        for (int64_t i = begin; i < begin + block; i += 2) {
            even = fma_flushed(i < k ? flushed(x[i]) : 0.0f, i < k ? flushed(w[i]) : 0.0f, even);
            odd = fma_flushed(i + 1 < k ? flushed(x[i + 1]) : 0.0f, i + 1 < k ? flushed(w[i + 1]) : 0.0f, odd);
        }
        acc = flushed(acc + flushed(even + odd));
    }
    return acc;
}

static __attribute__((noinline)) void rows(const plain_call *call)
{
    const problem *p = call->p;
    float *x = cli_alloc((size_t)p->k * sizeof *x);
    for (int64_t row = 0; row < call->x->shape[0]; row++) {
        tensor_row(call->x, row, x);
        for (int64_t col = 0; col < p->n; col++)
            tensor_set(call->out, row * p->n + col, plain_epilogue(p, col, dot(call, x, p->wide + col * p->k)));
    }
    free(x);
}

void plain_amx(const plain_call *call)
{
    fenv_t host;
    fegetenv(&host);
    fesetenv(FE_DFL_ENV);
    rows(call);
    fesetenv(&host);
}
