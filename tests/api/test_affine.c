/* Affine weights of MLX: bad input, every width, group and dtype of scales. */
#include <math.h>
#include <stdlib.h>

#include "api.h"

static const int widths[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
static const test_dtype dtypes[] = {TEST_F32, TEST_F16, TEST_BF16};

typedef struct {
    int bits, group;
    void *storage;
} affine_user;

static samebits_status call_prepare(op_case *c)
{
    const affine_user *u = c->user;
    samebits_weights *weights = (samebits_weights *)c;
    const samebits_status status = samebits_weights_prepare_affine(
        c->context, c->pointer[0], c->pointer[1], c->pointer[2], u->bits, u->group, u->storage, &weights);
    if (status) assert_null(weights);
    samebits_weights_destroy(&weights);
    return status;
}

enum { N = 21, K = 384 };

static op_case affine_case(affine_user *u)
{
    test_rng rng = {81};
    op_case c = {.context = api_context, .call = call_prepare, .user = u};
    op_add(&c, "w", TENSOR(TEST_U32, N, K * u->bits / 32), 2, 2, OP_NO_GROW);
    op_add(&c, "scales", TENSOR(TEST_F16, N, K / u->group), 2, 2, 0);
    op_add(&c, "biases", TENSOR(TEST_F16, N, K / u->group), 2, 2, 0);
    test_random_bytes(c.argument[0].tensor, &rng);
    test_random(c.argument[1].tensor, &rng);
    test_random(c.argument[2].tensor, &rng);
    return c;
}

static void test_errors(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        affine_user u = {widths[i], groups[i % 3], NULL};
        op_case c = affine_case(&u);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        test_free_all(NULL);
    }
}

static void test_parameters(void **state)
{
    (void)state;
    static const int bad_bits[] = {0, 1, 7, 9, 16, -1, INT32_MIN, INT32_MAX};
    static const int bad_groups[] = {0, 1, 16, 31, 33, 256, -32, INT32_MIN, INT32_MAX};
    affine_user u = {4, 64, NULL};
    op_case c = affine_case(&u);
    for (size_t i = 0; i < sizeof bad_bits / sizeof *bad_bits; i++) {
        u.bits = bad_bits[i];
        op_expect(&c, SAMEBITS_ERR_PARAM, "bits", "no such width");
    }
    u.bits = 4;
    for (size_t i = 0; i < sizeof bad_groups / sizeof *bad_groups; i++) {
        u.group = bad_groups[i];
        op_expect(&c, SAMEBITS_ERR_PARAM, "group", "no such group");
    }
    u.group = 32;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "scales", "scales of other groups");
    u.group = 64;
    u.storage = (char *)c.argument[0].tensor->memory + 4;
    op_expect(&c, SAMEBITS_ERR_PARAM, "storage", "misaligned");
    u.storage = NULL;
    DLTensor *w = c.pointer[0];
    w->shape[1] -= 1;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "w", "part of 32 weights");
    w->shape[1] -= 3;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "K", "part of a group");
    w->shape[1] += 4;
    w->strides[1] = 2;
    op_expect(&c, SAMEBITS_ERR_STRIDE, "w", "gaps between words");
    w->strides[1] = 1;
    w->shape[0] -= 1;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "scales", "a row of scales too many");
    w->shape[0] += 1;
    c.pointer[2] = &TENSOR(TEST_BF16, N, K / 64)->dl;
    op_expect(&c, SAMEBITS_ERR_DTYPE, "biases", "two dtypes");
    c.pointer[2] = &c.argument[2].tensor->dl;
    assert_fails(samebits_weights_prepare_affine(api_context, w, c.pointer[1], c.pointer[2], 4, 64, NULL, NULL),
                 SAMEBITS_ERR_NULL, "weights");
    op_expect_ok(&c);
}

static void test_sizes(void **state)
{
    (void)state;
    size_t bytes;
    samebits_affine a = {4, 64, SAMEBITS_FORMAT_BF16};
    assert_ok(samebits_weights_size_affine(&a, 17, 128, &bytes));
    assert_int_equal(bytes, 32 * (128 / 2 + 2 * 2 * 2)); /* two panels of 16 rows */
    assert_ok(samebits_weights_size_affine(&a, 0, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_fails(samebits_weights_size_affine(NULL, 1, 64, &bytes), SAMEBITS_ERR_NULL, "affine");
    assert_fails(samebits_weights_size_affine(&a, 1, 64, NULL), SAMEBITS_ERR_NULL, "bytes");
    assert_fails(samebits_weights_size_affine(&a, -1, 64, &bytes), SAMEBITS_ERR_PARAM, "N");
    for (int64_t k = -1; k >= -64; k -= 63)
        assert_fails(samebits_weights_size_affine(&a, 1, k, &bytes), SAMEBITS_ERR_PARAM, "K");
    assert_fails(samebits_weights_size_affine(&a, 1, 96, &bytes), SAMEBITS_ERR_FORMAT, "group");
    assert_fails(samebits_weights_size_affine(&a, (int64_t)1 << 62, (int64_t)1 << 62, &bytes), SAMEBITS_ERR_OVERFLOW,
                 "weights");
    assert_fails(samebits_weights_size_affine(&a, INT64_MAX, 64, &bytes), SAMEBITS_ERR_OVERFLOW, "weights");
    a.scales = SAMEBITS_FORMAT_Q4_0;
    assert_fails(samebits_weights_size_affine(&a, 1, 64, &bytes), SAMEBITS_ERR_PARAM, "scales");
    a.scales = SAMEBITS_FORMAT_COUNT;
    assert_fails(samebits_weights_size_affine(&a, 1, 64, &bytes), SAMEBITS_ERR_PARAM, "scales");
}

/* What belongs to the other functions is sent there. */
static void test_other_functions(void **state)
{
    (void)state;
    affine_user u = {4, 64, NULL};
    op_case c = affine_case(&u);
    test_tensor *plain = TENSOR(TEST_U8, N, K / 2), *x = TENSOR(TEST_F32, 2, K), *out = TENSOR(TEST_F32, 2, N);
    samebits_weights *weights, *blocks;
    samebits_affine a;
    assert_fails(samebits_weights_prepare(api_context, &plain->dl, SAMEBITS_FORMAT_AFFINE_4, NULL, &weights),
                 SAMEBITS_ERR_FORMAT, "samebits_weights_prepare_affine");
    assert_fails(samebits_matmul_quantized(api_context, &x->dl, &plain->dl, SAMEBITS_FORMAT_AFFINE_4,
                                           SAMEBITS_ORDER_PORTABLE_1, NULL, &out->dl),
                 SAMEBITS_ERR_FORMAT, "samebits_weights_prepare_affine");
    assert_ok(
        samebits_weights_prepare_affine(api_context, c.pointer[0], c.pointer[1], c.pointer[2], 4, 64, NULL, &weights));
    assert_fails(samebits_weights_restore(weights, plain->memory, K / 2), SAMEBITS_ERR_FORMAT,
                 "samebits_weights_restore_affine");
    assert_fails(samebits_weights_restore_affine(weights, NULL, x->memory, x->memory), SAMEBITS_ERR_NULL, "w");
    assert_fails(samebits_weights_restore_affine(weights, x->memory, NULL, x->memory), SAMEBITS_ERR_NULL, "scales");
    assert_fails(samebits_weights_restore_affine(weights, x->memory, x->memory, NULL), SAMEBITS_ERR_NULL, "biases");
    assert_fails(samebits_weights_affine(weights, NULL), SAMEBITS_ERR_NULL, "affine");
    assert_fails(samebits_weights_affine(NULL, &a), SAMEBITS_ERR_NULL, "weights");
    assert_ok(samebits_weights_prepare(api_context, &x->dl, SAMEBITS_FORMAT_F32, NULL, &blocks));
    assert_fails(samebits_weights_affine(blocks, &a), SAMEBITS_ERR_FORMAT, "f32");
    assert_fails(samebits_weights_restore_affine(blocks, x->memory, x->memory, x->memory), SAMEBITS_ERR_FORMAT, "f32");
    samebits_weights_destroy(&blocks);
    samebits_weights_destroy(&weights);
}

/* Integer i of a row, a bit at a time: element i is bits [i * bits, (i + 1) * bits), from the lowest. */
static int integer(const unsigned char *row, int bits, int64_t i)
{
    int q = 0;
    for (int j = 0; j < bits; j++) {
        const int64_t bit = i * bits + j;
        q |= (row[bit / 8] >> bit % 8 & 1) << j;
    }
    return q;
}

/* Scales and biases of any bits, Inf and NaN among them, or of ordinary numbers. */
static test_tensor *make_scales(test_dtype dtype, int any_bits, int transposed, int64_t n, int64_t count, test_rng *rng)
{
    test_tensor *t =
        transposed ? test_strided(dtype, 2, (int64_t[]){n, count}, (int64_t[]){1, n + 3}, 1) : TENSOR(dtype, n, count);
    if (any_bits)
        test_random_bytes(t, rng);
    else
        test_random(t, rng);
    return t;
}

static void check_same_tensor(const void *have, const test_tensor *want)
{
    void *elements = test_gather(want);
    assert_memory_equal(have, elements, (size_t)test_count(want) * test_dtype_size(want->dtype));
    free(elements);
}

/* linear_prepared is "widen with fma, then linear", bit for bit, and the three tensors come back. */
static void check_form(int bits, int group, test_dtype dtype, int any_bits, test_rng *rng)
{
    enum { M = 5 };
    const int transposed = bits % 2;
    test_tensor *w = TENSOR(TEST_U32, N, K * bits / 32), *x = TENSOR(TEST_F32, M, K), *values = TENSOR(TEST_F32, N, K);
    test_tensor *scales = make_scales(dtype, any_bits, transposed, N, K / group, rng);
    test_tensor *biases = make_scales(dtype, any_bits, !transposed, N, K / group, rng);
    test_tensor *want = TENSOR(TEST_F32, M, N), *have = TENSOR(TEST_F32, M, N);
    test_random_bytes(w, rng);
    test_random(x, rng);
    for (int64_t n = 0; n < N; n++)
        for (int64_t i = 0; i < K; i++) {
            const int64_t at = n * (K / group) + i / group;
            const float value =
                fmaf(test_get(scales, at), (float)integer(w->memory + n * K * bits / 8, bits, i), test_get(biases, at));
            memcpy(test_at(values, n * K + i), &value, sizeof value);
        }
    samebits_weights *weights;
    samebits_affine a;
    assert_ok(samebits_linear(api_context, &x->dl, &values->dl, NULL, &want->dl));
    assert_ok(
        samebits_weights_prepare_affine(api_context, &w->dl, &scales->dl, &biases->dl, bits, group, NULL, &weights));
    assert_ok(samebits_linear_prepared(api_context, &x->dl, weights, SAMEBITS_ORDER_PORTABLE_1, NULL, &have->dl));
    assert_memory_equal(have->memory, want->memory, want->size);
    assert_ok(samebits_linear_prepared(api_context, &x->dl, weights, SAMEBITS_ORDER_INT8_1, NULL, &have->dl));
    test_tensor *id = TENSOR(TEST_I32, N), *rows_back = TENSOR(TEST_F32, N, K);
    for (int32_t i = 0; i < N; i++) memcpy(test_at(id, i), &i, sizeof i);
    assert_ok(samebits_embedding_prepared(api_context, weights, &id->dl, &rows_back->dl));
    for (int64_t i = 0; i < N * K; i++)
        if (!isnan(test_get(values, i))) assert_memory_equal(test_at(rows_back, i), test_at(values, i), 4);
    assert_ok(samebits_weights_affine(weights, &a));
    assert_int_equal(a.bits, bits);
    assert_int_equal(a.group, group);
    assert_int_equal(a.scales, dtype == TEST_F32   ? SAMEBITS_FORMAT_F32
                               : dtype == TEST_F16 ? SAMEBITS_FORMAT_F16
                                                   : SAMEBITS_FORMAT_BF16);
    assert_int_equal(samebits_weights_rows(weights), N);
    assert_int_equal(samebits_weights_depth(weights), K);
    test_tensor *words = TENSOR(TEST_U32, N, K * bits / 32), *s = TENSOR(dtype, N, K / group);
    test_tensor *b = TENSOR(dtype, N, K / group);
    assert_ok(samebits_weights_restore_affine(weights, words->memory, s->memory, b->memory));
    assert_memory_equal(words->memory, w->memory, w->size);
    check_same_tensor(s->memory, scales);
    check_same_tensor(b->memory, biases);
    samebits_weights_destroy(&weights);
}

typedef struct {
    int bits, group, transpose;
    samebits_order order;
} product_user;

static samebits_status call_product(op_case *c)
{
    const product_user *u = c->user;
    return samebits_matmul_affine(c->context, c->pointer[0], c->pointer[1], c->pointer[2], c->pointer[3], u->bits,
                                  u->group, u->transpose, u->order, NULL, c->pointer[4]);
}

/* x (2, 3, K), and weights of `rows` rows of `length`: along K, or along N. */
static op_case product_case(product_user *u, test_dtype dtype, int64_t rows, int64_t length, test_rng *rng)
{
    op_case c = {.context = api_context, .call = call_product, .user = u};
    const int64_t k = u->transpose ? length : rows, n = u->transpose ? rows : length;
    op_add(&c, "x", TENSOR(TEST_F32, 2, 3, k), 1, 8, 0);
    op_add(&c, "w", TENSOR(TEST_U32, rows, length * u->bits / 32), 2, 2, OP_NO_GROW);
    op_add(&c, "scales", make_scales(dtype, 0, 0, rows, length / u->group, rng), 2, 2, 0);
    op_add(&c, "biases", make_scales(dtype, 0, 0, rows, length / u->group, rng), 2, 2, 0);
    op_add(&c, "out", TENSOR(TEST_F32, 2, 3, n), 1, 8, OP_OUT);
    test_random(c.argument[0].tensor, rng);
    test_random_bytes(c.argument[1].tensor, rng);
    return c;
}

/* Along K: the bits of prepared weights. Along N: "widen, then matmul". */
static void check_product(int bits, int group, test_dtype dtype, test_rng *rng)
{
    product_user along_k = {bits, group, 1, SAMEBITS_ORDER_PORTABLE_1}, along_n = {bits, group, 0, along_k.order};
    op_case c = product_case(&along_k, dtype, N, K, rng);
    test_tensor *want = TENSOR(TEST_F32, 2, 3, N);
    samebits_weights *weights;
    assert_ok(samebits_weights_prepare_affine(api_context, c.pointer[1], c.pointer[2], c.pointer[3], bits, group, NULL,
                                              &weights));
    for (int order = SAMEBITS_ORDER_PORTABLE_1; order <= SAMEBITS_ORDER_INT8_1; order++) {
        along_k.order = (samebits_order)order;
        op_expect_ok(&c);
        assert_ok(samebits_linear_prepared(api_context, c.pointer[0], weights, along_k.order, NULL, &want->dl));
        assert_memory_equal(c.argument[4].tensor->memory, want->memory, want->size);
    }
    samebits_weights_destroy(&weights);
    enum { DEPTH = 300 };
    c = product_case(&along_n, dtype, DEPTH, 128, rng);
    test_tensor *values = TENSOR(TEST_F32, DEPTH, 128), *product = TENSOR(TEST_F32, 2, 3, 128);
    for (int64_t i = 0; i < DEPTH * 128; i++) {
        const int64_t at = i / 128 * (128 / group) + i % 128 / group;
        const unsigned char *row = c.argument[1].tensor->memory + i / 128 * (128 * bits / 8);
        const float value = fmaf(test_get(c.argument[2].tensor, at), (float)integer(row, bits, i % 128),
                                 test_get(c.argument[3].tensor, at));
        memcpy(test_at(values, i), &value, sizeof value);
    }
    op_expect_ok(&c);
    assert_ok(samebits_matmul(api_context, c.pointer[0], &values->dl, NULL, &product->dl));
    assert_memory_equal(c.argument[4].tensor->memory, product->memory, product->size);
}

static void test_products(void **state)
{
    (void)state;
    test_rng rng = {83};
    for (int i = 0; i < 6; i++)
        for (int g = 0; g < 3; g++) {
            check_product(widths[i], groups[g], dtypes[(i + g) % 3], &rng);
            test_free_all(NULL);
        }
    for (int transpose = 0; transpose < 2; transpose++) {
        product_user u = {4, 64, transpose, SAMEBITS_ORDER_PORTABLE_1};
        op_case c = product_case(&u, TEST_F16, transpose ? N : K, transpose ? K : 256, &rng);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        u.bits = 7;
        op_expect(&c, SAMEBITS_ERR_PARAM, "bits", "no such width");
        u.bits = 4;
        u.order = transpose ? (samebits_order)9 : SAMEBITS_ORDER_INT8_1;
        op_expect(&c, SAMEBITS_ERR_ORDER, "order", "an order that it does not have");
        test_free_all(NULL);
    }
}

static void test_forms(void **state)
{
    (void)state;
    test_rng rng = {82};
    for (int i = 0; i < 6; i++)
        for (int g = 0; g < 3; g++)
            for (int d = 0; d < 3; d++)
                for (int any_bits = 0; any_bits < 2; any_bits++) {
                    check_form(widths[i], groups[g], dtypes[d], any_bits, &rng);
                    test_free_all(NULL);
                }
}

static void test_empty(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{0, 64}, {8, 0}, {0, 0}};
    for (int i = 0; i < 3; i++) {
        const int64_t n = sizes[i][0], k = sizes[i][1];
        test_tensor *w = TENSOR(TEST_U32, n, k / 8), *s = TENSOR(TEST_F32, n, k / 64), *b = TENSOR(TEST_F32, n, k / 64);
        test_tensor *x = TENSOR(TEST_F32, 3, k), *out = TENSOR(TEST_F32, 3, n);
        samebits_weights *weights;
        assert_ok(samebits_weights_prepare_affine(api_context, &w->dl, &s->dl, &b->dl, 4, 64, NULL, &weights));
        for (int order = SAMEBITS_ORDER_PORTABLE_1; order <= SAMEBITS_ORDER_INT8_1; order++) {
            assert_ok(samebits_linear_prepared(api_context, &x->dl, weights, (samebits_order)order, NULL, &out->dl));
            for (int64_t j = 0; j < test_count(out); j++) assert_true(test_get(out, j) == 0.0f);
        }
        samebits_weights_destroy(&weights);
    }
}

int api_affine_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_errors),          API_TEST(test_parameters), API_TEST(test_sizes),    API_TEST(test_forms),
        API_TEST(test_other_functions), API_TEST(test_empty),      API_TEST(test_products),
    };
    return API_RUN(tests);
}
