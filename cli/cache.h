/* K and V of attention: rows of floats, or of GGUF's blocks as caches hold them. */
#ifndef CACHE_H
#define CACHE_H

#include "tensor.h"

/* Columns rounded up to whole blocks of the format. */
int64_t cache_columns(samebits_format format, int64_t columns);
/* (B, Hkv, Lk, columns), all poison. Blocks lie in bytes, those of a row side by side: padded where the layout would
 * part them. */
void cache_make(tensor *t, samebits_format format, layout l, const int64_t shape[4]);
/* Of blocks the kind is that of their scales and minima; the integers are random. */
void cache_fill(tensor *t, samebits_format format, fill kind, rng *r);
/* Row `row` (all dims but the last, row-major) as f32. */
void cache_row(const tensor *t, samebits_format format, int64_t row, int64_t columns, float *out);

#endif
