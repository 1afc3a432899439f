/* Masks of attention: which keys a row sees, and what is added to its scores. */
#ifndef SB_ATTENTION_MASK_H
#define SB_ATTENTION_MASK_H

#include "ops/tensor.h"

/* One row of a mask over the keys. */
typedef struct sb_mask_row {
    const char *data;
    sb_dtype dtype;
    int64_t step; /* elements from key to key */
} sb_mask_row;

/* seen[j] becomes 1 or more where key `key[j]`, or `first + j` if key is NULL, is visible; else it is left. */
void sb_mask_seen(const sb_mask_row *row, const int32_t *key, int64_t first, int64_t count, uint16_t *seen);

/* bias[j] of key[j]: the mask's value; for a bool mask 0, or -inf where it hides. `run`: the keys are consecutive. */
void sb_mask_bias(const sb_mask_row *row, const int32_t *key, int run, int64_t count, float *bias);

#endif
