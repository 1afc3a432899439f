/* What rope works out once a call: the frequency of each pair (spec/ops/rope.md, section frequencies). */
#ifndef SB_ROPE_FREQUENCY_H
#define SB_ROPE_FREQUENCY_H

#include <samebits/rope.h>

#include "ops/tensor.h"

/* Checks params against rows of n elements; *pairs gets how many are turned. Errors: PARAM. */
samebits_status sb_rope_check(const samebits_rope_params *params, int64_t n, int64_t *pairs);

/* The frequency of each pair, and the factor of cos and sin. factor.data may be NULL. */
void sb_rope_frequencies(const samebits_rope_params *params, int64_t pairs, const sb_view *factor, double *frequency,
                         double *magnitude);

/* Which position each pair follows. */
void sb_rope_sections_of(const samebits_rope_params *params, int64_t pairs, uint8_t *section);

#endif
