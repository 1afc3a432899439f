/* The best of many numbers, in one written sequence: larger ones first, of equal ones the lower index, NaN before all.
 */
#ifndef SB_SELECT_H
#define SB_SELECT_H

#include "base/float16.h"

/* A number and its index as one key: the best have the lowest. -0 and +0 are equal. */
SB_INLINE uint64_t sb_rank(float x, int64_t index)
{
    const int32_t bits = (int32_t)sb_bits(x + 0.0f), key = bits ^ ((bits >> 31) & 0x7FFFFFFF);
    const uint32_t high = sb_is_nan(x) ? 0 : (uint32_t)((int64_t)INT32_MAX - key);
    return (uint64_t)high << 32 | (uint64_t)index;
}
SB_INLINE int64_t sb_rank_index(uint64_t rank) { return (int64_t)(rank & 0xFFFFFFFFu); }

/* Offers a rank to the `count` best so far, at most k >= 1, which are a heap with the worst of them first. */
void sb_offer(uint64_t *best, int64_t *count, int64_t k, uint64_t rank);
/* Makes such a heap a list, the best first. */
void sb_sort_best(uint64_t *best, int64_t count);

/* Any list of ranks made ready to give the best first, one at a time. */
void sb_queue_best(uint64_t *ranks, int64_t count);
uint64_t sb_take_best(uint64_t *queue, int64_t *count);

#endif
