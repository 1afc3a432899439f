/* Ops element by element: bad input, in place, broadcasting, edge sizes, special values. */
#include <math.h>
#include <stdlib.h>

#include "api.h"

static samebits_status call_activate(op_case *c)
{
    return samebits_activate(c->context, c->pointer[0], SAMEBITS_ACTIVATION_SILU, c->pointer[1]);
}
static samebits_status call_scale(op_case *c)
{
    return samebits_scale(c->context, c->pointer[0], 1.5f, -0.25f, c->pointer[1]);
}
static samebits_status call_gated(op_case *c)
{
    return samebits_gated(c->context, c->pointer[0], c->pointer[2], SAMEBITS_ACTIVATION_GELU, c->pointer[1]);
}
static samebits_status call_add(op_case *c)
{
    return samebits_add(c->context, c->pointer[0], c->pointer[2], c->pointer[1]);
}
static samebits_status call_sub(op_case *c)
{
    return samebits_sub(c->context, c->pointer[0], c->pointer[2], c->pointer[1]);
}
static samebits_status call_mul(op_case *c)
{
    return samebits_mul(c->context, c->pointer[0], c->pointer[2], c->pointer[1]);
}
static samebits_status call_div(op_case *c)
{
    return samebits_div(c->context, c->pointer[0], c->pointer[2], c->pointer[1]);
}

typedef samebits_status call(op_case *);
static call *const one_operand[] = {call_activate, call_scale};
static call *const two_operands[] = {call_gated, call_add, call_sub, call_mul, call_div};

static op_case one_case(call *f, test_dtype in, test_dtype out)
{
    test_rng rng = {81};
    op_case c = {.context = api_context, .call = f};
    op_add(&c, "x", TENSOR(in, 2, 3, 4, 37), 1, 8, OP_IN_PLACE);
    op_add(&c, "out", TENSOR(out, 2, 3, 4, 37), 1, 8, OP_OUT);
    test_random_small(c.argument[0].tensor, &rng);
    return c;
}

static op_case two_case(call *f, test_dtype a, test_dtype b, test_dtype out)
{
    test_rng rng = {82};
    op_case c = {.context = api_context, .call = f};
    op_add(&c, f == call_gated ? "x" : "a", TENSOR(a, 2, 3, 4, 37), 0, 8, OP_IN_PLACE);
    op_add(&c, "out", TENSOR(out, 2, 3, 4, 37), 0, 8, OP_OUT);
    op_add(&c, f == call_gated ? "y" : "b", TENSOR(b, 2, 3, 4, 37), 0, 8, OP_IN_PLACE);
    test_random_small(c.argument[0].tensor, &rng);
    test_random_small(c.argument[2].tensor, &rng);
    return c;
}

static void test_errors(void **state)
{
    (void)state;
    static const test_dtype kinds[][2] = {
        {TEST_F32, TEST_F32}, {TEST_F16, TEST_F16}, {TEST_F16, TEST_F32}, {TEST_BF16, TEST_BF16}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (size_t k = 0; k < 2; k++) {
            op_case c = one_case(one_operand[k], kinds[i][0], kinds[i][1]);
            op_check_errors(&c);
            op_check_memory(&c, 2);
        }
        for (size_t k = 0; k < 5; k++) {
            op_case c = two_case(two_operands[k], kinds[i][0], kinds[i][1], kinds[i][1]);
            op_check_errors(&c);
            op_check_memory(&c, 2);
        }
    }
}

static void test_parameters(void **state)
{
    (void)state;
    op_case c = two_case(call_gated, TEST_F16, TEST_F16, TEST_BF16);
    op_expect(&c, SAMEBITS_ERR_DTYPE, "out", "a dtype of no operand");
    DLTensor *x = c.pointer[0], *out = &TENSOR(TEST_F16, 2, 3, 4, 37)->dl, *y = c.pointer[2];
    assert_fails(samebits_activate(api_context, x, SAMEBITS_ACTIVATION_COUNT, out), SAMEBITS_ERR_PARAM, "activation");
    assert_fails(samebits_activate(api_context, x, (samebits_activation)-1, out), SAMEBITS_ERR_PARAM, "activation");
    assert_fails(samebits_gated(api_context, x, y, SAMEBITS_ACTIVATION_COUNT, out), SAMEBITS_ERR_PARAM, "activation");
    /* out may not be larger than what the operands broadcast to. */
    DLTensor *row = &TENSOR(TEST_F16, 1, 37)->dl;
    assert_fails(samebits_add(api_context, row, row, &TENSOR(TEST_F16, 2, 37)->dl), SAMEBITS_ERR_SHAPE, "out");
}

/* out may be an operand: the same bits; and layouts in which one dim after another is contiguous. */
static void test_in_place(void **state)
{
    (void)state;
    static const int64_t strided[][4] = {{444, 148, 37, 1}, {1, 2, 6, 24}, {888, 296, 74, 2}, {200, 1000, 1, 5}};
    const int64_t shape[4] = {2, 3, 4, 37};
    for (size_t k = 0; k < 5; k++)
        for (int dtype = TEST_F32; dtype <= TEST_BF16; dtype++)
            for (size_t s = 0; s < sizeof strided / sizeof *strided; s++) {
                const test_dtype d = (test_dtype)dtype;
                op_case c = two_case(two_operands[k], d, d, d);
                op_expect_ok(&c);
                void *x = test_gather(c.argument[0].tensor), *want = test_gather(c.argument[1].tensor);
                test_tensor *both = test_strided(d, 4, shape, strided[s], 0);
                test_scatter(both, x);
                c.pointer[0] = c.pointer[1] = &both->dl;
                assert_ok(c.call(&c));
                void *have = test_gather(both);
                assert_memory_equal(want, have, 888 * test_dtype_size(d));
                free(x);
                free(want);
                free(have);
            }
}

/* An operand that broadcasts gives the bits of one that is written out. */
static void test_broadcast(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{1, 1, 1, 37}, {1, 3, 1, 1}, {2, 1, 4, 1}, {1, 1, 1, 1}, {2, 3, 4, 37}};
    const int64_t full[4] = {2, 3, 4, 37};
    for (size_t k = 0; k < 5; k++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int swapped = 0; swapped < 2; swapped++) {
                op_case c = two_case(two_operands[k], TEST_F32, TEST_F32, TEST_F32);
                test_rng rng = {83};
                test_tensor *small = test_new(TEST_F32, 4, shapes[s]), *wide = test_new(TEST_F32, 4, full);
                test_random_small(small, &rng);
                for (int64_t i = 0; i < 888; i++) {
                    int64_t rest = i, at = 0, step = 1;
                    for (int d = 3; d >= 0; d--) {
                        if (shapes[s][d] > 1) at += rest % full[d] * step;
                        step *= shapes[s][d];
                        rest /= full[d];
                    }
                    memcpy(test_at(wide, i), test_at(small, at), 4);
                }
                const int which = swapped ? 0 : 2;
                c.pointer[which] = &wide->dl;
                assert_ok(c.call(&c));
                void *want = test_gather(c.argument[1].tensor);
                c.pointer[which] = &small->dl;
                assert_ok(c.call(&c));
                assert_memory_equal(want, c.argument[1].tensor->memory, 888 * 4);
                free(want);
            }
}

/* A number by a number, and long rows that are cut into tasks. */
static void test_sizes(void **state)
{
    (void)state;
    test_tensor *a = test_new(TEST_F32, 0, NULL), *b = test_new(TEST_F32, 0, NULL), *out = test_new(TEST_F32, 0, NULL);
    test_set(a, 0, 3.0f);
    test_set(b, 0, 4.0f);
    assert_ok(samebits_mul(api_context, &a->dl, &b->dl, &out->dl));
    assert_true(test_get(out, 0) == 12.0f);
    const int64_t n = 40001;
    test_tensor *x = TENSOR(TEST_F32, 3, n), *y = TENSOR(TEST_F32, n), *z = TENSOR(TEST_F32, 3, n);
    for (int64_t i = 0; i < 3 * n; i++) test_set(x, i, (float)i);
    for (int64_t i = 0; i < n; i++) test_set(y, i, (float)(2 * i));
    assert_ok(samebits_sub(api_context, &x->dl, &y->dl, &z->dl));
    for (int64_t i = 0; i < 3 * n; i++) assert_true(test_get(z, i) == (float)i - (float)(2 * (i % n)));
    static const int64_t sizes[][2] = {{0, 5}, {5, 0}, {0, 0}};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            op_case c = {.context = api_context, .call = one_operand[k]};
            op_add(&c, "x", TENSOR(TEST_F32, sizes[i][0], sizes[i][1]), 1, 8, 0);
            op_add(&c, "out", TENSOR(TEST_F32, sizes[i][0], sizes[i][1]), 1, 8, OP_OUT);
            c.argument[0].tensor->dl.data = c.argument[1].tensor->dl.data = NULL;
            assert_ok(c.call(&c));
        }
}

static void expect_activation(samebits_activation activation, float x, uint32_t want)
{
    test_tensor *in = TENSOR(TEST_F32, 1), *out = TENSOR(TEST_F32, 1);
    test_set(in, 0, x);
    assert_ok(samebits_activate(api_context, &in->dl, activation, &out->dl));
    assert_memory_equal(test_at(out, 0), &want, 4);
}

static void test_special_values(void **state)
{
    (void)state;
    const float inf = INFINITY;
    for (int activation = 0; activation < SAMEBITS_ACTIVATION_COUNT; activation++)
        expect_activation((samebits_activation)activation, NAN, 0x7FC00000u);
    expect_activation(SAMEBITS_ACTIVATION_EXP, -inf, 0);
    expect_activation(SAMEBITS_ACTIVATION_EXP, inf, 0x7F800000u);
    expect_activation(SAMEBITS_ACTIVATION_SIGMOID, -inf, 0);
    expect_activation(SAMEBITS_ACTIVATION_SIGMOID, inf, 0x3F800000u);
    expect_activation(SAMEBITS_ACTIVATION_TANH, -inf, 0xBF800000u);
    expect_activation(SAMEBITS_ACTIVATION_TANH, -0.0f, 0x80000000u);
    expect_activation(SAMEBITS_ACTIVATION_SILU, -inf, 0x80000000u);
    expect_activation(SAMEBITS_ACTIVATION_GELU_QUICK, -inf, 0x80000000u);
    expect_activation(SAMEBITS_ACTIVATION_GELU, -inf, 0);
    expect_activation(SAMEBITS_ACTIVATION_RELU, -0.0f, 0);
    test_tensor *x = TENSOR(TEST_F32, 1), *out = TENSOR(TEST_F32, 1);
    const uint32_t minus_zero = 0x80000000u, zero = 0;
    test_set(x, 0, -0.0f);
    assert_ok(samebits_scale(api_context, &x->dl, 2.0f, -0.0f, &out->dl));
    assert_memory_equal(test_at(out, 0), &minus_zero, 4);
    assert_ok(samebits_scale(api_context, &x->dl, 2.0f, 0.0f, &out->dl));
    assert_memory_equal(test_at(out, 0), &zero, 4);
}

/* With f32 outputs the gated activation is the activation and then the product. */
static void test_gated_is_two_ops(void **state)
{
    (void)state;
    test_rng rng = {84};
    test_tensor *x = TENSOR(TEST_F32, 5, 1003), *y = TENSOR(TEST_F32, 5, 1003), *one = TENSOR(TEST_F32, 5, 1003);
    test_tensor *two = TENSOR(TEST_F32, 5, 1003);
    test_random_small(x, &rng);
    test_random(y, &rng);
    for (int activation = 0; activation < SAMEBITS_ACTIVATION_COUNT; activation++) {
        const samebits_activation f = (samebits_activation)activation;
        assert_ok(samebits_gated(api_context, &x->dl, &y->dl, f, &one->dl));
        assert_ok(samebits_activate(api_context, &x->dl, f, &two->dl));
        assert_ok(samebits_mul(api_context, &two->dl, &y->dl, &two->dl));
        assert_memory_equal(one->memory, two->memory, one->size);
    }
}

int api_elementwise_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_errors), API_TEST(test_parameters),     API_TEST(test_in_place),         API_TEST(test_broadcast),
        API_TEST(test_sizes),  API_TEST(test_special_values), API_TEST(test_gated_is_two_ops),
    };
    return API_RUN(tests);
}
