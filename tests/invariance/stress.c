/* Threads that come and go, many at a time, and a process that may use one core only. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <samebits/samebits.h>

#include "invariance.h"
#include "support/memory.h"
#include "support/tensor.h"

enum { ROWS = 65, DEPTH = 300, WIDTH = 130, THREADS = 64, ROUNDS = 5 };

typedef struct {
    samebits_context *context; /* NULL: one of its own */
    int threads;
    test_tensor *a, *b, *out;
    samebits_status status;
} product;

static samebits_context *context_of(int threads)
{
    samebits_options o;
    samebits_context *c;
    samebits_options_default(&o);
    o.threads = threads;
    return samebits_create(&c, &o) ? NULL : c;
}

static void *run(void *arg)
{
    product *p = arg;
    samebits_context *own = p->context ? NULL : context_of(p->threads);
    p->status = samebits_matmul(own ? own : p->context, &p->a->dl, &p->b->dl, NULL, &p->out->dl);
    samebits_destroy(&own);
    return NULL;
}

static test_tensor *random_matrix(int64_t rows, int64_t columns, uint64_t seed)
{
    test_rng rng = {seed};
    test_tensor *t = TENSOR(TEST_F32, rows, columns);
    test_random(t, &rng);
    return t;
}

/* The product that all others must repeat, on one thread. */
static test_tensor *expected(test_tensor *a, test_tensor *b)
{
    product p = {NULL, 1, a, b, TENSOR(TEST_F32, ROWS, WIDTH), 0};
    run(&p);
    assert_int_equal(p.status, SAMEBITS_OK);
    return p.out;
}

/* Rounds of threads that call once and end: with a context of their own, with one for all; the last has another row. */
void test_thread_exit(void **state)
{
    (void)state;
    product calls[THREADS];
    pthread_t threads[THREADS];
    test_tensor *a = random_matrix(ROWS, DEPTH, 95), *b = random_matrix(DEPTH, WIDTH, 96), *want = expected(a, b);
    test_tensor *other = random_matrix(ROWS, DEPTH, 95);
    test_set(other, 0, test_get(other, 0) + 1.0f);
    for (int i = 0; i < THREADS; i++) calls[i] = (product){NULL, 2, a, b, TENSOR(TEST_F32, ROWS, WIDTH), 0};
    calls[THREADS - 1].a = other; /* the control */
    samebits_context *shared = context_of(2);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < THREADS; i++) {
            calls[i].context = round % 2 ? shared : NULL;
            test_poison(calls[i].out);
            assert_int_equal(pthread_create(&threads[i], NULL, run, &calls[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(calls[i].status, SAMEBITS_OK);
            assert_int_equal(memcmp(calls[i].out->memory, want->memory, want->size) != 0, i == THREADS - 1);
        }
    }
    samebits_destroy(&shared);
}

/* Hooks in which the thread that calls is cancelled, and that pass a point of cancellation. */
static void cancel_here(void)
{
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

static void cancelled_for(void *user, int workers, void (*body)(void *arg, int worker), void *arg)
{
    (void)user;
    cancel_here();
    for (int w = 0; w < workers; w++) body(arg, w);
}

static samebits_status cancelled_stock(void *user, const DLTensor *a, const DLTensor *b, DLTensor *out)
{
    (void)user, (void)a, (void)b, (void)out;
    cancel_here();
    return SAMEBITS_ERR_UNSUPPORTED;
}

/* With an epilogue and above a limit: a stock product is then asked while the call holds memory. */
static __attribute__((noinline)) void run_above_limit(product *p)
{
    samebits_epilogue e;
    samebits_mode_params mode;
    samebits_epilogue_default(&e);
    e.activation = SAMEBITS_ACTIVATION_RELU;
    samebits_mode_params_default(&mode);
    mode.limit = 1;
    samebits_mode_begin(&mode);
    p->status = samebits_matmul(p->context, &p->a->dl, &p->b->dl, &e, &p->out->dl);
    samebits_mode_end();
}

/* A thread's body. It ends in a frame without variables that ASan guards: a cancellation leaves their guards on the
 * stack, and ASan's own end of the thread would meet them. */
static void *run_to_cancellation(void *arg)
{
    run_above_limit(arg);
    pthread_testcancel();
    return NULL;
}

/* Calls in a thread that a hook cancels or, if microseconds is not negative, this one after that time. */
static void *run_cancelled(product *p, int microseconds)
{
    pthread_t thread;
    void *result = NULL;
    test_poison(p->out);
    p->status = SAMEBITS_ERR_UNSUPPORTED;
    assert_int_equal(pthread_create(&thread, NULL, run_to_cancellation, p), 0);
    if (microseconds >= 0) {
        usleep((useconds_t)microseconds);
        pthread_cancel(thread);
    }
    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

/* A host's thread that is cancelled in a call ends after it: the product is whole, its memory is given back, and the
 * context serves others. */
void test_cancelled(void **state)
{
    (void)state;
    enum { IN_POOL, IN_STOCK, CALLS = 40 };
    product p = {context_of(1), 1, random_matrix(ROWS, DEPTH, 93), random_matrix(DEPTH, WIDTH, 94), NULL, 0};
    test_tensor *want = p.out = TENSOR(TEST_F32, ROWS, WIDTH);
    run_above_limit(&p);
    samebits_destroy(&p.context);
    p.out = TENSOR(TEST_F32, ROWS, WIDTH);
    for (int i = 0; i < CALLS; i++) {
        test_memory memory;
        test_memory_init(&memory);
        samebits_options o;
        samebits_options_default(&o);
        o.threads = 3;
        o.allocator = test_memory_allocator(&memory);
        if (i == IN_POOL) o.parallel_for = cancelled_for;
        if (i == IN_STOCK) o.stock = cancelled_stock;
        assert_int_equal(samebits_create(&p.context, &o), SAMEBITS_OK);
        const long base = memory.live;
        for (int call = 0; call < 2; call++) {
            const void *result = run_cancelled(&p, i > IN_STOCK ? 20 * i : -1);
            if (i <= IN_STOCK) assert_ptr_equal(result, PTHREAD_CANCELED);
            assert_int_equal(p.status, SAMEBITS_OK);
            assert_int_equal(memory.live, base);
            assert_memory_equal(p.out->memory, want->memory, want->size);
        }
        samebits_destroy(&p.context);
    }
}

/* Contexts made when only one core may be used, with one thread a core and with more threads than cores. */
void test_one_core(void **state)
{
    (void)state;
    cpu_set_t all, one;
    test_tensor *a = random_matrix(ROWS, DEPTH, 97), *b = random_matrix(DEPTH, WIDTH, 98), *want = expected(a, b);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    static const int counts[] = {0, 2, 64};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        product p = {context_of(counts[i]), 0, a, b, TENSOR(TEST_F32, ROWS, WIDTH), 0};
        assert_int_equal(samebits_context_threads(p.context), counts[i] ? counts[i] : 1);
        test_poison(p.out);
        run(&p);
        assert_int_equal(p.status, SAMEBITS_OK);
        assert_memory_equal(p.out->memory, want->memory, want->size);
        samebits_destroy(&p.context);
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}
