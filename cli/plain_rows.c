/* Norms, softmaxes, reductions and the ops element by element in plain C (spec/ops/norm.md, softmax.md, reduce.md,
 * elementwise.md). */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

#include "op_rows.h"
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

/* Columns [begin, end) as a row of their own. */
static void norm_part(const plain_call *call, const float *x, int64_t row, int64_t begin, int64_t end, int centered)
{
    const problem *p = call->p;
    const int64_t n = end - begin;
    const int lanes = call->fault == FAULT_ONE_ROW && call->x->shape[0] == 1 ? 32 : 64;
    const float mean = centered ? sum(x + begin, n, 0.0f, 0, lanes) / (float)n : 0.0f;
    const float scale = 1.0f / sqrtf(sum(x + begin, n, mean, 1, lanes) / (float)n + NORM_EPS);
    for (int64_t i = begin; i < end; i++) {
        float y = (x[i] - mean) * scale * tensor_get(&p->w, i);
        if (centered) y += tensor_get(&p->bias, i);
        tensor_set(call->out, row * p->k + i, y);
    }
}

static void l2_norm_row(const plain_call *call, const float *x, int64_t row)
{
    const int64_t n = call->p->k;
    const float length = sqrtf(sum(x, n, 0.0f, 1, 64)), scale = 1.0f / (length < NORM_EPS ? NORM_EPS : length);
    for (int64_t i = 0; i < n; i++) tensor_set(call->out, row * n + i, x[i] * scale);
}

static void group_norm_row(const plain_call *call, const float *x, int64_t row)
{
    const int64_t groups = group_count(call->p), n = call->p->k / groups;
    for (int64_t g = 0; g < groups; g++) norm_part(call, x, row, g * n, (g + 1) * n, 1);
}

/* The sum is rounded to x's dtype, as add stores it. */
static void add_rms_norm_row(const plain_call *call, const float *x, int64_t row)
{
    const int64_t n = call->p->k;
    float *s = cli_alloc((size_t)n * sizeof *s);
    const dtype type = call->x->type;
    for (int64_t i = 0; i < n; i++) s[i] = bits_to_f32(type, bits_from_f32(type, x[i] + tensor_get(&call->p->bias, i)));
    norm_part(call, s, row, 0, n, 0);
    free(s);
}

static void sum_row(const plain_call *call, const float *x, int64_t row)
{
    tensor_set(call->out, row, sum(x, call->p->k, 0.0f, 0, 64));
}

static void mean_row(const plain_call *call, const float *x, int64_t row)
{
    tensor_set(call->out, row, sum(x, call->p->k, 0.0f, 0, 64) / (float)call->p->k);
}

static void embedding_row(const plain_call *call, const float *x, int64_t row)
{
    const int64_t n = call->p->k;
    for (int64_t i = 0; i < n; i++) tensor_set(call->out, row * n + i, call->p->wide[table_row_of(x[0]) * n + i]);
}

/* NaN is the largest; of zeros +0. */
static void max_row(const plain_call *call, const float *x, int64_t row)
{
    float max = -INFINITY;
    for (int64_t i = 0; i < call->p->k && !isnan(max); i++)
        if (isnan(x[i]) || x[i] > max || (x[i] == max && !signbit(x[i]))) max = x[i];
    tensor_set(call->out, row, max);
}

static void argmax_row(const plain_call *call, const float *x, int64_t row)
{
    int32_t at = 0;
    for (int32_t i = 1; i < call->p->k && !isnan(x[at]); i++)
        if (isnan(x[i]) || x[i] > x[at]) at = i;
    *(int32_t *)tensor_at(call->out, row) = at;
}

/* Maximum and logarithm of the denominator, which is a sum of integers; 0 where there is none. */
static void parts(const plain_call *call, const float *x, float *max, float *log)
{
    const int64_t n = call->p->k;
    int64_t total = 0;
    *max = -INFINITY;
    *log = 0.0f;
    for (int64_t i = 0; i < n; i++)
        if (isnan(x[i]) || x[i] > *max) *max = isnan(*max) ? *max : x[i];
    if (!isfinite(*max)) return;
    for (int64_t i = 0; i < n; i++) total += llrint((double)plain_exp(x[i] - *max) * 0x1p30);
    *log = plain_log((float)total * 0x1p-30f);
}

static void logsumexp_row(const plain_call *call, const float *x, int64_t row)
{
    float max, log;
    parts(call, x, &max, &log);
    tensor_set(call->out, row, max + log);
}

static float log_likelihood(const plain_call *call, const float *x)
{
    float max, log;
    parts(call, x, &max, &log);
    return max == -INFINITY ? max : isfinite(max) ? (x[token_of(call->p)] - max) - log : NAN;
}

static void log_likelihood_row(const plain_call *call, const float *x, int64_t row)
{
    tensor_set(call->out, row, log_likelihood(call, x));
}

static void cross_entropy_row(const plain_call *call, const float *x, int64_t row)
{
    tensor_set(call->out, row, -log_likelihood(call, x));
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

void plain_each_row(const plain_call *call, void (*row_fn)(const plain_call *, const float *, int64_t))
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

static void rms_norm_row(const plain_call *call, const float *x, int64_t row)
{
    norm_part(call, x, row, 0, call->p->k, 0);
}
static void layer_norm_row(const plain_call *call, const float *x, int64_t row)
{
    norm_part(call, x, row, 0, call->p->k, 1);
}

static void softmax_plain_row(const plain_call *call, const float *x, int64_t row) { softmax_row(call, x, row, 0); }
static void log_softmax_row(const plain_call *call, const float *x, int64_t row) { softmax_row(call, x, row, 1); }

void plain_softmax(const plain_call *call) { plain_each_row(call, softmax_plain_row); }
void plain_log_softmax(const plain_call *call) { plain_each_row(call, log_softmax_row); }
void plain_rms_norm(const plain_call *call) { plain_each_row(call, rms_norm_row); }
void plain_layer_norm(const plain_call *call) { plain_each_row(call, layer_norm_row); }
void plain_l2_norm(const plain_call *call) { plain_each_row(call, l2_norm_row); }
void plain_group_norm(const plain_call *call) { plain_each_row(call, group_norm_row); }
void plain_add_rms_norm(const plain_call *call) { plain_each_row(call, add_rms_norm_row); }
void plain_logsumexp(const plain_call *call) { plain_each_row(call, logsumexp_row); }
void plain_log_likelihood(const plain_call *call) { plain_each_row(call, log_likelihood_row); }
void plain_cross_entropy(const plain_call *call) { plain_each_row(call, cross_entropy_row); }
void plain_sum(const plain_call *call) { plain_each_row(call, sum_row); }
void plain_mean(const plain_call *call) { plain_each_row(call, mean_row); }
void plain_max(const plain_call *call) { plain_each_row(call, max_row); }
void plain_argmax(const plain_call *call) { plain_each_row(call, argmax_row); }
void plain_embedding(const plain_call *call) { plain_each_row(call, embedding_row); }

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
    void plain_##name(const plain_call *call) { plain_each_row(call, name##_row); }

ELEMENTS(activate, call->fault == FAULT_LIBM ? x / (1.0f + expf(-x)) : plain_activation(call->p->op->activation, x))
ELEMENTS(gated, plain_activation(call->p->op->activation, x) * w)
ELEMENTS(add, x + w)
ELEMENTS(sub, x - w)
ELEMENTS(mul, x *w)
ELEMENTS(div, x / w)
ELEMENTS(scale, fmaf(x, SCALE_FACTOR, SCALE_BIAS))
