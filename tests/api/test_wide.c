/* Products of f64 and complex64: bad input, edge sizes, special values, and the orders they are made of. */
#include <math.h>
#include <stdlib.h>

#include "api.h"

static const test_dtype dtypes[] = {TEST_F64, TEST_C64};

static samebits_status call_addmm(op_case *c)
{
    return samebits_addmm(c->context, c->pointer[3], c->pointer[0], c->pointer[1], 0.5, 2.0, c->pointer[2]);
}

static op_case wide_case(test_dtype dtype)
{
    test_rng rng = {61};
    op_case c = {.context = api_context, .call = api_call_matmul};
    op_add(&c, "a", TENSOR(dtype, 5, 37), 2, 8, 0);
    op_add(&c, "b", TENSOR(dtype, 37, 21), 2, 8, 0);
    op_add(&c, "out", TENSOR(dtype, 5, 21), 2, 8, OP_OUT);
    test_random(c.argument[0].tensor, &rng);
    test_random(c.argument[1].tensor, &rng);
    return c;
}

static void add_epilogue(op_case *c, test_dtype dtype)
{
    test_rng rng = {62};
    op_add(c, "c", TENSOR(dtype, 5, 21), 0, 8, OP_OPTIONAL | OP_IN_PLACE);
    op_add(c, "bias", TENSOR(dtype, 21), 1, 1, OP_OPTIONAL);
    test_random(c->argument[3].tensor, &rng);
    test_random(c->argument[4].tensor, &rng);
    c->call = api_call_epilogue;
}

static void test_errors(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        test_rng rng = {63};
        op_case c = wide_case(dtypes[i]);
        op_check_errors(&c);
        op_check_memory(&c, 1);
        op_check_memory(&c, 3);
        add_epilogue(&c, dtypes[i]);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        c = (op_case){.context = api_context, .call = api_call_linear};
        op_add(&c, "x", TENSOR(dtypes[i], 2, 5, 33), 1, 8, 0);
        op_add(&c, "w", TENSOR(dtypes[i], 21, 33), 2, 2, 0);
        op_add(&c, "out", TENSOR(dtypes[i], 2, 5, 21), 1, 8, OP_OUT);
        test_random(c.argument[0].tensor, &rng);
        test_random(c.argument[1].tensor, &rng);
        op_check_errors(&c);
        c = (op_case){.context = api_context, .call = api_call_matmul};
        op_add(&c, "a", TENSOR(dtypes[i], 3, 2, 5, 9), 2, 8, 0);
        op_add(&c, "b", TENSOR(dtypes[i], 3, 2, 9, 4), 2, 8, 0);
        op_add(&c, "out", TENSOR(dtypes[i], 3, 2, 5, 4), 2, 8, OP_OUT);
        test_random(c.argument[0].tensor, &rng);
        test_random(c.argument[1].tensor, &rng);
        op_check_errors(&c);
    }
}

static void test_dtypes(void **state)
{
    (void)state;
    static const test_dtype all[] = {TEST_F32, TEST_F16, TEST_BF16, TEST_F64, TEST_C64};
    for (int i = 0; i < 2; i++)
        for (int other = 0; other < 5; other++) {
            if (all[other] == dtypes[i]) continue;
            op_case c = wide_case(dtypes[i]);
            c.pointer[1] = &TENSOR(all[other], 37, 21)->dl;
            op_expect(&c, SAMEBITS_ERR_DTYPE, "b", "another b");
            c = wide_case(dtypes[i]);
            c.pointer[2] = &TENSOR(all[other], 5, 21)->dl;
            op_expect(&c, SAMEBITS_ERR_DTYPE, "out", "another out");
            c = wide_case(all[other]);
            c.pointer[2] = &TENSOR(dtypes[i], 5, 21)->dl;
            op_expect(&c, SAMEBITS_ERR_DTYPE, "out", "an out for others");
            c = wide_case(dtypes[i]);
            add_epilogue(&c, dtypes[i]);
            c.pointer[3] = &TENSOR(all[other], 5, 21)->dl;
            op_expect(&c, SAMEBITS_ERR_DTYPE, "c", "another c");
            c = wide_case(all[other]);
            add_epilogue(&c, TEST_F32);
            c.pointer[4] = &TENSOR(dtypes[i], 21)->dl;
            if (all[other] <= TEST_BF16) op_expect(&c, SAMEBITS_ERR_DTYPE, "bias", "a bias for others");
        }
}

static void test_activations(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int a = 0; a < SAMEBITS_ACTIVATION_COUNT; a++) {
            samebits_epilogue e;
            samebits_epilogue_default(&e);
            e.activation = (samebits_activation)a;
            op_case c = wide_case(dtypes[i]);
            c.call = api_call_matmul;
            c.user = &e;
            if (a == SAMEBITS_ACTIVATION_NONE || (!i && a == SAMEBITS_ACTIVATION_RELU))
                op_expect_ok(&c);
            else
                op_expect(&c, SAMEBITS_ERR_PARAM, "activation", "one that has no form here");
        }
}

/* There is no prepared form, and the ops on rows have none of these dtypes. */
static void test_elsewhere(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        test_tensor *w = TENSOR(dtypes[i], 3, 4), *out = TENSOR(dtypes[i], 3, 4);
        samebits_weights *weights = (samebits_weights *)out;
        for (int f = SAMEBITS_FORMAT_F32; f <= SAMEBITS_FORMAT_BF16; f++)
            assert_fails(samebits_weights_prepare(api_context, &w->dl, (samebits_format)f, NULL, &weights),
                         SAMEBITS_ERR_DTYPE, "samebits_linear");
        assert_null(weights);
        test_save(out);
        assert_fails(samebits_softmax(api_context, &w->dl, NULL, &out->dl), SAMEBITS_ERR_DTYPE, "x");
        assert_fails(samebits_add(api_context, &w->dl, &w->dl, &out->dl), SAMEBITS_ERR_DTYPE, "a");
        assert_true(test_unchanged(out));
    }
}

static void test_empty(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{0, 5, 7}, {5, 0, 7}, {0, 0, 7}, {0, 5, 0}, {0, 0, 0}, {5, 0, 0}};
    for (int d = 0; d < 2; d++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            test_tensor *a = TENSOR(dtypes[d], m, k), *b = TENSOR(dtypes[d], k, n), *out = TENSOR(dtypes[d], m, n);
            assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &out->dl));
        }
        test_tensor *a = TENSOR(dtypes[d], 3, 0), *b = TENSOR(dtypes[d], 0, 4), *out = TENSOR(dtypes[d], 3, 4);
        assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &out->dl));
        for (size_t i = 0; i < out->size; i++) assert_int_equal(out->memory[i], 0);
    }
}

static double at64(const test_tensor *t, int64_t i)
{
    double d;
    memcpy(&d, test_at(t, i), sizeof d);
    return d;
}

/* The chain in f64, with factors that f32 does not have. */
static void test_f64_order(void **state)
{
    (void)state;
    enum { M = 3, K = 600, N = 11 };
    test_rng rng = {64};
    test_tensor *a = TENSOR(TEST_F64, M, K), *b = TENSOR(TEST_F64, K, N), *c = TENSOR(TEST_F64, M, N);
    test_tensor *bias = TENSOR(TEST_F64, N), *out = TENSOR(TEST_F64, M, N);
    test_random_small(a, &rng);
    test_random_small(b, &rng);
    test_random_small(c, &rng);
    test_random_small(bias, &rng);
    samebits_epilogue e;
    samebits_epilogue_default(&e);
    e.alpha = 0.1;
    e.beta = 1.0 / 3.0;
    e.c = &c->dl;
    e.bias = &bias->dl;
    assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, &e, &out->dl));
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            double total = 0.0;
            for (int64_t begin = 0; begin < K; begin += 256) {
                double chunk = 0.0;
                for (int64_t k = begin; k < begin + 256 && k < K; k++)
                    chunk = fma(at64(a, i * K + k), at64(b, k * N + j), chunk);
                total = begin ? total + chunk : chunk;
            }
            const double want = fma(e.beta, at64(c, i * N + j), e.alpha * total) + at64(bias, j);
            assert_memory_equal(test_at(out, i * N + j), &want, sizeof want);
        }
}

/* complex64 is the f32 product of twice the depth and width that the spec writes. */
static void test_complex_order(void **state)
{
    (void)state;
    enum { M = 5, K = 300, N = 19 };
    test_rng rng = {65};
    test_tensor *a = TENSOR(TEST_C64, M, K), *b = TENSOR(TEST_C64, K, N), *bias = TENSOR(TEST_C64, N);
    test_tensor *out = TENSOR(TEST_C64, M, N), *wide = TENSOR(TEST_F32, 2 * K, 2 * N),
                *want = TENSOR(TEST_F32, M, 2 * N);
    test_random(a, &rng);
    test_random(b, &rng);
    test_random(bias, &rng);
    for (int64_t i = 0; i < K * N; i++) {
        const int64_t row = 2 * (i / N), column = 2 * (i % N);
        float part[2];
        memcpy(part, test_at(b, i), sizeof part);
        test_set(wide, row * 2 * N + column, part[0]);
        test_set(wide, row * 2 * N + column + 1, part[1]);
        test_set(wide, (row + 1) * 2 * N + column, -part[1]);
        test_set(wide, (row + 1) * 2 * N + column + 1, part[0]);
    }
    samebits_epilogue e;
    samebits_epilogue_default(&e);
    e.alpha = 0.1;
    e.bias = &bias->dl;
    assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, &e, &out->dl));
    DLTensor rows = a->dl, columns = bias->dl;
    int64_t shape[2] = {M, 2 * K}, strides[2] = {2 * K, 1}, width = 2 * N;
    rows.dtype = columns.dtype = want->dl.dtype;
    rows.shape = shape;
    rows.strides = strides;
    columns.shape = &width;
    e.bias = &columns;
    assert_ok(samebits_matmul(api_context, &rows, &wide->dl, &e, &want->dl));
    assert_memory_equal(out->memory, want->memory, want->size);
    /* Complex numbers in C, with numbers that every order adds without rounding. */
    for (int64_t i = 0; i < M * K; i++) memcpy(test_at(a, i), (float[2]){(float)(i % 7) - 3, (float)(i % 5) - 2}, 8);
    for (int64_t i = 0; i < K * N; i++) memcpy(test_at(b, i), (float[2]){(float)(i % 3) - 1, (float)(i % 11) - 5}, 8);
    assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &out->dl));
    for (int64_t i = 0; i < M * N; i++) {
        float re = 0.0f, im = 0.0f, have[2];
        for (int64_t k = 0; k < K; k++) {
            float x[2], y[2];
            memcpy(x, test_at(a, i / N * K + k), sizeof x);
            memcpy(y, test_at(b, k * N + i % N), sizeof y);
            re += x[0] * y[0] - x[1] * y[1];
            im += x[0] * y[1] + x[1] * y[0];
        }
        memcpy(have, test_at(out, i), sizeof have);
        assert_true(have[0] == re && have[1] == im);
    }
}

/* A stored NaN is canonical, an infinity is not repaired, and both stay in their row. */
static void test_special_rows(void **state)
{
    (void)state;
    static const uint64_t canonical[] = {0x7FF8000000000000u, 0x7FC000007FC00000u};
    for (int d = 0; d < 2; d++) {
        test_rng rng = {66};
        test_tensor *a = TENSOR(dtypes[d], 9, 300), *b = TENSOR(dtypes[d], 300, 17);
        test_tensor *clean = TENSOR(dtypes[d], 9, 17), *out = TENSOR(dtypes[d], 9, 17);
        test_random_small(a, &rng);
        test_random_small(b, &rng);
        assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &clean->dl));
        test_set(a, 2 * 300 + 299, -NAN);
        test_set(a, 5 * 300, INFINITY);
        assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &out->dl));
        for (int64_t i = 0; i < 9 * 17; i++)
            if (i / 17 == 2)
                assert_memory_equal(test_at(out, i), &canonical[d], 8);
            else if (i / 17 != 5)
                assert_memory_equal(test_at(out, i), test_at(clean, i), 8);
    }
    test_tensor *a = TENSOR(TEST_C64, 1, 1), *b = TENSOR(TEST_C64, 1, 1), *out = TENSOR(TEST_C64, 1, 1);
    memcpy(a->memory, (float[2]){INFINITY, 0.0f}, 8);
    memcpy(b->memory, (float[2]){1.0f, 0.0f}, 8);
    assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &out->dl));
    assert_memory_equal(out->memory, ((uint32_t[]){0x7F800000, 0x7FC00000}), 8);
}

/* c may be the output, of any strides. */
static void test_in_place(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        test_rng rng = {67};
        op_case c = wide_case(dtypes[d]);
        const int64_t shape[2] = {5, 21}, strides[2] = {3, 20};
        test_tensor *strided = test_strided(dtypes[d], 2, shape, strides, 3), *want = c.argument[2].tensor;
        add_epilogue(&c, dtypes[d]);
        c.call = call_addmm;
        test_random(strided, &rng);
        void *elements = test_gather(strided);
        test_scatter(c.argument[3].tensor, elements);
        free(elements);
        op_expect_ok(&c);
        c.pointer[2] = c.pointer[3] = &strided->dl;
        assert_ok(c.call(&c));
        for (int64_t i = 0; i < 5 * 21; i++) assert_memory_equal(test_at(strided, i), test_at(want, i), 8);
    }
}

/* Pairs of floats need the alignment of a float. */
static void test_alignment(void **state)
{
    (void)state;
    test_rng rng = {68};
    test_tensor *a = TENSOR(TEST_C64, 4, 9), *b = TENSOR(TEST_C64, 8, 5);
    test_tensor *want = TENSOR(TEST_C64, 3, 5), *have = TENSOR(TEST_C64, 4, 5);
    test_random(a, &rng);
    test_random(b, &rng);
    test_tensor *moved = TENSOR(TEST_C64, 3, 8);
    int64_t strides[2] = {9, 1}, shape[2] = {3, 8}, out_shape[2] = {3, 5}, out_strides[2] = {5, 1};
    DLTensor odd = a->dl, out = have->dl;
    odd.shape = shape;
    odd.strides = strides;
    odd.byte_offset = 4;
    out.shape = out_shape;
    out.strides = out_strides;
    out.byte_offset = 4;
    for (int64_t i = 0; i < 24; i++) memcpy(test_at(moved, i), a->memory + 4 + (i / 8 * 9 + i % 8) * 8, 8);
    assert_ok(samebits_matmul(api_context, &moved->dl, &b->dl, NULL, &want->dl));
    assert_ok(samebits_matmul(api_context, &odd, &b->dl, NULL, &out));
    assert_memory_equal(have->memory + 4, want->memory, want->size);
    odd.byte_offset = 2;
    assert_fails(samebits_matmul(api_context, &odd, &b->dl, NULL, &out), SAMEBITS_ERR_STRIDE, "a");
}

int api_wide_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_errors),   API_TEST(test_dtypes),    API_TEST(test_activations),   API_TEST(test_elsewhere),
        API_TEST(test_empty),    API_TEST(test_f64_order), API_TEST(test_complex_order), API_TEST(test_special_rows),
        API_TEST(test_in_place), API_TEST(test_alignment),
    };
    return API_RUN(tests);
}
