/* Hosts: their own thread pools, their own parallel regions, their own floating-point environments. */
#include <omp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "invariance.h"
#include "rows.h"

typedef struct {
    void (*body)(void *arg, int worker);
    void *arg;
    int worker;
} job;

static void *run_job(void *arg)
{
    const job *j = arg;
    j->body(j->arg, j->worker);
    return NULL;
}

/* One thread a worker. */
static void threads_for(void *user, int workers, void (*body)(void *arg, int worker), void *arg)
{
    pthread_t *threads = malloc((size_t)workers * sizeof *threads);
    job *jobs = malloc((size_t)workers * sizeof *jobs);
    ++*(_Atomic int *)user;
    for (int w = 0; w < workers; w++) {
        jobs[w] = (job){body, arg, w};
        if (pthread_create(&threads[w], NULL, run_job, &jobs[w])) abort();
    }
    for (int w = 0; w < workers; w++) pthread_join(threads[w], NULL);
    free(threads);
    free(jobs);
}

static void serial_for(void *user, int workers, void (*body)(void *arg, int worker), void *arg)
{
    ++*(_Atomic int *)user;
    for (int w = 0; w < workers; w++) body(arg, w);
}

static void backwards_for(void *user, int workers, void (*body)(void *arg, int worker), void *arg)
{
    ++*(_Atomic int *)user;
    for (int w = workers; w-- > 0;) body(arg, w);
}

long rows_hooks(const row_op *op)
{
    static const samebits_parallel_for hooks[] = {threads_for, serial_for, backwards_for};
    static const int64_t heights[] = {1, 4, 37, 129};
    long differing = 0;
    for (size_t h = 0; h < sizeof hooks / sizeof *hooks; h++)
        for (int threads = 1; threads <= 9; threads += 4) {
            _Atomic int calls = 0;
            samebits_options o;
            samebits_context *c;
            samebits_options_default(&o);
            o.threads = threads;
            o.parallel_for = hooks[h];
            o.parallel_user = (void *)&calls;
            assert_int_equal(samebits_create(&c, &o), SAMEBITS_OK);
            for (size_t i = 0; i < sizeof heights / sizeof *heights; i++) {
                unsigned char *have = rows_run(op, c, (int64_t)i, heights[i]);
                differing += rows_differing(op, have, (int64_t)i, heights[i]);
                free(have);
            }
            samebits_destroy(&c);
        }
    return differing;
}

/* A product large enough to share out uses the host's threads, as many as it may. */
void test_hook_used(void **state)
{
    (void)state;
    static const samebits_parallel_for hooks[] = {threads_for, serial_for, backwards_for};
    test_rng rng = {91};
    test_tensor *a = TENSOR(TEST_F32, 129, 300), *b = TENSOR(TEST_F32, 300, 400), *out = TENSOR(TEST_F32, 129, 400);
    test_random(a, &rng);
    test_random(b, &rng);
    for (size_t h = 0; h < sizeof hooks / sizeof *hooks; h++) {
        _Atomic int calls = 0;
        samebits_options o;
        samebits_context *c;
        samebits_options_default(&o);
        o.threads = 4;
        o.parallel_for = hooks[h];
        o.parallel_user = (void *)&calls;
        assert_int_equal(samebits_create(&c, &o), SAMEBITS_OK);
        assert_int_equal(samebits_matmul(c, &a->dl, &b->dl, NULL, &out->dl), SAMEBITS_OK);
        assert_true(calls > 0);
        samebits_destroy(&c);
    }
}

static int ended_with(pid_t child)
{
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    return WEXITSTATUS(ended);
}

/* The child of a process whose host has used OpenMP, and this library not yet. */
static void fork_of_host(test_tensor *a, test_tensor *b, test_tensor *want, test_tensor *have)
{
    _Atomic int workers = 0;
#pragma omp parallel num_threads(4)
    workers++;
    assert_in_range(workers, 2, 4);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        alarm(60);
        samebits_options o;
        samebits_context *c;
        samebits_options_default(&o);
        for (int threads = 1; threads <= 4; threads += 3) {
            o.threads = threads;
            if (samebits_create(&c, &o)) _exit(2);
            if (samebits_matmul(c, &a->dl, &b->dl, NULL, threads == 1 ? &want->dl : &have->dl)) _exit(2);
            samebits_destroy(&c);
        }
        _exit(memcmp(have->memory, want->memory, want->size) != 0);
    }
    assert_int_equal(ended_with(child), 0);
}

/* The child of a process that has used threads: the same bits, and no waiting for threads it does not have. */
void test_fork(void **state)
{
    (void)state;
    test_rng rng = {92};
    test_tensor *a = TENSOR(TEST_F32, 129, 300), *b = TENSOR(TEST_F32, 300, 400), *want = TENSOR(TEST_F32, 129, 400);
    test_tensor *have = TENSOR(TEST_F32, 129, 400);
    test_random(a, &rng);
    test_random(b, &rng);
    fork_of_host(a, b, want, have);
    samebits_options o;
    samebits_context *c;
    samebits_options_default(&o);
    o.threads = 4;
    assert_int_equal(samebits_create(&c, &o), SAMEBITS_OK);
    assert_int_equal(samebits_matmul(c, &a->dl, &b->dl, NULL, &want->dl), SAMEBITS_OK);
    for (int fresh = 0; fresh < 3; fresh++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            alarm(60);
            if (fresh == 1 && samebits_create(&c, &o)) _exit(2);
            if (fresh == 2) test_set(a, 0, test_get(a, 0) + 1.0f); /* control: another row 0 */
            if (samebits_matmul(c, &a->dl, &b->dl, NULL, &have->dl)) _exit(2);
            _exit(memcmp(have->memory, want->memory, want->size) != 0);
        }
        assert_int_equal(ended_with(child), fresh == 2);
    }
    samebits_destroy(&c);
}

typedef struct {
    const row_op *op;
    samebits_context *context;
    int64_t first, rows;
    test_tensor *x, *out;
    samebits_status status;
} call;

/* Tensors are made before the threads start: the list of tensors has no lock. */
static call make_call(const row_op *op, samebits_context *context, int64_t first, int64_t rows)
{
    call c = {op, context, first, rows, TENSOR(op->in, rows, op->width_in), TENSOR(op->out, rows, op->width_out), 0};
    test_scatter(c.x, (char *)op->x->memory + (size_t)(first * op->width_in) * test_dtype_size(op->in));
    return c;
}

static void *run_call(void *arg)
{
    call *c = arg;
    for (int repeat = 0; repeat < 4 && !c->status; repeat++) {
        test_poison(c->out);
        c->status = c->op->run(c->op, c->context, &c->x->dl, &c->out->dl);
    }
    return NULL;
}

static long check_call(const call *c)
{
    assert_int_equal(c->status, SAMEBITS_OK);
    return rows_differing(c->op, c->out->memory, c->first, c->rows);
}

enum { CALLS = 6 };

long rows_nested(const row_op *op)
{
    samebits_options o;
    samebits_context *c;
    samebits_options_default(&o);
    o.threads = 3;
    assert_int_equal(samebits_create(&c, &o), SAMEBITS_OK);
    long differing = 0;
    const int levels = omp_get_max_active_levels();
    for (int active = 1; active <= 2; active++) {
        omp_set_max_active_levels(active);
        call calls[CALLS];
        for (int i = 0; i < CALLS; i++) calls[i] = make_call(op, c, i, 1 + 9 * i);
#pragma omp parallel for num_threads(3) schedule(dynamic, 1)
        for (int i = 0; i < CALLS; i++) run_call(&calls[i]);
        for (int i = 0; i < CALLS; i++) differing += check_call(&calls[i]);
    }
    omp_set_max_active_levels(levels);
    samebits_destroy(&c);
    return differing;
}

long rows_shared(const row_op *op)
{
    long differing = 0;
    for (int shared = 0; shared < 2; shared++) {
        samebits_options o;
        samebits_context *contexts[CALLS];
        call calls[CALLS];
        pthread_t threads[CALLS];
        samebits_options_default(&o);
        o.threads = 2;
        for (int i = 0; i < CALLS; i++) {
            assert_int_equal(samebits_create(&contexts[i], &o), SAMEBITS_OK);
            calls[i] = make_call(op, contexts[shared ? 0 : i], i, 1 + 7 * i);
        }
        for (int i = 0; i < CALLS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_call, &calls[i]), 0);
        for (int i = 0; i < CALLS; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < CALLS; i++) {
            differing += check_call(&calls[i]);
            samebits_destroy(&contexts[i]);
        }
    }
    return differing;
}

#if defined(__x86_64__)
/* MXCSR: flush to zero, denormals are zero, the three other roundings, a sticky flag; last: every exception
 * traps, which is no place for the control. */
static const uint64_t environments[] = {0x9FC0, 0x9F80, 0x1FC0, 0x3F80, 0x5F80, 0x7F80, 0xFFC0, 0x1FA0, 0x0000};
static uint64_t control_word(void) { return _mm_getcsr(); }
static void set_control_word(uint64_t word) { _mm_setcsr((unsigned)word); }
#elif defined(__aarch64__)
/* FPCR: flush to zero, in f16 too, default NaN, the three other roundings, the other f16; last: every exception traps
 * where the CPU can, which is no place for the control. */
static const uint64_t environments[] = {0x01000000, 0x01080000, 0x02000000, 0x00400000, 0x00800000,
                                        0x00C00000, 0x03C80000, 0x04000000, 0x00009F00};
static uint64_t control_word(void)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
}
static void set_control_word(uint64_t word) { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }
#endif

long rows_environment(const row_op *op)
{
    samebits_options o;
    samebits_context *c;
    samebits_options_default(&o);
    o.threads = 2;
    assert_int_equal(samebits_create(&c, &o), SAMEBITS_OK);
    const uint64_t before = control_word();
    long differing = 0;
    for (size_t i = 0; i < sizeof environments / sizeof *environments - (size_t)op->is_control; i++)
        for (int64_t rows = 1; rows < 20; rows += 9) {
            call k = make_call(op, c, (int64_t)i, rows);
            set_control_word(environments[i]);
            const uint64_t set = control_word(); /* a CPU ignores bits that it lacks */
            run_call(&k);
            const uint64_t after = control_word();
            set_control_word(before);
            differing += check_call(&k) + (after != set);
        }
    samebits_destroy(&c);
    return differing;
}
