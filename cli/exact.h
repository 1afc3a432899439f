/* What ops would give without rounding, in double: --accuracy measures against it. */
#ifndef EXACT_H
#define EXACT_H

#include "op.h"

/* Whether there is something to measure. */
int has_exact(const op *o);
/* The outputs of a row of x; not of f64 and complex64. */
void exact_row(const problem *p, const float *x, double *out);
/* The products of all rows of f64 x, or the parts of those of complex64 x, before any epilogue. */
void exact_wide(const problem *p, const tensor *x, long double *out);

#endif
