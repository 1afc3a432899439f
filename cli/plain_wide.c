/* Products of f64 and complex64 in plain C, from spec/ops/matmul.md. */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"

/* All elements of a tensor, row after row, as they lie in it. */
static void *elements(const tensor *t)
{
    const int64_t count = tensor_count(t);
    char *all = cli_alloc((size_t)count * 8);
    for (int64_t i = 0; i < count; i++) memcpy(all + 8 * i, tensor_at(t, i), 8);
    return all;
}

static void each_row(const plain_call *call, void (*row_fn)(const plain_call *, const void *x, const void *w, int64_t))
{
    fenv_t host;
    fegetenv(&host);
    fesetenv(FE_DFL_ENV);
    char *x = elements(call->x), *w = elements(&call->p->w);
    for (int64_t row = 0; row < call->x->shape[0]; row++) row_fn(call, x + row * call->p->k * 8, w, row);
    free(x);
    free(w);
    fesetenv(&host);
}

/* spec/order.md, section dot, in f64. */
static double dot64(const double *x, const double *w, int64_t k)
{
    double total = 0.0, chunk = 0.0;
    for (int64_t i = 0; i < k; i++) {
        chunk = fma(x[i], w[i], chunk);
        if (i % 256 != 255 && i != k - 1) continue;
        total = i < 256 ? chunk : total + chunk;
        chunk = 0.0;
    }
    return total;
}

static double double_at(const tensor *t, int64_t index)
{
    double value;
    memcpy(&value, tensor_at(t, index), sizeof value);
    return value;
}

static void row_f64(const plain_call *call, const void *x, const void *w, int64_t row)
{
    static const uint64_t canonical = 0x7FF8000000000000u;
    const problem *p = call->p;
    const samebits_epilogue *e = &p->epilogue;
    for (int64_t col = 0; col < p->n; col++) {
        double t = e->alpha * dot64(x, (const double *)w + col * p->k, p->k);
        if (e->c) t = fma(e->beta, double_at(&p->c, col), t);
        if (e->bias) t += double_at(&p->bias, col);
        if (e->activation == SAMEBITS_ACTIVATION_RELU && t <= 0.0) t = 0.0;
        memcpy(tensor_at(call->out, row * p->n + col), t == t ? (const void *)&t : &canonical, sizeof t);
    }
}

static float part_at(const tensor *t, int64_t index, int part)
{
    float parts[2];
    memcpy(parts, tensor_at(t, index), sizeof parts);
    return parts[part];
}

/* A row of a is its 2K numbers; column 2n or 2n + 1 of B is made of column n of b. */
static void row_complex(const plain_call *call, const void *x, const void *w, int64_t row)
{
    const problem *p = call->p;
    const samebits_epilogue *e = &p->epilogue;
    float *column = cli_alloc((size_t)(2 * p->k) * sizeof *column);
    for (int64_t col = 0; col < 2 * p->n; col++) {
        const float *b = (const float *)w + col / 2 * 2 * p->k;
        const int part = (int)(col % 2);
        for (int64_t i = 0; i < p->k; i++) {
            column[2 * i] = b[2 * i + part];
            column[2 * i + 1] = part ? b[2 * i] : -b[2 * i + 1];
        }
        float t = (float)e->alpha * plain_dot(x, column, 2 * p->k);
        if (e->c) t = fmaf((float)e->beta, part_at(&p->c, col / 2, part), t);
        if (e->bias) t += part_at(&p->bias, col / 2, part);
        const uint32_t bits = bits_from_f32(T_F32, t);
        memcpy((char *)tensor_at(call->out, row * p->n + col / 2) + 4 * part, &bits, sizeof bits);
    }
    free(column);
}

void plain_f64(const plain_call *call) { each_row(call, row_f64); }
void plain_complex(const plain_call *call) { each_row(call, row_complex); }
