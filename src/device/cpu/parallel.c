#include "device/cpu/parallel.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/fpenv.h"

typedef struct {
    sb_task *task;
    void *arg;
    int64_t tasks;
    _Atomic int64_t next;
} run;

int sb_workers(const samebits_context *context, int64_t tasks)
{
    return (int)SB_MAX(1, SB_MIN(tasks, (int64_t)context->options.threads));
}

/* Tasks are taken one by one, so a worker that the host starts late, or never, costs no correctness. */
static void work(void *arg, int worker)
{
    run *r = arg;
    const sb_fpenv caller = sb_fpenv_enter();
    for (;;) {
        const int64_t index = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
        if (index >= r->tasks) break;
        r->task(r->arg, index, worker);
    }
    sb_fpenv_leave(caller);
}

/* A child of fork has none of its parent's OpenMP threads, and GNU's runtime would wait for them for ever. The
 * first process to use them is remembered; its children work alone, or with a host's parallel_for. */
static int threads_are_ours(void)
{
    static _Atomic int owner;
    int first = 0;
    const int self = (int)getpid();
    return atomic_compare_exchange_strong(&owner, &first, self) || first == self;
}

void sb_parallel(const samebits_context *context, int64_t tasks, sb_task *task, void *arg)
{
    run r = {.task = task, .arg = arg, .tasks = tasks, .next = 0};
    const int workers = sb_workers(context, tasks);
    if (workers == 1) {
        work(&r, 0);
        return;
    }
    if (context->options.parallel_for) {
        context->options.parallel_for(context->options.parallel_user, workers, work, &r);
        return;
    }
    if (!threads_are_ours()) {
        work(&r, 0);
        return;
    }
    /* Inside a host's own parallel region OpenMP gives one thread here: slower, same bits. */
#pragma omp parallel for num_threads(workers) schedule(static, 1)
    for (int w = 0; w < workers; w++) work(&r, w);
}
