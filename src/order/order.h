/* Order portable-1 in code: the constants and the scalar arithmetic (spec/order.md). */
#ifndef SB_ORDER_H
#define SB_ORDER_H

#include <math.h>

#include "base/base.h"

/* A sum restarts every SB_CHUNK terms; the chunks are then added in ascending order. */
#define SB_CHUNK 256

/* dot (spec/order.md, section dot). x and w are f32 with element strides. */
SB_INLINE float sb_dot(const float *x, int64_t x_stride, const float *w, int64_t w_stride, int64_t k)
{
    float total = 0.0f;
    for (int64_t begin = 0; begin < k; begin += SB_CHUNK) {
        const int64_t end = SB_MIN(begin + SB_CHUNK, k);
        float chunk = 0.0f;
        for (int64_t i = begin; i < end; i++) chunk = fmaf(x[i * x_stride], w[i * w_stride], chunk);
        total = begin ? total + chunk : chunk;
    }
    return total;
}

/* The same of f64. */
SB_INLINE double sb_dot_f64(const double *x, int64_t x_stride, const double *w, int64_t w_stride, int64_t k)
{
    double total = 0.0;
    for (int64_t begin = 0; begin < k; begin += SB_CHUNK) {
        const int64_t end = SB_MIN(begin + SB_CHUNK, k);
        double chunk = 0.0;
        for (int64_t i = begin; i < end; i++) chunk = fma(x[i * x_stride], w[i * w_stride], chunk);
        total = begin ? total + chunk : chunk;
    }
    return total;
}

#endif
