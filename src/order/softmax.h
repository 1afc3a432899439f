/* softmax and log_softmax in portable-1 (spec/ops/softmax.md). The denominator is a sum of integers, so no
 * order of the entries can move it. */
#ifndef SB_ORDER_SOFTMAX_H
#define SB_ORDER_SOFTMAX_H

#include "base/float16.h"
#include "order/exp.h"
#include "order/functions.h"

/* The score of an entry with a mask; without one it is x * scale. A mask of -Inf hides it, whatever x is. */
SB_INLINE float sb_softmax_score(float x, float scale, float slope, float mask)
{
    return mask == -INFINITY ? mask : x * scale + slope * mask;
}

/* RNE(e * 2^30) for e = exp(s - max), 0 <= e <= 1: what an entry adds to the denominator. Adding 2^52 in f64 rounds to
 * an integer, kept in the low bits; a compiler makes vectors of it, which it does not of lrintf. */
SB_INLINE int64_t sb_softmax_weight(float e)
{
    const double zero = 0x1p52, shifted = (double)(e * 0x1p30f) + zero;
    int64_t bits, zero_bits;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&zero_bits, &zero, sizeof zero_bits);
    return bits - zero_bits;
}

/* The f32 denominator of a sum of weights; the product is exact. */
SB_INLINE float sb_softmax_denominator(int64_t total) { return (float)total * 0x1p-30f; }

/* From the parts of a row, its maximum and the logarithm of its denominator (0 without one): logsumexp, and
 * log_softmax of one entry. */
SB_INLINE float sb_logsumexp(const float parts[2]) { return parts[0] + parts[1]; }
SB_INLINE float sb_log_probability(float x, const float parts[2])
{
    if (parts[0] == -INFINITY) return -INFINITY;
    return parts[0] < INFINITY ? (x - parts[0]) - parts[1] : sb_float(SB_NAN_F32);
}

#endif
