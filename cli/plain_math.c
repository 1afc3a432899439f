#include "plain_math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cli.h"

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* The spec writes its constants as bits; so does this file. */
#define LOG2E  float_of(0x3FB8AA3B)
#define MAGIC  float_of(0x4B400000)
#define LN2_HI float_of(0x3F317200)
#define LN2_LO float_of(0x35BFBE8E)
#define NAN_32 float_of(0x7FC00000)

/* c[0] + c[1] x + ... by Horner's rule in fma. */
static float horner(const uint32_t *c, int count, float x)
{
    float p = float_of(c[count - 1]);
    for (int i = count - 2; i >= 0; i--) p = fmaf(p, x, float_of(c[i]));
    return p;
}

static float exp_q(float r)
{
    static const uint32_t c[] = {0x3F800000, 0x3EFFFFFE, 0x3E2AAA49, 0x3D2AAC79, 0x3C091CF1, 0x3AB5121A};
    return horner(c, CLI_COUNT(c), r);
}

float plain_exp(float x)
{
    if (isnan(x)) return NAN_32;
    if (x < -104.0f) x = -104.0f;
    if (x > 89.0f) x = 89.0f;
    const float n = fmaf(x, LOG2E, MAGIC) - MAGIC;
    const float r = fmaf(n, -LN2_LO, fmaf(n, -LN2_HI, x));
    /* One rounding when the result leaves the normal range: the product is exact in double. */
    return (float)ldexp((double)fmaf(exp_q(r), r, 1.0f), (int)n);
}

int64_t plain_exp_weight(float x) { return llrint((double)plain_exp(x) * 0x1p30); }

float plain_tanh(float x)
{
    static const uint32_t c[] = {0xBEAAAAA7, 0x3E08879A, 0xBD5CE4F9, 0x3CB177BE, 0xBC076803, 0x3B2941FD, 0xB9EECAD7};
    if (isnan(x)) return NAN_32;
    const float a = fabsf(x), z = a * a;
    if (a < 0.9f) return copysignf(fmaf(horner(c, CLI_COUNT(c), z) * z, a, a), x);
    const float t = a < 10.0f ? a : 10.0f;
    const float n = fmaf(t + t, LOG2E, MAGIC) - MAGIC, two_n = ldexpf(1.0f, (int)n);
    const float r = fmaf(n, -LN2_LO, fmaf(n, -LN2_HI, t + t));
    return copysignf(1.0f - 2.0f / fmaf(two_n * r, exp_q(r), two_n + 1.0f), x);
}

float plain_erf(float x)
{
    static const uint32_t c[] = {0x3E0375D4, 0xBEC093A1, 0x3DE716E5, 0xBCDC04B0, 0x3BAA4B2F, 0xBA5446B2, 0x38ABA731};
    static const uint32_t v[] = {0xB9804E2A, 0xBF905119, 0x3EB9975C, 0xBDD44158, 0x3CB4F113, 0xBB452ABC, 0x3949C5BA};
    if (isnan(x)) return NAN_32;
    const float a = fabsf(x);
    if (a < 0.9140625f) return copysignf(fmaf(horner(c, CLI_COUNT(c), a * a), a, a), x);
    const float t = a < 4.0f ? a : 4.0f, p = horner(v, CLI_COUNT(v), t);
    const float n = fmaf(fmaf(-t, t, p), LOG2E, MAGIC) - MAGIC, two_n = ldexpf(1.0f, (int)n);
    const float r = fmaf(n, -LN2_LO, fmaf(-t, t, n * -LN2_HI) + p);
    return copysignf(fmaf(-two_n * r, exp_q(r), 1.0f - two_n), x);
}

float plain_log(float x)
{
    static const uint32_t c[] = {0xBF000000, 0x3EAAAAAA, 0xBE800113, 0x3E4CD004, 0xBE2A3922,
                                 0x3E116D0D, 0xBE06C2A4, 0x3E02ADC1, 0xBD9C5ACF};
    if (!(x >= 0.0f)) return NAN_32;
    if (x == 0.0f) return -INFINITY;
    if (isinf(x)) return x;
    const int small = x < 0x1p-126f;
    const uint32_t u = bits_of(small ? x * 0x1p23f : x);
    const int32_t exponent = (int32_t)(u - 0x3F3504F3) >> 23;
    const float e = (float)(exponent - (small ? 23 : 0));
    const float f = float_of(u - ((uint32_t)exponent << 23)) - 1.0f;
    const float base = e * LN2_HI, high = base + f, low = (base - high) + f;
    return high + fmaf(horner(c, CLI_COUNT(c), f), f * f, fmaf(e, LN2_LO, low));
}

/* x * sigmoid(y) with one exp of a number that is not positive. */
static float gate(float x, float y)
{
    const float e = plain_exp(-fabsf(y));
    if (y >= 0.0f) return x / (1.0f + e);
    return (x < -0x1.fffffep+127f ? -0x1.fffffep+127f : x) * e / (1.0f + e);
}

float plain_activation(samebits_activation activation, float t)
{
    const float h = 0.5f * (t < -0x1.fffffep+127f ? -0x1.fffffep+127f : t);
    switch (activation) {
    case SAMEBITS_ACTIVATION_RELU: return isnan(t) || t > 0.0f ? t : 0.0f;
    case SAMEBITS_ACTIVATION_SILU: return gate(t, t);
    case SAMEBITS_ACTIVATION_GELU: return fmaf(h, plain_erf(t * float_of(0x3F3504F3)), h);
    case SAMEBITS_ACTIVATION_GELU_TANH: return gate(t, t * fmaf(t * t, float_of(0x3D922279), float_of(0x3FCC422A)));
    case SAMEBITS_ACTIVATION_GELU_QUICK: return gate(t, t * float_of(0x3FD9DB23));
    case SAMEBITS_ACTIVATION_SIGMOID: return gate(1.0f, t);
    case SAMEBITS_ACTIVATION_TANH: return plain_tanh(t);
    case SAMEBITS_ACTIVATION_EXP: return plain_exp(t);
    default: return t;
    }
}
