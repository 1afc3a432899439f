/* Small things everything else uses. */
#ifndef SB_BASE_H
#define SB_BASE_H

#if defined(__FAST_MATH__)
#error "samebits must not be built with fast-math: it would change the order of the arithmetic"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "samebits needs FLT_EVAL_METHOD 0: use SSE arithmetic (-mfpmath=sse)"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "samebits supports little-endian machines only"
#endif
#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8
#error "samebits supports 64-bit machines only"
#endif

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A kernel's body is inlined so that its constant arguments fold. Without optimisation nothing folds, and each copy of
 * a body would keep places of its own in the frame: 12 MB of them in one of Clang's. */
#if defined(__OPTIMIZE__)
#define SB_INLINE static inline __attribute__((always_inline))
#else
#define SB_INLINE static inline
#endif
#define SB_ALIGN     64
#define SB_MIN(a, b) ((a) < (b) ? (a) : (b))
#define SB_MAX(a, b) ((a) > (b) ? (a) : (b))

SB_INLINE int64_t sb_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }
SB_INLINE int64_t sb_round_up(int64_t a, int64_t b) { return sb_ceil_div(a, b) * b; }

SB_INLINE uint32_t sb_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

SB_INLINE double sb_double(uint64_t u)
{
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

SB_INLINE float sb_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

#endif
