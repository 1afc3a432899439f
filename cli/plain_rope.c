/* rope in plain C (spec/order.md, section f64 functions; spec/ops/rope.md). All rows of a problem have one position. */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

#include "plain.h"

static const double ln2 = 0x1.62e42fefa39efp-1, log2e = 0x1.71547652b82fep+0, magic = 0x1.8p+52;

static double plain_log64(double x)
{
    int e;
    double m = frexp(x, &e); /* [1/2, 1) */
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2.0;
        e--;
    }
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 1.0 / 25.0;
    for (int k = 23; k > 0; k -= 2) p = fma(p, z, 1.0 / (double)k);
    return fma((double)e, ln2, 2.0 * s * p);
}

static double plain_exp64(double x)
{
    const double n = fma(x, log2e, magic) - magic, r = fma(-n, ln2, x);
    double p = 0.0, factorial = 6227020800.0;
    for (int k = 13; k >= 0; k--) {
        p = k == 13 ? 1.0 / factorial : fma(p, r, 1.0 / factorial);
        factorial /= k ? k : 1;
    }
    return ldexp(p, (int)n);
}

static void plain_cos_sin(double angle, double *cosine, double *sine)
{
    static const double s[] = {-6, 120, -5040, 362880, -39916800}, c[] = {-2, 24, -720, 40320, -3628800, 479001600};
    const double n = fma(angle, 0x1.45f306dc9c883p-1, magic) - magic;
    const double r = fma(-n, 0x1.1a62633145c07p-54, fma(-n, 0x1.921fb54442d18p+0, angle)), z = r * r;
    double p = 1.0 / s[4], q = 1.0 / c[5];
    for (int i = 3; i >= 0; i--) p = fma(p, z, 1.0 / s[i]);
    for (int i = 4; i >= 0; i--) q = fma(q, z, 1.0 / c[i]);
    const double sin_r = fma(p, r * z, r), cos_r = fma(q, z, 1.0);
    switch ((int)((int64_t)n & 3)) {
    case 0: *cosine = cos_r, *sine = sin_r; break;
    case 1: *cosine = -sin_r, *sine = cos_r; break;
    case 2: *cosine = -cos_r, *sine = -sin_r; break;
    default: *cosine = sin_r, *sine = -cos_r; break;
    }
}

static double pair_of_turns(const samebits_rope_params *p, double dims, double turns)
{
    const double length = (double)p->original_context / (turns * 0x1.921fb54442d18p+2);
    return dims * plain_log64(length) / (2.0 * plain_log64((double)p->base));
}

/* The frequency of pair i; *magnitude gets the factor of cos and sin. */
static double frequency_of(const samebits_rope_params *p, double dims, int64_t i, double *magnitude)
{
    const double scale = (double)p->scale, f = plain_exp64(-((double)(2 * i) * plain_log64((double)p->base)) / dims);
    *magnitude = (double)p->magnitude;
    if (p->extrapolation == 0.0f) return f * scale;
    const double low = fmax(floor(pair_of_turns(p, dims, (double)p->beta_fast)), 0.0);
    const double high = fmin(ceil(pair_of_turns(p, dims, (double)p->beta_slow)), dims - 1.0);
    const double ramp = fmin(fmax(((double)i - low) / fmax(high - low, 0.001), 0.0), 1.0);
    const double mix = (1.0 - ramp) * (double)p->extrapolation;
    *magnitude *= fma(0.1, plain_log64(1.0 / scale), 1.0);
    return f * scale * (1.0 - mix) + f * mix;
}

void plain_rope(const plain_call *call)
{
    fenv_t host;
    fegetenv(&host);
    if (call->fault != FAULT_FLUSH) fesetenv(FE_DFL_ENV);
    samebits_rope_params p;
    rope_params_of(call->p, &p);
    const int64_t n = call->p->k, pairs = (n - p.first) / 2;
    float *x = cli_alloc((size_t)n * sizeof *x);
    for (int64_t row = 0; row < call->x->shape[0]; row++) {
        tensor_row(call->x, row, x);
        for (int64_t i = 0; i < p.first; i++) tensor_set(call->out, row * n + i, x[i]);
        for (int64_t i = 0; i < pairs; i++) {
            double magnitude, c64, s64;
            const double angle = rope_position_of(call->p) * frequency_of(&p, (double)(2 * pairs), i, &magnitude);
            plain_cos_sin(angle, &c64, &s64);
            const float c = call->fault == FAULT_LIBM ? cosf((float)angle) : (float)(c64 * magnitude);
            const float s = (float)(s64 * magnitude);
            const int64_t a = p.first + (p.layout == SAMEBITS_ROPE_HALVES ? i : 2 * i);
            const int64_t b = a + (p.layout == SAMEBITS_ROPE_HALVES ? pairs : 1);
            tensor_set(call->out, row * n + a, fmaf(x[a], c, -(x[b] * s)));
            tensor_set(call->out, row * n + b, fmaf(x[b], c, x[a] * s));
        }
    }
    free(x);
    fesetenv(&host);
}
