#include "ops/select.h"

/* Moves the rank at `at` down until none below it is worse. */
static void sink(uint64_t *heap, int64_t count, int64_t at)
{
    const uint64_t rank = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1] > heap[child]) child++;
        if (heap[child] <= rank) break;
        heap[at] = heap[child];
    }
    heap[at] = rank;
}

void sb_offer(uint64_t *best, int64_t *count, int64_t k, uint64_t rank)
{
    if (*count == k) {
        if (rank >= best[0]) return;
        best[0] = rank;
        sink(best, k, 0);
        return;
    }
    int64_t at = (*count)++;
    for (; at > 0 && best[(at - 1) / 2] < rank; at = (at - 1) / 2) best[at] = best[(at - 1) / 2];
    best[at] = rank;
}

void sb_sort_best(uint64_t *best, int64_t count)
{
    while (count > 1) {
        const uint64_t worst = best[0];
        best[0] = best[--count];
        best[count] = worst;
        sink(best, count, 0);
    }
}

/* With all bits turned the best is the worst. */
void sb_queue_best(uint64_t *ranks, int64_t count)
{
    for (int64_t i = 0; i < count; i++) ranks[i] = ~ranks[i];
    for (int64_t i = count / 2; i-- > 0;) sink(ranks, count, i);
}

uint64_t sb_take_best(uint64_t *queue, int64_t *count)
{
    const uint64_t best = ~queue[0];
    queue[0] = queue[--*count];
    if (*count) sink(queue, *count, 0);
    return best;
}
