/* matmul, linear, addmm and linear_prepared: bad input, edge sizes, special values. */
#include <math.h>
#include <stdlib.h>

#include "api.h"

samebits_status api_call_matmul(op_case *c)
{
    return samebits_matmul(c->context, c->pointer[0], c->pointer[1], c->user, c->pointer[2]);
}
samebits_status api_call_linear(op_case *c)
{
    return samebits_linear(c->context, c->pointer[0], c->pointer[1], c->user, c->pointer[2]);
}
static samebits_status call_addmm(op_case *c)
{
    return samebits_addmm(c->context, c->pointer[0], c->pointer[1], c->pointer[2], 0.5, 2.0, c->pointer[3]);
}
static samebits_status call_prepared(op_case *c)
{
    return samebits_linear_prepared(c->context, c->pointer[0], c->user, SAMEBITS_ORDER_PORTABLE_1, NULL, c->pointer[1]);
}

samebits_status api_call_epilogue(op_case *c)
{
    samebits_epilogue e;
    samebits_epilogue_default(&e);
    e.alpha = 0.5;
    e.beta = 2.0;
    e.c = c->pointer[3];
    e.bias = c->pointer[4];
    return samebits_matmul(c->context, c->pointer[0], c->pointer[1], &e, c->pointer[2]);
}

static op_case matmul_case(test_dtype dtype, test_dtype out_dtype)
{
    test_rng rng = {7};
    op_case c = {.context = api_context, .call = api_call_matmul};
    op_add(&c, "a", TENSOR(dtype, 5, 37), 2, 8, 0);
    op_add(&c, "b", TENSOR(dtype, 37, 21), 2, 8, 0);
    op_add(&c, "out", TENSOR(out_dtype, 5, 21), 2, 8, OP_OUT);
    test_random(c.argument[0].tensor, &rng);
    test_random(c.argument[1].tensor, &rng);
    return c;
}

static void test_matmul_errors(void **state)
{
    (void)state;
    static const test_dtype dtypes[] = {TEST_F32, TEST_F16, TEST_BF16};
    for (int i = 0; i < 3; i++) {
        op_case c = matmul_case(dtypes[i], dtypes[i]);
        op_check_errors(&c);
        c = matmul_case(dtypes[i], TEST_F32);
        op_check_errors(&c);
        op_check_memory(&c, 1);
        op_check_memory(&c, 3);
    }
}

static void test_matmul_batch_errors(void **state)
{
    (void)state;
    test_rng rng = {8};
    op_case c = {.context = api_context, .call = api_call_matmul};
    op_add(&c, "a", TENSOR(TEST_F32, 3, 2, 5, 9), 2, 8, 0);
    op_add(&c, "b", TENSOR(TEST_F32, 3, 2, 9, 4), 2, 8, 0);
    op_add(&c, "out", TENSOR(TEST_F32, 3, 2, 5, 4), 2, 8, OP_OUT);
    test_random(c.argument[0].tensor, &rng);
    test_random(c.argument[1].tensor, &rng);
    op_check_errors(&c);
    op_check_memory(&c, 2);
}

static void test_epilogue_errors(void **state)
{
    (void)state;
    test_rng rng = {9};
    op_case c = matmul_case(TEST_F32, TEST_F32);
    c.call = api_call_epilogue;
    op_add(&c, "c", TENSOR(TEST_F16, 5, 21), 0, 8, OP_OPTIONAL);
    op_add(&c, "bias", TENSOR(TEST_BF16, 21), 1, 1, OP_OPTIONAL);
    test_random(c.argument[3].tensor, &rng);
    test_random(c.argument[4].tensor, &rng);
    op_check_errors(&c);
    op_check_memory(&c, 2);
}

static void test_bad_epilogue(void **state)
{
    (void)state;
    op_case c = matmul_case(TEST_F32, TEST_F32);
    samebits_epilogue e;
    c.user = &e;
    samebits_epilogue_default(&e);
    e.struct_size -= 1;
    op_expect(&c, SAMEBITS_ERR_PARAM, "struct_size", "one byte short");
    memset(&e, 0, sizeof e);
    op_expect(&c, SAMEBITS_ERR_PARAM, "struct_size", "zeros");
    samebits_epilogue_default(&e);
    e.activation = SAMEBITS_ACTIVATION_COUNT;
    op_expect(&c, SAMEBITS_ERR_PARAM, "activation", "one past the last");
    e.activation = (samebits_activation)-1;
    op_expect(&c, SAMEBITS_ERR_PARAM, "activation", "-1");
    samebits_epilogue_default(NULL);
}

static void test_dtype_mix(void **state)
{
    (void)state;
    op_case c = matmul_case(TEST_F16, TEST_F16);
    c.pointer[1] = &TENSOR(TEST_BF16, 37, 21)->dl;
    op_expect(&c, SAMEBITS_ERR_DTYPE, "b", "bf16 beside f16");
    c = matmul_case(TEST_F32, TEST_F32);
    c.pointer[2] = &TENSOR(TEST_F16, 5, 21)->dl;
    op_expect(&c, SAMEBITS_ERR_DTYPE, "out", "f16 from f32");
    c = matmul_case(TEST_F16, TEST_F16);
    c.pointer[2] = &TENSOR(TEST_BF16, 5, 21)->dl;
    op_expect(&c, SAMEBITS_ERR_DTYPE, "out", "bf16 from f16");
}

static void test_linear_errors(void **state)
{
    (void)state;
    test_rng rng = {10};
    op_case c = {.context = api_context, .call = api_call_linear};
    op_add(&c, "x", TENSOR(TEST_BF16, 2, 5, 33), 1, 8, 0);
    op_add(&c, "w", TENSOR(TEST_BF16, 21, 33), 2, 2, 0);
    op_add(&c, "out", TENSOR(TEST_BF16, 2, 5, 21), 1, 8, OP_OUT);
    test_random(c.argument[0].tensor, &rng);
    test_random(c.argument[1].tensor, &rng);
    op_check_errors(&c);
    op_check_memory(&c, 2);
}

static void test_addmm_errors(void **state)
{
    (void)state;
    test_rng rng = {11};
    op_case c = {.context = api_context, .call = call_addmm};
    op_add(&c, "c", TENSOR(TEST_F32, 5, 6), 0, 8, OP_IN_PLACE);
    op_add(&c, "a", TENSOR(TEST_F32, 5, 33), 2, 8, 0);
    op_add(&c, "b", TENSOR(TEST_F32, 33, 6), 2, 8, 0);
    op_add(&c, "out", TENSOR(TEST_F32, 5, 6), 2, 8, OP_OUT);
    for (int i = 0; i < 3; i++) test_random(c.argument[i].tensor, &rng);
    op_check_errors(&c);
    op_check_memory(&c, 2);
}

static void test_prepared_errors(void **state)
{
    (void)state;
    test_rng rng = {12};
    test_tensor *w = TENSOR(TEST_F16, 21, 33);
    test_random(w, &rng);
    samebits_weights *weights;
    assert_ok(samebits_weights_prepare(api_context, &w->dl, SAMEBITS_FORMAT_F16, NULL, &weights));
    op_case c = {.context = api_context, .call = call_prepared, .user = weights};
    op_add(&c, "x", TENSOR(TEST_F32, 2, 5, 33), 1, 8, 0);
    op_add(&c, "out", TENSOR(TEST_F32, 2, 5, 21), 1, 8, OP_OUT);
    test_random(c.argument[0].tensor, &rng);
    op_check_errors(&c);
    op_check_memory(&c, 2);
    DLTensor *x = c.pointer[0], *out = c.pointer[1];
    assert_fails(samebits_linear_prepared(api_context, x, NULL, SAMEBITS_ORDER_PORTABLE_1, NULL, out),
                 SAMEBITS_ERR_NULL, "weights");
    assert_fails(samebits_linear_prepared(api_context, x, weights, (samebits_order)0, NULL, out), SAMEBITS_ERR_ORDER,
                 "order");
    assert_fails(samebits_linear_prepared(api_context, x, weights, (samebits_order)77, NULL, out), SAMEBITS_ERR_ORDER,
                 "order");
    assert_fails(samebits_linear_prepared(api_context, x, weights, SAMEBITS_ORDER_INT8_1, NULL, out),
                 SAMEBITS_ERR_ORDER, "f16");
    samebits_weights_destroy(&weights);
}

static samebits_status call_device(op_case *c)
{
    return samebits_linear_prepared(c->context, c->pointer[0], c->user, SAMEBITS_ORDER_AMX_1, NULL, c->pointer[1]);
}

/* amx-1 is for bf16 by bf16; any machine has it. */
static void test_device_order(void **state)
{
    (void)state;
    test_rng rng = {13};
    test_tensor *w = TENSOR(TEST_BF16, 21, 45), *narrow = TENSOR(TEST_F16, 21, 45);
    test_random(w, &rng);
    test_random(narrow, &rng);
    samebits_weights *weights, *others;
    assert_ok(samebits_weights_prepare(api_context, &w->dl, SAMEBITS_FORMAT_BF16, NULL, &weights));
    assert_ok(samebits_weights_prepare(api_context, &narrow->dl, SAMEBITS_FORMAT_F16, NULL, &others));
    op_case c = {.context = api_context, .call = call_device, .user = weights};
    op_add(&c, "x", TENSOR(TEST_BF16, 2, 19, 45), 1, 8, 0);
    op_add(&c, "out", TENSOR(TEST_F32, 2, 19, 21), 1, 8, OP_OUT);
    test_random(c.argument[0].tensor, &rng);
    op_check_memory(&c, 2);
    DLTensor *x = c.pointer[0], *out = c.pointer[1], *wide = &TENSOR(TEST_F32, 2, 19, 45)->dl;
    assert_fails(samebits_linear_prepared(api_context, x, others, SAMEBITS_ORDER_AMX_1, NULL, out), SAMEBITS_ERR_ORDER,
                 "f16 weights: want portable-1");
    assert_fails(samebits_linear_prepared(api_context, x, weights, SAMEBITS_ORDER_INT8_1, NULL, out),
                 SAMEBITS_ERR_ORDER, "portable-1 or amx-1");
    assert_fails(samebits_linear_prepared(api_context, wide, weights, SAMEBITS_ORDER_AMX_1, NULL, out),
                 SAMEBITS_ERR_DTYPE, "x is f32, want bf16");
    assert_int_equal(samebits_device_order(NULL, SAMEBITS_FORMAT_BF16), SAMEBITS_ORDER_PORTABLE_1);
    assert_int_equal(samebits_device_order(api_context, SAMEBITS_FORMAT_F32), SAMEBITS_ORDER_PORTABLE_1);
    const int has_unit = samebits_context_cpu(api_context) == SAMEBITS_CPU_AMX;
    assert_int_equal(samebits_device_order(api_context, SAMEBITS_FORMAT_BF16),
                     has_unit ? SAMEBITS_ORDER_AMX_1 : SAMEBITS_ORDER_PORTABLE_1);
    samebits_weights_destroy(&weights);
    samebits_weights_destroy(&others);
}

/* M, N or K of 0. */
static void test_empty(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{0, 5, 7}, {5, 0, 7}, {0, 0, 7}, {0, 5, 0}, {0, 0, 0}, {5, 0, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        test_tensor *a = TENSOR(TEST_F32, m, k), *b = TENSOR(TEST_F32, k, n), *out = TENSOR(TEST_F32, m, n);
        out->dl.data = NULL; /* an empty tensor may have no memory */
        if (!m || !k) a->dl.data = NULL;
        if (!k || !n) b->dl.data = NULL;
        assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &out->dl));
    }
    test_tensor *a = TENSOR(TEST_F32, 0, 3, 4), *b = TENSOR(TEST_F32, 0, 4, 2), *out = TENSOR(TEST_F32, 0, 3, 2);
    assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &out->dl));
    b = TENSOR(TEST_F32, 1, 4, 2);
    assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &out->dl));
}

/* K = 0: the sum is +0, and the epilogue alone decides. */
static void test_no_depth(void **state)
{
    (void)state;
    test_tensor *a = TENSOR(TEST_F32, 3, 0), *b = TENSOR(TEST_F32, 0, 4), *out = TENSOR(TEST_F32, 3, 4);
    test_tensor *bias = TENSOR(TEST_F32, 4), *c = TENSOR(TEST_F32, 3, 4);
    assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &out->dl));
    const float zero = 0.0f;
    for (int i = 0; i < 12; i++) assert_memory_equal(test_at(out, i), &zero, 4);
    samebits_epilogue e;
    samebits_epilogue_default(&e);
    e.beta = 2.0;
    e.c = &c->dl;
    e.bias = &bias->dl;
    for (int i = 0; i < 4; i++) test_set(bias, i, (float)i);
    for (int i = 0; i < 12; i++) test_set(c, i, (float)(10 * i));
    assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, &e, &out->dl));
    for (int i = 0; i < 12; i++) assert_true(test_get(out, i) == (float)(20 * i + i % 4));
}

/* NaN and Inf stay in the row that they are in, and a stored NaN is canonical. */
static void test_special_rows(void **state)
{
    (void)state;
    static const test_dtype dtypes[] = {TEST_F32, TEST_F16, TEST_BF16};
    static const uint32_t canonical[] = {0x7FC00000u, 0x7E00u, 0x7FC0u};
    for (int d = 0; d < 3; d++) {
        test_rng rng = {13};
        test_tensor *a = TENSOR(dtypes[d], 9, 300), *b = TENSOR(dtypes[d], 300, 17);
        test_tensor *clean = TENSOR(dtypes[d], 9, 17), *out = TENSOR(dtypes[d], 9, 17);
        test_random_small(a, &rng);
        test_random_small(b, &rng);
        assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &clean->dl));
        test_set(a, 2 * 300 + 299, NAN);
        test_set(a, 5 * 300, INFINITY);
        test_set(a, 8 * 300 + 17, -INFINITY);
        test_set(a, 8 * 300 + 270, INFINITY);
        assert_ok(samebits_matmul(api_context, &a->dl, &b->dl, NULL, &out->dl));
        const size_t size = test_dtype_size(dtypes[d]);
        for (int64_t i = 0; i < 9 * 17; i++) {
            const int64_t row = i / 17;
            if (row == 2) assert_memory_equal(test_at(out, i), &canonical[d], size);
            if (row == 5 || row == 8) assert_false(isfinite(test_get(out, i)));
            if (row == 8 && isnan(test_get(out, i))) assert_memory_equal(test_at(out, i), &canonical[d], size);
            if (row != 2 && row != 5 && row != 8) assert_memory_equal(test_at(out, i), test_at(clean, i), size);
        }
    }
}

/* A product of K `depth` and `columns` columns, through stride-0 views: no memory holds it. */
static void expect_too_deep(samebits_context *context, test_dtype dtype, int64_t depth, int64_t columns)
{
    test_tensor *one = TENSOR(dtype, 1, 1), *out = TENSOR(dtype, 1, columns);
    int64_t zero[2] = {0, 0}, row[2] = {1, depth}, block[2] = {depth, columns};
    DLTensor a = one->dl, b = one->dl;
    a.shape = row;
    b.shape = block;
    a.strides = b.strides = zero;
    test_save(out);
    const samebits_status status = samebits_matmul(context, &a, &b, NULL, &out->dl);
    assert_true(status == SAMEBITS_ERR_MEMORY || status == SAMEBITS_ERR_OVERFLOW);
    assert_true(test_unchanged(out));
}

/* Through an allocator that refuses such sizes: a sanitizer's would end the test. */
static void test_huge_views(void **state)
{
    (void)state;
    static const test_dtype dtypes[] = {TEST_F32, TEST_F64, TEST_C64};
    test_memory memory;
    samebits_options options;
    samebits_context *context;
    test_memory_init(&memory);
    samebits_options_default(&options);
    options.allocator = test_memory_allocator(&memory);
    assert_ok(samebits_create(&context, &options));
    expect_too_deep(context, TEST_F32, (int64_t)1 << 60, 16);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int shift = 46; shift < 63; shift++) /* below, a system that overcommits may grant the memory */
            expect_too_deep(context, dtypes[d], (int64_t)1 << shift, 1);
    samebits_destroy(&context);
}

/* Slices of one buffer that share no element do not overlap. */
static void test_interleaved_slices(void **state)
{
    (void)state;
    test_rng rng = {14};
    test_tensor *buffer = TENSOR(TEST_F32, 6, 40), *b = TENSOR(TEST_F32, 8, 5), *want = TENSOR(TEST_F32, 6, 5);
    test_random(buffer, &rng);
    test_random(b, &rng);
    int64_t x_shape[2] = {6, 8}, out_shape[2] = {6, 5}, strides[2] = {40, 1};
    DLTensor x = buffer->dl, out = buffer->dl;
    x.shape = x_shape;
    out.shape = out_shape;
    x.strides = out.strides = strides;
    out.byte_offset = 8 * 4;
    assert_ok(samebits_matmul(api_context, &x, &b->dl, NULL, &want->dl));
    assert_ok(samebits_matmul(api_context, &x, &b->dl, NULL, &out));
    for (int64_t i = 0; i < 30; i++)
        assert_memory_equal(test_at(want, i), (float *)test_at(buffer, i / 5 * 40 + 8) + i % 5, 4);
    out.byte_offset = 7 * 4; /* one column too far left */
    assert_fails(samebits_matmul(api_context, &x, &b->dl, NULL, &out), SAMEBITS_ERR_OVERLAP, "a");
    out.byte_offset = 36 * 4; /* wraps into the next row's first column */
    assert_fails(samebits_matmul(api_context, &x, &b->dl, NULL, &out), SAMEBITS_ERR_OVERLAP, "a");
}

/* c may be the output itself, but not a part of it. */
static void test_addmm_in_place(void **state)
{
    (void)state;
    test_rng rng = {15};
    test_tensor *a = TENSOR(TEST_F32, 9, 300), *b = TENSOR(TEST_F32, 300, 33), *c = TENSOR(TEST_F32, 9, 33);
    test_tensor *want = TENSOR(TEST_F32, 9, 33);
    test_random(a, &rng);
    test_random(b, &rng);
    test_random(c, &rng);
    assert_ok(samebits_addmm(api_context, &c->dl, &a->dl, &b->dl, 0.5, 2.0, &want->dl));
    DLTensor row = c->dl, flat = c->dl;
    int64_t row_shape[2] = {1, 33};
    row.shape = row_shape;
    test_save(c);
    assert_fails(samebits_addmm(api_context, &row, &a->dl, &b->dl, 0.5, 2.0, &c->dl), SAMEBITS_ERR_OVERLAP, "c");
    flat.dtype = TENSOR(TEST_F16, 1)->dl.dtype;
    assert_fails(samebits_addmm(api_context, &flat, &a->dl, &b->dl, 0.5, 2.0, &c->dl), SAMEBITS_ERR_OVERLAP, "c");
    assert_fails(samebits_addmm(api_context, NULL, &a->dl, &b->dl, 0.5, 2.0, &c->dl), SAMEBITS_ERR_NULL, "c");
    assert_true(test_unchanged(c));
    assert_ok(samebits_addmm(api_context, &c->dl, &a->dl, &b->dl, 0.5, 2.0, &c->dl));
    assert_memory_equal(c->memory, want->memory, want->size);
}

/* linear of a vector is linear of a matrix of one row. */
static void test_vector(void **state)
{
    (void)state;
    test_rng rng = {16};
    test_tensor *x = TENSOR(TEST_F32, 1, 300), *w = TENSOR(TEST_F32, 33, 300);
    test_tensor *want = TENSOR(TEST_F32, 1, 33), *have = TENSOR(TEST_F32, 33);
    test_random(x, &rng);
    test_random(w, &rng);
    assert_ok(samebits_linear(api_context, &x->dl, &w->dl, NULL, &want->dl));
    DLTensor vector = x->dl;
    vector.ndim = 1;
    vector.shape++;
    vector.strides++;
    assert_ok(samebits_linear(api_context, &vector, &w->dl, NULL, &have->dl));
    assert_memory_equal(have->memory, want->memory, want->size);
    assert_fails(samebits_linear(api_context, &vector, &w->dl, NULL, &TENSOR(TEST_F32, 2, 33)->dl), SAMEBITS_ERR_SHAPE,
                 "out");
}

int api_matmul_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_matmul_errors),      API_TEST(test_matmul_batch_errors), API_TEST(test_epilogue_errors),
        API_TEST(test_bad_epilogue),       API_TEST(test_dtype_mix),           API_TEST(test_linear_errors),
        API_TEST(test_addmm_errors),       API_TEST(test_prepared_errors),     API_TEST(test_empty),
        API_TEST(test_no_depth),           API_TEST(test_special_rows),        API_TEST(test_huge_views),
        API_TEST(test_interleaved_slices), API_TEST(test_addmm_in_place),      API_TEST(test_vector),
        API_TEST(test_device_order),
    };
    return API_RUN(tests);
}
