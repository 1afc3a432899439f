#include "exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op_rows.h"
#include "plain.h"

static double exact_activation(samebits_activation activation, double t)
{
    switch (activation) {
    case SAMEBITS_ACTIVATION_RELU: return t > 0.0 ? t : 0.0;
    case SAMEBITS_ACTIVATION_SILU: return t / (1.0 + exp(-t));
    case SAMEBITS_ACTIVATION_GELU: return 0.5 * t * (1.0 + erf(t / sqrt(2.0)));
    case SAMEBITS_ACTIVATION_GELU_TANH:
        return 0.5 * t * (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (t + 0.044715 * t * t * t)));
    case SAMEBITS_ACTIVATION_GELU_QUICK: return t / (1.0 + exp(-1.702 * t));
    case SAMEBITS_ACTIVATION_SIGMOID: return 1.0 / (1.0 + exp(-t));
    case SAMEBITS_ACTIVATION_TANH: return tanh(t);
    case SAMEBITS_ACTIVATION_EXP: return exp(t);
    default: return t;
    }
}

static void exact_product(const problem *p, const float *x, double *out)
{
    const samebits_epilogue *e = &p->epilogue;
    for (int64_t col = 0; col < p->n; col++) {
        double t = 0.0;
        for (int64_t i = 0; i < p->k; i++) t += (double)x[i] * (double)p->wide[col * p->k + i];
        t *= e->alpha;
        if (e->c) t += e->beta * (double)tensor_get(&p->c, col);
        if (e->bias) t += (double)tensor_get(&p->bias, col);
        out[col] = exact_activation(e->activation, t);
    }
}

/* Returns 0 if the op does not work element by element. */
static int exact_elements(const problem *p, const float *x, double *out)
{
    for (int64_t i = 0; i < p->k; i++) {
        const double d = (double)x[i], w = p->op->flags & OP_COLUMNS ? (double)tensor_get(&p->w, i) : 0.0;
        const double f = exact_activation(p->op->activation, d);
        if (p->op->plain == plain_activate)
            out[i] = f;
        else if (p->op->plain == plain_gated)
            out[i] = f * w;
        else if (p->op->plain == plain_add)
            out[i] = d + w;
        else if (p->op->plain == plain_sub)
            out[i] = d - w;
        else if (p->op->plain == plain_mul)
            out[i] = d * w;
        else if (p->op->plain == plain_div)
            out[i] = d / w;
        else if (p->op->plain == plain_scale)
            out[i] = d * (double)SCALE_FACTOR + (double)SCALE_BIAS;
        else
            return 0;
    }
    return 1;
}

static void exact_rope(const problem *p, const float *x, double *out)
{
    samebits_rope_params params;
    rope_params_of(p, &params);
    const int64_t pairs = (p->k - params.first) / 2;
    const int halves = params.layout == SAMEBITS_ROPE_HALVES;
    for (int64_t i = 0; i < params.first; i++) out[i] = (double)x[i];
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t a = params.first + (halves ? i : 2 * i), b = a + (halves ? pairs : 1);
        const double angle = rope_position_of(p) * pow((double)params.base, -(double)i / (double)pairs);
        out[a] = (double)x[a] * cos(angle) - (double)x[b] * sin(angle);
        out[b] = (double)x[b] * cos(angle) + (double)x[a] * sin(angle);
    }
}

/* From the maximum and the sum of exponentials: one number a row. */
static double exact_number(const problem *p, const float *x, double max, double total)
{
    double sum = 0.0;
    if (!strcmp(p->op->name, "logsumexp")) return max + log(total);
    if (!strcmp(p->op->name, "log_likelihood")) return (double)x[token_of(p)] - max - log(total);
    if (!strcmp(p->op->name, "cross_entropy")) return max + log(total) - (double)x[token_of(p)];
    for (int64_t i = 0; i < p->k; i++) sum += (double)x[i];
    return strcmp(p->op->name, "mean") ? sum : sum / (double)p->k;
}

/* rms_norm and layer_norm of columns [begin, end). */
static void exact_norm(const problem *p, const double *x, int64_t begin, int64_t end, int centered, double *out)
{
    const double n = (double)(end - begin);
    double mean = 0.0, square = 0.0;
    for (int64_t i = begin; i < end && centered; i++) mean += x[i] / n;
    for (int64_t i = begin; i < end; i++) square += (x[i] - mean) * (x[i] - mean) / n;
    for (int64_t i = begin; i < end; i++) {
        out[i] = (x[i] - mean) / sqrt(square + (double)NORM_EPS) * (double)tensor_get(&p->w, i);
        if (centered) out[i] += (double)tensor_get(&p->bias, i);
    }
}

/* Returns 0 if the op is no norm. add_rms_norm's sum is taken as it is stored: its rounding is add's. */
static int exact_norms(const problem *p, const float *x, double *out)
{
    const int64_t n = p->k, groups = p->op->plain == plain_group_norm ? group_count(p) : 1;
    const int adds = p->op->plain == plain_add_rms_norm, rms = adds || p->op->plain == plain_rms_norm;
    const int l2 = p->op->plain == plain_l2_norm;
    if (!rms && !l2 && groups == 1 && p->op->plain != plain_layer_norm && p->op->plain != plain_group_norm) return 0;
    double length = 0.0, *wide = cli_alloc((size_t)n * sizeof *wide);
    for (int64_t i = 0; i < n; i++) {
        const float sum = adds ? x[i] + tensor_get(&p->bias, i) : x[i];
        wide[i] = (double)bits_to_f32(p->op->x, bits_from_f32(p->op->x, sum));
        length += wide[i] * wide[i];
    }
    for (int64_t g = 0; g < groups && !l2; g++) exact_norm(p, wide, g * n / groups, (g + 1) * n / groups, !rms, out);
    for (int64_t i = 0; i < n && l2; i++) out[i] = wide[i] / fmax(sqrt(length), (double)NORM_EPS);
    free(wide);
    return 1;
}

/* softmaxes, sums and likelihoods. */
static void exact_sums(const problem *p, const float *x, double *out)
{
    const int64_t n = p->k;
    double max = (double)x[0], total = 0.0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, (double)x[i]);
    for (int64_t i = 0; i < n; i++) total += exp((double)x[i] - max);
    if (p->op->flags & OP_ONE) {
        *out = exact_number(p, x, max, total);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - max;
        out[i] = p->op->plain == plain_softmax ? exp(d) / total : d - log(total);
    }
}

int has_exact(const op *o)
{
    /* These select, or round what is stored; YaRN's own angles are a definition, not an approximation. */
    static const char *const none[] = {"max", "argmax", "embedding", "top_k", "sample"};
    for (size_t i = 0; i < CLI_COUNT(none); i++)
        if (!strcmp(o->name, none[i])) return 0;
    return !(o->flags & OP_YARN) && !(dtype_is_wide(o->x) && o->flags & OP_EPILOGUE);
}

void exact_row(const problem *p, const float *x, double *out)
{
    if (p->op->flags & OP_HAS_N)
        exact_product(p, x, out);
    else if (p->op->plain == plain_rope)
        exact_rope(p, x, out);
    else if (!exact_elements(p, x, out) && !exact_norms(p, x, out))
        exact_sums(p, x, out);
}

void exact_wide(const problem *p, const tensor *x, long double *out)
{
    const int complex = x->type == T_C64;
    for (int64_t row = 0; row < x->shape[0]; row++)
        for (int64_t col = 0; col < p->n; col++) {
            const double *xd = tensor_at(x, row * p->k), *wd = tensor_at(&p->w, col * p->k);
            const float *xc = tensor_at(x, row * p->k), *wc = tensor_at(&p->w, col * p->k);
            long double re = 0.0L, im = 0.0L;
            for (int64_t i = 0; i < p->k && !complex; i++) re += (long double)xd[i] * (long double)wd[i];
            for (int64_t i = 0; i < 2 * p->k && complex; i += 2) {
                re += (long double)xc[i] * (long double)wc[i] - (long double)xc[i + 1] * (long double)wc[i + 1];
                im += (long double)xc[i] * (long double)wc[i + 1] + (long double)xc[i + 1] * (long double)wc[i];
            }
            *out++ = re;
            if (complex) *out++ = im;
        }
}
