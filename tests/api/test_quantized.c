/* matmul_quantized: bad input, block sizes, special values. */
#include <math.h>

#include "api.h"

typedef struct {
    samebits_format format;
    samebits_order order;
} quantized_user;

static samebits_status call_quantized(op_case *c)
{
    const quantized_user *u = c->user;
    return samebits_matmul_quantized(c->context, c->pointer[0], c->pointer[1], u->format, u->order, NULL,
                                     c->pointer[2]);
}

enum { K = 512, N = 21 };

/* Blocks of zero bits are valid in every format: all weights 0, minus what the format subtracts from them, times 0. */
static op_case quantized_case(quantized_user *u)
{
    test_rng rng = {61};
    size_t row;
    assert_ok(samebits_format_row_size(u->format, K, &row));
    op_case c = {.context = api_context, .call = call_quantized, .user = u};
    op_add(&c, "x", TENSOR(TEST_F32, 2, 3, K), 1, 8, 0);
    op_add(&c, "w", TENSOR(TEST_U8, N, (int64_t)row), 2, 2, OP_NO_GROW);
    op_add(&c, "out", TENSOR(TEST_F32, 2, 3, N), 1, 8, OP_OUT);
    test_random(c.argument[0].tensor, &rng);
    memset(c.argument[1].tensor->memory, 0, c.argument[1].tensor->size);
    return c;
}

static void each_format(void (*check)(quantized_user *u))
{
    for (int f = SAMEBITS_FORMAT_Q4_0; f < SAMEBITS_FORMAT_COUNT; f++)
        for (int order = SAMEBITS_ORDER_PORTABLE_1; order <= SAMEBITS_ORDER_INT8_1; order++) {
            quantized_user u = {(samebits_format)f, (samebits_order)order};
            if (f >= SAMEBITS_FORMAT_AFFINE_2 && f <= SAMEBITS_FORMAT_MLX_NVFP4) continue; /* prepared alone */
            check(&u);
            test_free_all(NULL);
        }
}

static void check_errors(quantized_user *u)
{
    op_case c = quantized_case(u);
    op_check_errors(&c);
    op_check_memory(&c, 2);
    DLTensor *w = c.pointer[1];
    const int64_t bytes = w->shape[1];
    w->shape[1] = bytes - 1;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "w", "row of part of a block");
    w->shape[1] = bytes / 2;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "x", "half the depth");
    w->shape[1] = bytes;
    w->strides[1] = 2;
    op_expect(&c, SAMEBITS_ERR_STRIDE, "w", "gaps between bytes");
    w->strides[1] = 1;
    w->shape[0] = N - 1;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "out", "one row of weights less");
    w->shape[0] = N;
    c.pointer[1] = &TENSOR(TEST_F32, N, bytes)->dl;
    op_expect(&c, SAMEBITS_ERR_DTYPE, "w", "f32 as blocks");
    c.pointer[1] = w;
    op_expect_ok(&c);
}

static void test_errors(void **state)
{
    (void)state;
    each_format(check_errors);
}

static void test_parameters(void **state)
{
    (void)state;
    quantized_user u = {SAMEBITS_FORMAT_Q4_0, SAMEBITS_ORDER_PORTABLE_1};
    op_case c = quantized_case(&u);
    u.format = SAMEBITS_FORMAT_F16;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "f16", "float format");
    u.format = SAMEBITS_FORMAT_COUNT;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "format", "one past the last");
    u.format = (samebits_format)-1;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "format", "-1");
    u.format = SAMEBITS_FORMAT_Q4_0;
    u.order = (samebits_order)0;
    op_expect(&c, SAMEBITS_ERR_ORDER, "order", "0");
    u.order = (samebits_order)3;
    op_expect(&c, SAMEBITS_ERR_ORDER, "order", "3");
}

/* Whatever the bytes are, a call ends with a number or a canonical NaN. */
static void check_corrupt(quantized_user *u)
{
    op_case c = quantized_case(u);
    test_rng rng = {62};
    for (int repeat = 0; repeat < 3; repeat++) {
        test_tensor *w = c.argument[1].tensor, *out = c.argument[2].tensor;
        test_random_bytes(w, &rng);
        if (repeat == 2) memset(w->memory, 0xFF, w->size); /* every scale a NaN, or 2^127, or of NVFP4 240 */
        const int all_special = repeat == 2 && u->format != SAMEBITS_FORMAT_NVFP4;
        op_expect_ok(&c);
        for (int64_t i = 0; i < test_count(out); i++) {
            const uint32_t canonical = 0x7FC00000u;
            if (isnan(test_get(out, i))) assert_memory_equal(test_at(out, i), &canonical, 4);
            if (all_special && u->format != SAMEBITS_FORMAT_MXFP4) assert_true(isnan(test_get(out, i)));
            if (all_special) assert_false(isfinite(test_get(out, i)));
        }
    }
}

static void test_corrupt_blocks(void **state)
{
    (void)state;
    each_format(check_corrupt);
}

/* NaN and Inf stay in their own row. */
static void check_special(quantized_user *u)
{
    op_case c = quantized_case(u);
    test_tensor *x = c.argument[0].tensor, *out = c.argument[2].tensor, *clean = TENSOR(TEST_F32, 2, 3, N);
    c.pointer[2] = &clean->dl;
    op_expect_ok(&c);
    c.pointer[2] = &out->dl;
    test_set(x, 1 * K + 5, NAN);
    test_set(x, 4 * K + K - 1, INFINITY);
    op_expect_ok(&c);
    for (int64_t i = 0; i < 6 * N; i++) {
        if (i / N == 1 || i / N == 4)
            assert_true(isnan(test_get(out, i))); /* the weights are 0: Inf * 0 */
        else
            assert_memory_equal(test_at(out, i), test_at(clean, i), 4);
    }
}

static void test_special_rows(void **state)
{
    (void)state;
    each_format(check_special);
}

static void test_empty(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{0, N, 256}, {3, 0, 256}, {3, N, 0}, {0, 0, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t row;
        assert_ok(samebits_format_row_size(SAMEBITS_FORMAT_Q4_K, sizes[i][2], &row));
        test_tensor *x = TENSOR(TEST_F32, sizes[i][0], sizes[i][2]), *w = TENSOR(TEST_U8, sizes[i][1], (int64_t)row);
        test_tensor *out = TENSOR(TEST_F32, sizes[i][0], sizes[i][1]);
        memset(w->memory, 0, w->size);
        if (!test_count(w)) memset(w->strides, 0, sizeof w->strides); /* as NumPy has them */
        for (int order = SAMEBITS_ORDER_PORTABLE_1; order <= SAMEBITS_ORDER_INT8_1; order++) {
            assert_ok(samebits_matmul_quantized(api_context, &x->dl, &w->dl, SAMEBITS_FORMAT_Q4_K,
                                                (samebits_order)order, NULL, &out->dl));
            const float zero = 0.0f;
            if (!sizes[i][2])
                for (int64_t j = 0; j < test_count(out); j++) assert_memory_equal(test_at(out, j), &zero, 4);
        }
    }
}

int api_quantized_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_errors),       API_TEST(test_parameters), API_TEST(test_corrupt_blocks),
        API_TEST(test_special_rows), API_TEST(test_empty),
    };
    return API_RUN(tests);
}
