/* softmax, log_softmax, rms_norm, layer_norm: bad input, in place, edge sizes, special values. */
#include <math.h>
#include <stdlib.h>

#include "api.h"

static samebits_status call_softmax(op_case *c)
{
    samebits_softmax_params p;
    samebits_softmax_params_default(&p);
    p.scale = 0.5f;
    if (c->count > 2) {
        p.mask = c->pointer[2];
        p.sinks = c->pointer[3];
        p.slopes = c->pointer[4];
    }
    return samebits_softmax(c->context, c->pointer[0], &p, c->pointer[1]);
}
static samebits_status call_log_softmax(op_case *c)
{
    return samebits_log_softmax(c->context, c->pointer[0], c->pointer[1]);
}
static samebits_status call_rms(op_case *c)
{
    return samebits_rms_norm(c->context, c->pointer[0], c->count > 2 ? c->pointer[2] : NULL, 1e-5f, c->pointer[1]);
}
static samebits_status call_layer(op_case *c)
{
    return samebits_layer_norm(c->context, c->pointer[0], c->pointer[2], c->pointer[3], 1e-5f, c->pointer[1]);
}

static op_case row_case(samebits_status (*call)(op_case *), test_dtype in, test_dtype out)
{
    test_rng rng = {71};
    op_case c = {.context = api_context, .call = call};
    op_add(&c, "x", TENSOR(in, 2, 3, 4, 37), 1, 8, OP_IN_PLACE);
    op_add(&c, "out", TENSOR(out, 2, 3, 4, 37), 1, 8, OP_OUT);
    test_random_small(c.argument[0].tensor, &rng);
    return c;
}

static void add(op_case *c, const char *name, test_tensor *t, int min_dims, int max_dims)
{
    test_rng rng = {72};
    test_random_small(t, &rng);
    op_add(c, name, t, min_dims, max_dims, OP_OPTIONAL);
}

static void test_errors(void **state)
{
    (void)state;
    static const test_dtype kinds[][2] = {{TEST_F32, TEST_F32},
                                          {TEST_F16, TEST_F16},
                                          {TEST_F16, TEST_F32},
                                          {TEST_BF16, TEST_BF16},
                                          {TEST_BF16, TEST_F32}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        op_case c = row_case(call_softmax, kinds[i][0], kinds[i][1]);
        op_check_errors(&c);
        add(&c, "mask", TENSOR(kinds[i][0], 4, 37), 0, 8);
        add(&c, "sinks", TENSOR(TEST_F32, 3), 1, 1);
        add(&c, "slopes", TENSOR(TEST_F32, 3), 1, 1);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        c = row_case(call_log_softmax, kinds[i][0], kinds[i][1]);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        c = row_case(call_rms, kinds[i][0], kinds[i][1]);
        op_check_errors(&c);
        add(&c, "weight", TENSOR(kinds[i][1], 37), 1, 1);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        c = row_case(call_layer, kinds[i][0], kinds[i][1]);
        add(&c, "weight", TENSOR(kinds[i][0], 37), 1, 1);
        add(&c, "bias", TENSOR(TEST_F32, 37), 1, 1);
        op_check_errors(&c);
        op_check_memory(&c, 2);
    }
}

static void test_parameters(void **state)
{
    (void)state;
    op_case c = row_case(call_rms, TEST_F32, TEST_F32);
    DLTensor *x = c.pointer[0], *out = c.pointer[1];
    test_save(c.argument[1].tensor);
    assert_fails(samebits_rms_norm(api_context, x, NULL, -1e-6f, out), SAMEBITS_ERR_PARAM, "eps");
    assert_fails(samebits_rms_norm(api_context, x, NULL, NAN, out), SAMEBITS_ERR_PARAM, "eps");
    assert_fails(samebits_layer_norm(api_context, x, NULL, NULL, -1.0f, out), SAMEBITS_ERR_PARAM, "eps");
    samebits_softmax_params p;
    samebits_softmax_params_default(&p);
    samebits_softmax_params_default(NULL);
    p.struct_size++;
    assert_fails(samebits_softmax(api_context, x, &p, out), SAMEBITS_ERR_PARAM, "struct_size");
    samebits_softmax_params_default(&p);
    test_tensor *flat = TENSOR(TEST_F32, 4, 37), *heads = TENSOR(TEST_F32, 4);
    p.sinks = &heads->dl;
    assert_fails(samebits_softmax(api_context, &flat->dl, &p, &TENSOR(TEST_F32, 4, 37)->dl), SAMEBITS_ERR_RANK,
                 "sinks");
    out->dtype = TENSOR(TEST_F16, 1)->dl.dtype;
    assert_fails(samebits_log_softmax(api_context, x, out), SAMEBITS_ERR_DTYPE, "out");
    assert_true(test_unchanged(c.argument[1].tensor));
}

static samebits_status (*const calls[])(op_case *) = {call_softmax, call_log_softmax, call_rms};

/* out may be x itself: the same bits. */
static void test_in_place(void **state)
{
    (void)state;
    static const int64_t strided[][4] = {{444, 148, 37, 1}, {1, 2, 6, 24}};
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
        for (int dtype = TEST_F32; dtype <= TEST_BF16; dtype++)
            for (int s = 0; s < 2; s++) {
                op_case c = row_case(calls[k], (test_dtype)dtype, (test_dtype)dtype);
                op_expect_ok(&c);
                const int64_t shape[4] = {2, 3, 4, 37};
                test_tensor *both = test_strided((test_dtype)dtype, 4, shape, strided[s], 0);
                void *x = test_gather(c.argument[0].tensor), *want = test_gather(c.argument[1].tensor);
                test_scatter(both, x);
                c.pointer[0] = c.pointer[1] = &both->dl;
                assert_ok(c.call(&c));
                void *have = test_gather(both);
                assert_memory_equal(want, have, 888 * test_dtype_size((test_dtype)dtype));
                free(x);
                free(want);
                free(have);
            }
}

static void test_empty(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{0, 5}, {5, 0}, {0, 0}};
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            op_case c = {.context = api_context, .call = calls[k]};
            op_add(&c, "x", TENSOR(TEST_F32, sizes[i][0], sizes[i][1]), 1, 8, 0);
            op_add(&c, "out", TENSOR(TEST_F32, sizes[i][0], sizes[i][1]), 1, 8, OP_OUT);
            op_expect_ok(&c);
            c.argument[0].tensor->dl.data = c.argument[1].tensor->dl.data = NULL;
            assert_ok(c.call(&c));
        }
}

/* NaN and Inf stay in the row that they are in. */
static void test_special_rows(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        op_case c = row_case(calls[k], TEST_F32, TEST_F32);
        test_tensor *x = c.argument[0].tensor, *out = c.argument[1].tensor, *clean = TENSOR(TEST_F32, 2, 3, 4, 37);
        c.pointer[1] = &clean->dl;
        op_expect_ok(&c);
        c.pointer[1] = &out->dl;
        test_set(x, 3 * 37 + 36, NAN);
        test_set(x, 9 * 37, INFINITY);
        test_set(x, 14 * 37 + 7, -INFINITY);
        op_expect_ok(&c);
        for (int64_t i = 0; i < 24 * 37; i++) {
            const int64_t row = i / 37;
            const uint32_t canonical = 0x7FC00000u;
            if (isnan(test_get(out, i))) assert_memory_equal(test_at(out, i), &canonical, 4);
            if (row == 3) assert_true(isnan(test_get(out, i)));
            if (row != 3 && row != 9 && row != 14) assert_memory_equal(test_at(out, i), test_at(clean, i), 4);
        }
    }
}

/* A mask of -Inf hides whatever x holds; a row without a visible entry gives 0; a visible NaN or +Inf gives NaN. */
static void test_hidden_entries(void **state)
{
    (void)state;
    const float inf = INFINITY;
    const float values[] = {NAN, 1, NAN, 1, 2, 3, NAN, 0, 0, 0, inf, 0},
                masks[] = {-inf, 0, -inf, -inf, -inf, -inf, 0, 0, -inf, 0, 0, 0};
    const float want[] = {0, 1, 0, 0, 0, 0, NAN, NAN, NAN, NAN, NAN, NAN};
    test_tensor *x = TENSOR(TEST_F32, 4, 3), *mask = TENSOR(TEST_F32, 4, 3), *out = TENSOR(TEST_F32, 4, 3);
    for (int i = 0; i < 12; i++) {
        test_set(x, i, values[i]);
        test_set(mask, i, masks[i]);
    }
    samebits_softmax_params params;
    samebits_softmax_params_default(&params);
    params.mask = &mask->dl;
    assert_ok(samebits_softmax(api_context, &x->dl, &params, &out->dl));
    for (int i = 0; i < 12; i++) {
        const uint32_t nan = 0x7FC00000u;
        assert_memory_equal(test_at(out, i), isnan(want[i]) ? (const void *)&nan : &want[i], 4);
    }
}

int api_rows_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_errors), API_TEST(test_parameters),   API_TEST(test_in_place),
        API_TEST(test_empty),  API_TEST(test_special_rows), API_TEST(test_hidden_entries),
    };
    return API_RUN(tests);
}
