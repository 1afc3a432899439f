/* Norms, softmaxes and the ops element by element in plain C (spec/ops/norm.md, softmax.md, elementwise.md). */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

#include "plain.h"
#include "plain_math.h"

/* spec/order.md, section sums: 64 lanes in chunks of 16384, folded in halves. Adds x - mean, or its squares. */
static float sum(const float *x, int64_t n, float mean, int squares, int lanes)
{
    float total = 0.0f;
    for (int64_t begin = 0; begin < n; begin += 16384) {
        float lane[64] = {0};
        for (int64_t i = begin; i < CLI_MIN(begin + 16384, n); i++) {
            float *s = &lane[(i - begin) % lanes];
            const float d = x[i] - mean;
            *s = squares ? fmaf(d, d, *s) : *s + d;
        }
        for (int half = lanes / 2; half; half /= 2)
            for (int l = 0; l < half; l++) lane[l] += lane[l + half];
        total = begin ? total + lane[0] : lane[0];
    }
    return total;
}

static void norm_row(const plain_call *call, const float *x, int64_t row, int centered)
{
    const problem *p = call->p;
    const int64_t n = p->k;
    const int lanes = call->fault == FAULT_ONE_ROW && call->x->shape[0] == 1 ? 32 : 64;
    const float mean = centered ? sum(x, n, 0.0f, 0, lanes) / (float)n : 0.0f;
    const float scale = 1.0f / sqrtf(sum(x, n, mean, 1, lanes) / (float)n + NORM_EPS);
    for (int64_t i = 0; i < n; i++) {
        float y = (x[i] - mean) * scale * tensor_get(&p->w, i);
        if (centered) y += tensor_get(&p->bias, i);
        tensor_set(call->out, row * n + i, y);
    }
}

/* The denominator is a sum of integers. */
static void softmax_row(const plain_call *call, const float *x, int64_t row, int log)
{
    const int64_t n = call->p->k;
    float max = -INFINITY;
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        bad |= !(x[i] < INFINITY);
        max = x[i] > max ? x[i] : max;
    }
    int64_t total = 0;
    float *e = cli_alloc((size_t)n * sizeof *e);
    for (int64_t i = 0; i < n && !bad; i++) {
        e[i] = call->fault == FAULT_LIBM ? expf(x[i] - max) : plain_exp(x[i] - max);
        total += llrint((double)e[i] * 0x1p30);
    }
    const float denominator = (float)total * 0x1p-30f;
    for (int64_t i = 0; i < n; i++) {
        float y = log ? (x[i] - max) - plain_log(denominator) : e[i] / denominator;
        if (max == -INFINITY) y = log ? -INFINITY : 0.0f;
        tensor_set(call->out, row * n + i, bad ? NAN : y);
    }
    free(e);
}

static void each_row(const plain_call *call, void (*row_fn)(const plain_call *, const float *, int64_t))
{
    fenv_t host;
    fegetenv(&host);
    if (call->fault != FAULT_FLUSH) fesetenv(FE_DFL_ENV);
    float *x = cli_alloc((size_t)call->p->k * sizeof(float));
    for (int64_t row = 0; row < call->x->shape[0]; row++) {
        tensor_row(call->x, row, x);
        row_fn(call, x, row);
    }
    free(x);
    fesetenv(&host);
}

static void rms_norm_row(const plain_call *call, const float *x, int64_t row) { norm_row(call, x, row, 0); }
static void layer_norm_row(const plain_call *call, const float *x, int64_t row) { norm_row(call, x, row, 1); }

static void softmax_plain_row(const plain_call *call, const float *x, int64_t row) { softmax_row(call, x, row, 0); }
static void log_softmax_row(const plain_call *call, const float *x, int64_t row) { softmax_row(call, x, row, 1); }

void plain_softmax(const plain_call *call) { each_row(call, softmax_plain_row); }
void plain_log_softmax(const plain_call *call) { each_row(call, log_softmax_row); }
void plain_rms_norm(const plain_call *call) { each_row(call, rms_norm_row); }
void plain_layer_norm(const plain_call *call) { each_row(call, layer_norm_row); }

static void elements(const plain_call *call, const float *x, int64_t row,
                     float (*element)(const plain_call *, float, float))
{
    const int64_t n = call->p->k;
    for (int64_t i = 0; i < n; i++) {
        const float w = call->p->op->flags & OP_COLUMNS ? tensor_get(&call->p->w, i) : 0.0f;
        tensor_set(call->out, row * n + i, element(call, x[i], w));
    }
}

#define ELEMENTS(name, expression)                                                                                     \
    static float name##_element(const plain_call *call, float x, float w)                                              \
    {                                                                                                                  \
        (void)call;                                                                                                    \
        (void)w;                                                                                                       \
        return expression;                                                                                             \
    }                                                                                                                  \
    static void name##_row(const plain_call *call, const float *x, int64_t row)                                        \
    {                                                                                                                  \
        elements(call, x, row, name##_element);                                                                        \
    }                                                                                                                  \
    void plain_##name(const plain_call *call) { each_row(call, name##_row); }

ELEMENTS(activate, call->fault == FAULT_LIBM ? x / (1.0f + expf(-x)) : plain_activation(call->p->op->activation, x))
ELEMENTS(gated, plain_activation(call->p->op->activation, x) * w)
ELEMENTS(add, x + w)
ELEMENTS(sub, x - w)
ELEMENTS(mul, x *w)
ELEMENTS(div, x / w)
ELEMENTS(scale, fmaf(x, SCALE_FACTOR, SCALE_BIAS))
