/* Contexts, options, names and errors. */
#include <pthread.h>

#include "api.h"

static void test_create_destroy(void **state)
{
    (void)state;
    samebits_context *c = NULL;
    assert_ok(samebits_create(&c, NULL));
    assert_non_null(c);
    assert_true(samebits_context_threads(c) >= 1);
    assert_int_not_equal(samebits_context_cpu(c), SAMEBITS_CPU_AUTO);
    assert_true(samebits_cpu_supported(samebits_context_cpu(c)));
    assert_non_null(samebits_cpu_extras(c));
    samebits_destroy(&c);
    assert_null(c);
    samebits_destroy(&c);
    samebits_destroy(NULL);
}

static void test_options_default(void **state)
{
    (void)state;
    samebits_options o;
    memset(&o, 0x5A, sizeof o);
    samebits_options_default(&o);
    assert_int_equal(o.struct_size, sizeof o);
    assert_int_equal(o.threads, 0);
    assert_int_equal(o.cpu, SAMEBITS_CPU_AUTO);
    assert_null(o.allocator.alloc);
    assert_null(o.log);
    assert_null(o.parallel_for);
    assert_null(o.stock);
    samebits_options_default(NULL);
}

static void expect_no_context(const samebits_options *o, samebits_status status, const char *word)
{
    samebits_context *c = (samebits_context *)&c;
    assert_fails(samebits_create(&c, o), status, word);
    assert_null(c);
}

static void test_bad_options(void **state)
{
    (void)state;
    samebits_options good, o;
    samebits_options_default(&good);
    assert_fails(samebits_create(NULL, &good), SAMEBITS_ERR_NULL, "context");
    for (size_t size = 0; size < sizeof o + 16; size++) {
        if (size == sizeof o) continue;
        o = good;
        o.struct_size = size;
        expect_no_context(&o, SAMEBITS_ERR_PARAM, "struct_size");
    }
    o = good;
    o.threads = -1;
    expect_no_context(&o, SAMEBITS_ERR_PARAM, "threads");
    o.threads = INT32_MIN;
    expect_no_context(&o, SAMEBITS_ERR_PARAM, "threads");
    o.threads = INT32_MAX; /* no machine starts that many: an error, not an abort in the thread library */
    expect_no_context(&o, SAMEBITS_ERR_PARAM, "threads");
    o = good;
    o.cpu = (samebits_cpu)99;
    expect_no_context(&o, SAMEBITS_ERR_PARAM, "cpu");
    o.cpu = (samebits_cpu)-1;
    expect_no_context(&o, SAMEBITS_ERR_PARAM, "cpu");
    test_memory memory;
    test_memory_init(&memory);
    o = good;
    o.allocator = test_memory_allocator(&memory);
    o.allocator.free = NULL;
    expect_no_context(&o, SAMEBITS_ERR_PARAM, "allocator");
    o.allocator = test_memory_allocator(&memory);
    o.allocator.alloc = NULL;
    expect_no_context(&o, SAMEBITS_ERR_PARAM, "allocator");
    assert_int_equal(memory.calls, 0);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    samebits_options o;
    test_memory memory;
    test_memory_init(&memory);
    memory.fail_at = 0;
    samebits_options_default(&o);
    o.allocator = test_memory_allocator(&memory);
    expect_no_context(&o, SAMEBITS_ERR_MEMORY, "memory");
    samebits_context *c;
    assert_ok(samebits_create(&c, &o));
    assert_int_equal(memory.live, 1);
    samebits_destroy(&c);
    assert_int_equal(memory.live, 0);
    assert_int_equal(memory.faults, 0);
}

static void test_cpu_levels(void **state)
{
    (void)state;
    static const samebits_cpu levels[] = {SAMEBITS_CPU_AUTO,   SAMEBITS_CPU_SCALAR, SAMEBITS_CPU_AVX2,
                                          SAMEBITS_CPU_AVX512, SAMEBITS_CPU_AMX,    SAMEBITS_CPU_NEON};
    static const char *const names[] = {"auto", "scalar", "avx2", "avx512", "amx", "neon"};
    assert_true(samebits_cpu_supported(SAMEBITS_CPU_AUTO));
    assert_true(samebits_cpu_supported(SAMEBITS_CPU_SCALAR));
    assert_false(samebits_cpu_supported((samebits_cpu)99));
    assert_string_equal(samebits_cpu_name((samebits_cpu)99), "unknown");
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        assert_string_equal(samebits_cpu_name(levels[i]), names[i]);
        samebits_options o;
        samebits_options_default(&o);
        o.cpu = levels[i];
        if (!samebits_cpu_supported(levels[i])) {
            expect_no_context(&o, SAMEBITS_ERR_CPU, names[i]);
            continue;
        }
        samebits_context *c;
        assert_ok(samebits_create(&c, &o));
        if (levels[i] != SAMEBITS_CPU_AUTO) assert_int_equal(samebits_context_cpu(c), levels[i]);
        samebits_destroy(&c);
    }
}

static void test_threads(void **state)
{
    (void)state;
    assert_fails(samebits_context_set_threads(NULL, 1), SAMEBITS_ERR_NULL, "context");
    assert_fails(samebits_context_set_threads(api_context, -1), SAMEBITS_ERR_PARAM, "threads");
    assert_fails(samebits_context_set_threads(api_context, INT32_MAX), SAMEBITS_ERR_PARAM, "threads");
    assert_int_equal(samebits_context_threads(api_context), 2);
    assert_ok(samebits_context_set_threads(api_context, 64));
    assert_int_equal(samebits_context_threads(api_context), 64);
    assert_ok(samebits_context_set_threads(api_context, 0));
    assert_true(samebits_context_threads(api_context) >= 1);
    assert_ok(samebits_context_set_threads(api_context, 2));
    assert_int_equal(samebits_context_threads(NULL), 0);
    assert_int_equal(samebits_context_cpu(NULL), SAMEBITS_CPU_AUTO);
    assert_string_equal(samebits_cpu_extras(NULL), "");
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(samebits_version(), SAMEBITS_VERSION_STRING);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", SAMEBITS_VERSION_MAJOR, SAMEBITS_VERSION_MINOR,
             SAMEBITS_VERSION_PATCH);
    assert_string_equal(version, SAMEBITS_VERSION_STRING);
    assert_string_equal(samebits_order_name(SAMEBITS_ORDER_PORTABLE_1), "portable-1");
    assert_string_equal(samebits_order_name(SAMEBITS_ORDER_INT8_1), "int8-1");
    assert_string_equal(samebits_order_name(SAMEBITS_ORDER_AMX_1), "amx-1");
    assert_string_equal(samebits_order_name((samebits_order)0), "unknown");
    assert_string_equal(samebits_status_name(SAMEBITS_OK), "OK");
    assert_string_equal(samebits_status_name(SAMEBITS_ERR_UNSUPPORTED), "ERR_UNSUPPORTED");
    assert_string_equal(samebits_status_name((samebits_status)-1), "unknown");
    assert_string_equal(samebits_status_name((samebits_status)1000), "unknown");
    for (int i = 0; i <= SAMEBITS_ERR_UNSUPPORTED; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(samebits_status_name((samebits_status)i), samebits_status_name((samebits_status)j));
}

static void *fail_elsewhere(void *arg)
{
    (void)arg;
    samebits_create(NULL, NULL);
    return NULL;
}

/* Another thread's failure does not change this thread's message. */
static void test_last_error(void **state)
{
    (void)state;
    assert_fails(samebits_context_set_threads(api_context, -7), SAMEBITS_ERR_PARAM, "threads");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_non_null(strstr(samebits_last_error(), "-7"));
}

typedef struct {
    int lines;
    char last[300];
} log_state;

static void keep_line(void *user, samebits_log_level level, const char *line)
{
    log_state *log = user;
    assert_int_equal(level, SAMEBITS_LOG_INFO);
    log->lines++;
    snprintf(log->last, sizeof log->last, "%s", line);
}

static void test_log(void **state)
{
    (void)state;
    log_state log = {0};
    samebits_options o;
    samebits_options_default(&o);
    o.threads = 3;
    o.cpu = SAMEBITS_CPU_SCALAR;
    o.log = keep_line;
    o.log_user = &log;
    samebits_context *c;
    assert_ok(samebits_create(&c, &o));
    samebits_destroy(&c);
    assert_int_equal(log.lines, 1);
    assert_non_null(strstr(log.last, "scalar"));
    assert_non_null(strstr(log.last, "3 threads"));
    assert_null(strchr(log.last, '\n'));
}

int api_context_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_create_destroy), API_TEST(test_options_default), API_TEST(test_bad_options),
        API_TEST(test_out_of_memory),  API_TEST(test_cpu_levels),      API_TEST(test_threads),
        API_TEST(test_names),          API_TEST(test_last_error),      API_TEST(test_log),
    };
    return API_RUN(tests);
}
