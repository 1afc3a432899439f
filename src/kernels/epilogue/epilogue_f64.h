/* The epilogue of f64 products in plain C, which each row compiles for its own instruction set: next to a product of
 * f64 it is not worth lanes written by hand. */
#ifndef SB_EPILOGUE_F64_H
#define SB_EPILOGUE_F64_H

#include <math.h>

#include "kernels/epilogue/epilogue.h"

SB_INLINE void epilogue_f64(const sb_epilogue_args *a)
{
    const double *acc = a->acc, *c = a->c, *bias = a->bias;
    double *out = a->out;
    for (int64_t i = 0; i < a->n; i++) {
        double t = a->alpha * acc[i];
        if (c) t = fma(a->beta, c[i], t);
        if (bias) t = t + bias[i];
        if (a->activation == SAMEBITS_ACTIVATION_RELU && t <= 0.0) t = 0.0;
        out[i] = sb_canonical_f64(t);
    }
}

#endif
