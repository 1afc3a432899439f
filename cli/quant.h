/* GGUF's quantised blocks, read from the spec (spec/formats.md), and random ones to test with. */
#ifndef QUANT_H
#define QUANT_H

#include "tensor.h"

/* A block in plain numbers: weight i is d * scale[i / 16] * q[i], less dmin * min[i / 16] where the format
 * has minima. Codes are replaced by the integers that they stand for. */
typedef struct quant_block {
    int q[256];
    int scale[16], min[16];
    float d, dmin;
    float half[4]; /* nvfp4: half of the scale of weights 16i .. 16i + 15, and d is 1 */
} quant_block;

int quant_has_min(samebits_format format);
/* Where d lies in a block; dmin follows it. */
int quant_scale_offset(samebits_format format);
void quant_read(samebits_format format, const uint8_t *bytes, quant_block *block);
/* Row of k weights as f32. */
void quant_row(samebits_format format, const uint8_t *bytes, int64_t k, float *out);
/* Rows of blocks of random integers in the last dim. UNIT scales (and minima) are of moderate size; other kinds are for
 * formats whose scales are f16. */
void quant_fill(samebits_format format, tensor *w, fill kind, rng *r);

#endif
