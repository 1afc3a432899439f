/* What the random calls of samebits verify --fuzz are drawn from. */
#ifndef DRAW_H
#define DRAW_H

#include "plain.h"

/* Terms that a case may add up: most are small, so that there are many. */
int64_t draw_budget(rng *r);
/* 1 to `most`, each power of two as likely as the next, often beside a multiple of what kernels work in. */
int64_t draw_size(rng *r, int64_t most);
layout draw_layout(rng *r);

/* The host's way to call: threads of its own or ours, rounding mode and flushing. */
typedef struct manner {
    setting how;
    int flush, round;
} manner;

manner draw_manner(rng *r, samebits_cpu cpu);
void manner_enter(const manner *m);
/* Returns whether the host's settings are as they were. */
int manner_leave(const manner *m);

#endif
