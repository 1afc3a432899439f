#include "device/cpu/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include "base/cancel.h"
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

/* A child of fork has none of its parent's threads, and GNU's OpenMP, which the library shares with its host, would
 * wait for those of its own for ever, whoever started them. So the children of a process that had threads work alone,
 * or with a host's parallel_for. */
static _Atomic int had_threads, threads_are_lost;

static void before_fork(void)
{
#if __has_include(<sys/single_threaded.h>)
    if (__libc_single_threaded) return;
#endif
    atomic_store(&had_threads, 1);
}

static void in_child(void) { atomic_store(&threads_are_lost, atomic_load(&had_threads)); }

/* When the library is loaded, since a host may fork before its first call. */
__attribute__((constructor)) static void watch_forks(void)
{
    if (pthread_atfork(before_fork, NULL, in_child)) atomic_store(&threads_are_lost, 1);
}

static void run_own(run *r, int workers)
{
    /* Inside a host's own parallel region OpenMP gives one thread here: slower, same bits. */
#pragma omp parallel for num_threads(workers) schedule(static, 1)
    for (int w = 0; w < workers; w++) work(r, w);
}

void sb_parallel(const samebits_context *context, int64_t tasks, sb_task *task, void *arg)
{
    run r = {.task = task, .arg = arg, .tasks = tasks, .next = 0};
    const int workers = sb_workers(context, tasks);
    if (workers == 1) {
        work(&r, 0);
        return;
    }
    if (!context->options.parallel_for && atomic_load_explicit(&threads_are_lost, memory_order_relaxed)) {
        work(&r, 0);
        return;
    }
    /* Other threads work on what lies on this one's stack: it must not end before them. */
    const int caller = sb_cancel_wait();
    if (context->options.parallel_for)
        context->options.parallel_for(context->options.parallel_user, workers, work, &r);
    else
        run_own(&r, workers);
    sb_cancel_resume(caller);
}
