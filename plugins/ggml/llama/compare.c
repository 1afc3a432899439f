#include "compare.h"

#include "error.h"

#include <math.h>
#include <string.h>

uint64_t hash_row(const float *row, int count)
{
    uint64_t hash = 0xCBF29CE484222325u;
    const unsigned char *bytes = (const unsigned char *)row;
    for (size_t i = 0; i < (size_t)count * sizeof *row; i++) hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return hash;
}

int row_argmax(const float *row, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

void compare_rows(const float *base, const float *other, int count, struct difference *sum)
{
    for (int i = 0; i < count; i++) {
        if (memcmp(base + i, other + i, sizeof *base) == 0) continue;
        sum->moved++;
        const double change = fabs((double)base[i] - (double)other[i]);
        if (isnan(change))
            sum->max_change = INFINITY;
        else if (change > sum->max_change)
            sum->max_change = change;
    }
    sum->compared += count;
    sum->argmax_moved |= row_argmax(base, count) != row_argmax(other, count);
}

int check_row(const float *row, int count)
{
    int equal = 0;
    for (int i = 0; i < count; i++) {
        if (!isfinite(row[i]))
            return fail("logit %d of the base run is not finite: nothing can be judged against it", i);
        equal += row[i] == row[0];
    }
    if (equal == count) return fail("all logits of the base run are equal: nothing can be judged against it");
    return 0;
}
