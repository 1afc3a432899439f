/* Sums along a row in portable-1 (spec/order.md, section sums): norms and means.
 *
 * Inside a chunk, lane l adds the elements l, l + LANES, l + 2 LANES, ... from +0; the lanes are then folded
 * in halves; the chunks' totals are added in ascending order. A lane that takes no element adds nothing. */
#ifndef SB_SUM_H
#define SB_SUM_H

#include <math.h>

#include "base/base.h"

#define SB_SUM_LANES 64
#define SB_SUM_CHUNK 16384

/* lane l += lane l + half, for half = LANES / 2 .. 1. Takes the lanes from `lanes` on down. */
SB_INLINE float sb_sum_fold(float *lane, int lanes)
{
    for (int half = lanes / 2; half; half /= 2)
        for (int l = 0; l < half; l++) lane[l] = lane[l] + lane[l + half];
    return lane[0];
}

#endif
