/* Reproducible numbers made with integer arithmetic alone, so that every machine gets the same inputs
 * (docs/cli.md, section Inputs). */
#ifndef RNG_H
#define RNG_H

#include <stdint.h>

typedef struct rng {
    uint64_t state;
} rng;

/* splitmix64. */
static inline uint64_t rng_next(rng *r)
{
    r->state += 0x9E3779B97F4A7C15u;
    uint64_t z = r->state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* In [0, n). */
static inline int64_t rng_below(rng *r, int64_t n) { return (int64_t)(rng_next(r) % (uint64_t)n); }

/* Bits of an f32: a random sign, a mantissa, and an exponent in [-span, span]; one in 32 is a zero. */
static inline uint32_t rng_f32_bits(rng *r, int span)
{
    const uint64_t u = rng_next(r);
    const uint32_t sign = (uint32_t)(u >> 63) << 31;
    if ((u >> 47 & 31) == 0) return sign;
    const uint32_t exponent = 127u - (uint32_t)span + (uint32_t)(u >> 23 & 0xFFFFFF) % (2u * (uint32_t)span + 1u);
    return sign | exponent << 23 | (uint32_t)(u & 0x7FFFFF);
}

/* Bits of an f64: sign, exponent and 23 bits of mantissa of such an f32, and 29 bits more; zeros stay zeros. */
static inline uint64_t rng_f64_bits(rng *r, int span)
{
    const uint32_t high = rng_f32_bits(r, span);
    const uint64_t low = rng_next(r) >> 35, sign = (uint64_t)(high >> 31) << 63;
    if (!(high << 1)) return sign;
    return sign | (uint64_t)((high >> 23 & 0xFF) + 1023 - 127) << 52 | (uint64_t)(high & 0x7FFFFF) << 29 | low;
}

#endif
