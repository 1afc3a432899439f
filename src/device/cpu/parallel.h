/* Spreads independent tasks over workers. Which worker runs a task never changes a bit. */
#ifndef SB_PARALLEL_H
#define SB_PARALLEL_H

#include "base/context.h"

/* A task: `index` in [0, tasks), `worker` in [0, sb_workers(context, tasks)), for scratch memory. */
typedef void sb_task(void *arg, int64_t index, int worker);

/* How many workers sb_parallel will use at most. */
int sb_workers(const samebits_context *context, int64_t tasks);

/* Runs every task once, each in the floating-point environment of the orders. */
void sb_parallel(const samebits_context *context, int64_t tasks, sb_task *task, void *arg);

#endif
