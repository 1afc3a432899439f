/* exp, log, sin and cos in f64, of order portable-1 (spec/order.md, section f64 functions): what rope needs, where a
 * relative error of 2^-24 in an angle of thousands would be no angle at all. Plain C, of which the compiler makes
 * vectors: each loop over it must be free of branches. */
#ifndef SB_ANGLE_H
#define SB_ANGLE_H

#include <math.h>

#include "base/base.h"

SB_INLINE uint64_t sb_bits64(double d)
{
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return u;
}

SB_INLINE double sb_float64(uint64_t u)
{
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

#define SB_ANGLE_MAGIC       0x1.8p+52             /* adding it rounds to an integer, kept in the low bits */
#define SB_ANGLE_LN2         0x1.62e42fefa39efp-1  /* 3FE62E42FEFA39EF */
#define SB_ANGLE_LOG2E       0x1.71547652b82fep+0  /* 3FF71547652B82FE */
#define SB_ANGLE_TWO_PI      0x1.921fb54442d18p+2  /* 401921FB54442D18 */
#define SB_ANGLE_TWO_OVER_PI 0x1.45f306dc9c883p-1  /* 3FE45F306DC9C883 */
#define SB_ANGLE_HALF_PI     0x1.921fb54442d18p+0  /* 3FF921FB54442D18 */
#define SB_ANGLE_HALF_PI_LO  0x1.1a62633145c07p-54 /* 3C91A62633145C07: pi / 2 - HALF_PI */
#define SB_ANGLE_SQRT_HALF   0x3FE6A09E667F3BCDull /* the bits of sqrt(1/2) */

/* log(x) = e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), x = 2^e m with m in [sqrt(1/2), sqrt(2)). x is normal. */
SB_INLINE double sb_log64(double x)
{
    const uint64_t u = sb_bits64(x);
    const int64_t e = (int64_t)(u - SB_ANGLE_SQRT_HALF) >> 52;
    const double m = sb_float64(u - ((uint64_t)e << 52)), s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 1.0 / 25;
    for (int k = 23; k >= 1; k -= 2) p = fma(p, z, 1.0 / k);
    return fma((double)e, SB_ANGLE_LN2, (s + s) * p);
}

/* exp(x) = 2^n exp(r), exp(r) by its series to r^13; |x| < 700. */
SB_INLINE double sb_exp64(double x)
{
    static const double inverse_factorial[] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    const double shifted = fma(x, SB_ANGLE_LOG2E, SB_ANGLE_MAGIC), n = shifted - SB_ANGLE_MAGIC;
    const double r = fma(-n, SB_ANGLE_LN2, x);
    double p = inverse_factorial[13];
    for (int k = 12; k >= 0; k--) p = fma(p, r, inverse_factorial[k]);
    return p * sb_float64((sb_bits64(shifted) << 52) + 0x3FF0000000000000u);
}

/* cos and sin of an angle below 2^51 quarter turns, in three steps. Quarter turns are taken off, the rest is left: */
SB_INLINE double sb_angle_reduce(double angle, uint64_t *quarter)
{
    const double shifted = fma(angle, SB_ANGLE_TWO_OVER_PI, SB_ANGLE_MAGIC), n = shifted - SB_ANGLE_MAGIC;
    *quarter = sb_bits64(shifted); /* counted in the low bits */
    return fma(-n, SB_ANGLE_HALF_PI_LO, fma(-n, SB_ANGLE_HALF_PI, angle));
}

/* the rest goes into the series to r^12 and r^11; errors 2^-41 and 2^-37; */
SB_INLINE void sb_angle_series(double r, double *cosine, double *sine)
{
    const double z = r * r;
    double s = -1.0 / 39916800;
    s = fma(s, z, 1.0 / 362880);
    s = fma(s, z, -1.0 / 5040);
    s = fma(s, z, 1.0 / 120);
    s = fma(s, z, -1.0 / 6);
    *sine = fma(s, r * z, r);
    double c = 1.0 / 479001600;
    c = fma(c, z, -1.0 / 3628800);
    c = fma(c, z, 1.0 / 40320);
    c = fma(c, z, -1.0 / 720);
    c = fma(c, z, 1.0 / 24);
    c = fma(c, z, -1.0 / 2);
    *cosine = fma(c, z, 1.0);
}

/* and each quarter turn makes (cos, sin) into (-sin, cos). */
SB_INLINE void sb_angle_turn(uint64_t quarter, double *cosine, double *sine)
{
    const uint64_t c = sb_bits64(*cosine), s = sb_bits64(*sine), odd = -(quarter & 1);
    *cosine = sb_float64(((c & ~odd) | (s & odd)) ^ ((quarter + 1) & 2) << 62);
    *sine = sb_float64(((s & ~odd) | (c & odd)) ^ (quarter & 2) << 62);
}

SB_INLINE void sb_cos_sin(double angle, double *cosine, double *sine)
{
    uint64_t quarter;
    sb_angle_series(sb_angle_reduce(angle, &quarter), cosine, sine);
    sb_angle_turn(quarter, cosine, sine);
}

#endif
