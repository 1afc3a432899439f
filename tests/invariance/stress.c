/* Threads that come and go, many at a time, and a process that may use one core only. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <samebits/samebits.h>

#include "invariance.h"
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
