/* MLX's formats of small floats with scales of a byte: bad input, every code with every scale. */
#include <math.h>

#include "api.h"

static const samebits_format formats[] = {SAMEBITS_FORMAT_MLX_MXFP4, SAMEBITS_FORMAT_MLX_MXFP8,
                                          SAMEBITS_FORMAT_MLX_NVFP4};
enum { FORMATS = 3, N = 21, K = 192 };

static int bits_of(samebits_format f) { return f == SAMEBITS_FORMAT_MLX_MXFP8 ? 8 : 4; }
static int group_of(samebits_format f) { return f == SAMEBITS_FORMAT_MLX_NVFP4 ? 16 : 32; }

typedef struct {
    samebits_format format;
    void *storage;
} scaled_user;

static samebits_status call_prepare(op_case *c)
{
    const scaled_user *u = c->user;
    samebits_weights *weights = (samebits_weights *)c;
    const samebits_status status =
        samebits_weights_prepare_scaled(c->context, c->pointer[0], c->pointer[1], u->format, u->storage, &weights);
    if (status) assert_null(weights);
    samebits_weights_destroy(&weights);
    return status;
}

static op_case scaled_case(scaled_user *u, test_dtype dtype)
{
    op_case c = {.context = api_context, .call = call_prepare, .user = u};
    op_add(&c, "w", TENSOR(dtype, N, K * bits_of(u->format) / (dtype == TEST_U8 ? 8 : 32)), 2, 2, OP_NO_GROW);
    op_add(&c, "scales", TENSOR(TEST_U8, N, K / group_of(u->format)), 2, 2, 0);
    return c;
}

static void test_errors(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++) {
        scaled_user u = {formats[i], NULL};
        op_case c = scaled_case(&u, i % 2 ? TEST_U8 : TEST_U32);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        test_free_all(NULL);
    }
}

static void test_parameters(void **state)
{
    (void)state;
    scaled_user u = {SAMEBITS_FORMAT_MLX_NVFP4, NULL};
    op_case c = scaled_case(&u, TEST_U32);
    for (int f = -1; f <= SAMEBITS_FORMAT_COUNT; f++) {
        if (f >= SAMEBITS_FORMAT_MLX_MXFP4 && f <= SAMEBITS_FORMAT_MLX_NVFP4) continue;
        u.format = (samebits_format)f;
        op_expect(&c, SAMEBITS_ERR_FORMAT, "format", "not such a format");
    }
    u.format = SAMEBITS_FORMAT_MLX_MXFP4;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "scales", "scales of other groups");
    u.format = SAMEBITS_FORMAT_MLX_NVFP4;
    u.storage = (char *)c.argument[0].tensor->memory + 4;
    op_expect(&c, SAMEBITS_ERR_PARAM, "storage", "misaligned");
    u.storage = NULL;
    DLTensor *w = c.pointer[0];
    w->shape[1] -= 1;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "w", "part of 32 weights");
    w->shape[1] += 1;
    w->strides[1] = 2;
    op_expect(&c, SAMEBITS_ERR_STRIDE, "w", "gaps between words");
    w->strides[1] = 1;
    w->shape[0] -= 1;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "scales", "a row of scales too many");
    w->shape[0] += 1;
    assert_fails(samebits_weights_prepare_scaled(api_context, w, c.pointer[1], u.format, NULL, NULL), SAMEBITS_ERR_NULL,
                 "weights");
    op_expect_ok(&c);
}

/* What belongs to other functions and orders is sent there. */
static void test_others(void **state)
{
    (void)state;
    size_t bytes;
    scaled_user u = {SAMEBITS_FORMAT_MLX_MXFP8, NULL};
    op_case c = scaled_case(&u, TEST_U8);
    samebits_weights *weights = NULL, *others;
    test_tensor *x = TENSOR(TEST_F32, 2, K), *out = TENSOR(TEST_F32, 2, N);
    assert_fails(samebits_weights_prepare(api_context, c.pointer[0], u.format, NULL, &weights), SAMEBITS_ERR_FORMAT,
                 "samebits_weights_prepare_scaled");
    assert_ok(samebits_weights_prepare_scaled(api_context, c.pointer[0], c.pointer[1], u.format, NULL, &weights));
    assert_fails(samebits_linear_prepared(api_context, &x->dl, weights, SAMEBITS_ORDER_INT8_1, NULL, &out->dl),
                 SAMEBITS_ERR_ORDER, "mlx_mxfp8");
    assert_fails(samebits_weights_restore(weights, x->memory, K), SAMEBITS_ERR_FORMAT,
                 "samebits_weights_restore_scaled");
    assert_fails(samebits_weights_restore_scaled(NULL, x->memory, x->memory), SAMEBITS_ERR_NULL, "weights");
    assert_fails(samebits_weights_restore_scaled(weights, NULL, x->memory), SAMEBITS_ERR_NULL, "w");
    assert_fails(samebits_weights_restore_scaled(weights, x->memory, NULL), SAMEBITS_ERR_NULL, "scales");
    assert_ok(samebits_weights_prepare(api_context, &x->dl, SAMEBITS_FORMAT_F32, NULL, &others));
    assert_fails(samebits_weights_restore_scaled(others, x->memory, x->memory), SAMEBITS_ERR_FORMAT, "f32");
    samebits_weights_destroy(&others);
    samebits_weights_destroy(&weights);
    assert_ok(samebits_weights_size_scaled(u.format, 17, 64, &bytes));
    assert_int_equal(bytes, 32 * (64 + 2)); /* two panels of 16 rows */
    assert_fails(samebits_weights_size_scaled(u.format, 17, 48, &bytes), SAMEBITS_ERR_FORMAT, "K");
    assert_fails(samebits_weights_size_scaled(u.format, -1, 32, &bytes), SAMEBITS_ERR_PARAM, "N");
    assert_fails(samebits_weights_size_scaled(u.format, 1, 32, NULL), SAMEBITS_ERR_NULL, "bytes");
    assert_fails(samebits_weights_size_scaled(SAMEBITS_FORMAT_NVFP4, 1, 64, &bytes), SAMEBITS_ERR_FORMAT, "nvfp4");
}

/* The formulas of spec/formats.md, apart from the library's. */
static float e4m3(int byte)
{
    const float magnitude =
        byte & 0x78 ? ldexpf((float)(8 + (byte & 7)), (byte >> 3 & 15) - 10) : ldexpf((float)(byte & 7), -9);
    return (byte & 127) == 127 ? NAN : byte & 128 ? -magnitude : magnitude;
}

static float element(samebits_format f, const unsigned char *row, int64_t i)
{
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    if (bits_of(f) == 8) return e4m3(row[i]);
    const int code = row[i / 2] >> 4 * (i % 2) & 15;
    return code & 8 ? -e2m1[code & 7] : e2m1[code & 7];
}

static float scale(samebits_format f, int byte)
{
    if (f == SAMEBITS_FORMAT_MLX_NVFP4) return e4m3(byte);
    return byte == 255 ? INFINITY : ldexpf(1.0f, byte - 127);
}

/* linear_prepared is "widen, then linear", bit for bit, and both tensors come back. */
static void check_values(samebits_format f, test_tensor *w, test_tensor *scales, int64_t n, int64_t k, test_rng *rng)
{
    enum { M = 5 };
    test_tensor *x = TENSOR(TEST_F32, M, k), *values = TENSOR(TEST_F32, n, k);
    test_tensor *want = TENSOR(TEST_F32, M, n), *have = TENSOR(TEST_F32, M, n);
    test_random(x, rng);
    for (int i = 0; i < 40; i++) test_set(x, test_below(rng, M * k), i % 2 ? -0x1p-140f : 0x1p-140f);
    for (int64_t i = 0; i < n * k; i++) {
        const unsigned char *row = test_at(w, i / k * (k * bits_of(f) / 8));
        const int64_t group = i / k * (k / group_of(f)) + i % k / group_of(f);
        const float value = element(f, row, i % k) * scale(f, *(unsigned char *)test_at(scales, group));
        memcpy(test_at(values, i), &value, sizeof value);
    }
    samebits_weights *weights;
    assert_ok(samebits_linear(api_context, &x->dl, &values->dl, NULL, &want->dl));
    assert_ok(samebits_weights_prepare_scaled(api_context, &w->dl, &scales->dl, f, NULL, &weights));
    assert_ok(samebits_linear_prepared(api_context, &x->dl, weights, SAMEBITS_ORDER_PORTABLE_1, NULL, &have->dl));
    assert_memory_equal(have->memory, want->memory, want->size);
    test_tensor *id = TENSOR(TEST_I32, n), *rows_back = TENSOR(TEST_F32, n, k);
    for (int32_t i = 0; i < n; i++) memcpy(test_at(id, i), &i, sizeof i);
    assert_ok(samebits_embedding_prepared(api_context, weights, &id->dl, &rows_back->dl));
    for (int64_t i = 0; i < n * k; i++)
        if (!isnan(test_get(values, i))) assert_memory_equal(test_at(rows_back, i), test_at(values, i), 4);
    assert_int_equal(samebits_weights_rows(weights), n);
    assert_int_equal(samebits_weights_depth(weights), k);
    assert_int_equal(samebits_weights_format(weights), f);
    test_tensor *rows = TENSOR(TEST_U8, n, k * bits_of(f) / 8), *s = TENSOR(TEST_U8, n, k / group_of(f));
    assert_ok(samebits_weights_restore_scaled(weights, rows->memory, s->memory));
    for (int64_t i = 0; i < test_count(w); i++) assert_int_equal(rows->memory[i], *(unsigned char *)test_at(w, i));
    for (int64_t i = 0; i < test_count(s); i++) assert_int_equal(s->memory[i], *(unsigned char *)test_at(scales, i));
    samebits_weights_destroy(&weights);
}

/* Each code with each scale. The other weights are 0, and NaN with a scale that is NaN or Inf. */
static void test_all_codes(void **state)
{
    (void)state;
    for (int i = 0; i < 256 * FORMATS; i++) {
        const samebits_format f = formats[i / 256];
        const int codes = 1 << bits_of(f), byte = i % 256;
        test_tensor *w = TENSOR(TEST_U8, codes, 32 * bits_of(f) / 8),
                    *scales = TENSOR(TEST_U8, codes, 32 / group_of(f));
        test_tensor *x = TENSOR(TEST_F32, 1, 32), *out = TENSOR(TEST_F32, 1, codes);
        memset(w->memory, 0, w->size);
        memset(x->memory, 0, x->size);
        memset(scales->memory, byte, scales->size);
        test_set(x, 0, 1.0f);
        for (int code = 0; code < codes; code++) w->memory[code * w->shape[1]] = (unsigned char)code;
        samebits_weights *weights;
        assert_ok(samebits_weights_prepare_scaled(api_context, &w->dl, &scales->dl, f, NULL, &weights));
        assert_ok(samebits_linear_prepared(api_context, &x->dl, weights, SAMEBITS_ORDER_PORTABLE_1, NULL, &out->dl));
        for (int code = 0; code < codes; code++) {
            const float factor = scale(f, byte), have = test_get(out, code);
            const float want = element(f, test_at(w, code * w->shape[1]), 0) * factor + 0.0f * factor;
            if (isnan(want))
                assert_true(isnan(have));
            else
                assert_true(have == want);
        }
        samebits_weights_destroy(&weights);
        test_free_all(NULL);
    }
}

static void test_values(void **state)
{
    (void)state;
    test_rng rng = {92};
    for (int i = 0; i < FORMATS; i++)
        for (int any = 0; any < 2; any++)
            for (int transposed = 0; transposed < 2; transposed++) {
                const samebits_format f = formats[i];
                const int64_t k = transposed ? 32 : 544, groups = k / group_of(f);
                test_tensor *w = TENSOR(TEST_U8, N, k * bits_of(f) / 8);
                test_tensor *scales = transposed
                                          ? test_strided(TEST_U8, 2, (int64_t[]){N, groups}, (int64_t[]){1, N + 3}, 1)
                                          : TENSOR(TEST_U8, N, groups);
                test_random_bytes(w, &rng);
                test_random_bytes(scales, &rng);
                for (size_t j = 0; !any && j < w->size; j++) w->memory[j] &= 0xFE;
                for (size_t j = 0; !any && j < scales->size; j++)
                    scales->memory[j] = (unsigned char)(f == SAMEBITS_FORMAT_MLX_NVFP4 ? scales->memory[j] & 0xFE
                                                                                       : scales->memory[j] % 200);
                check_values(f, w, scales, N, k, &rng);
                test_free_all(NULL);
            }
}

typedef struct {
    samebits_format format;
    int transpose;
    samebits_order order;
} product_user;

static samebits_status call_product(op_case *c)
{
    const product_user *u = c->user;
    return samebits_matmul_scaled(c->context, c->pointer[0], c->pointer[1], c->pointer[2], u->format, u->transpose,
                                  u->order, NULL, c->pointer[3]);
}

/* x (2, 3, K), and weights of `rows` rows of `length`: along K, or along N. */
static op_case product_case(product_user *u, test_dtype words, int64_t rows, int64_t length, test_rng *rng)
{
    op_case c = {.context = api_context, .call = call_product, .user = u};
    const int64_t k = u->transpose ? length : rows, n = u->transpose ? rows : length,
                  groups = length / group_of(u->format);
    op_add(&c, "x", TENSOR(TEST_F32, 2, 3, k), 1, 8, 0);
    op_add(&c, "w", TENSOR(words, rows, length * bits_of(u->format) / (words == TEST_U8 ? 8 : 32)), 2, 2, OP_NO_GROW);
    op_add(&c, "scales", test_strided(TEST_U8, 2, (int64_t[]){rows, groups}, (int64_t[]){1, rows + 3}, 4), 2, 2, 0);
    op_add(&c, "out", TENSOR(TEST_F32, 2, 3, n), 1, 8, OP_OUT);
    test_random(c.argument[0].tensor, rng);
    test_random_bytes(c.argument[1].tensor, rng);
    test_random_bytes(c.argument[2].tensor, rng);
    return c;
}

/* Along K: the bits of prepared weights. */
static void check_along_k(product_user *u, test_dtype words, test_rng *rng)
{
    op_case c = product_case(u, words, N, K, rng);
    test_tensor *want = TENSOR(TEST_F32, 2, 3, N);
    samebits_weights *weights;
    assert_ok(samebits_weights_prepare_scaled(api_context, c.pointer[1], c.pointer[2], u->format, NULL, &weights));
    for (int order = SAMEBITS_ORDER_PORTABLE_1; order <= SAMEBITS_ORDER_INT8_1; order++) {
        u->order = (samebits_order)order;
        if (u->format == SAMEBITS_FORMAT_MLX_MXFP8 && order == SAMEBITS_ORDER_INT8_1) continue;
        op_expect_ok(&c);
        assert_ok(samebits_linear_prepared(api_context, c.pointer[0], weights, u->order, NULL, &want->dl));
        assert_memory_equal(c.argument[3].tensor->memory, want->memory, want->size);
    }
    samebits_weights_destroy(&weights);
}

/* Along N: "widen, then matmul". */
static void check_along_n(product_user *u, test_dtype words, test_rng *rng)
{
    enum { DEPTH = 300, COLUMNS = 96 };
    const samebits_format f = u->format;
    op_case c = product_case(u, words, DEPTH, COLUMNS, rng);
    test_tensor *values = TENSOR(TEST_F32, DEPTH, COLUMNS), *want = TENSOR(TEST_F32, 2, 3, COLUMNS);
    for (int64_t i = 0; i < DEPTH * COLUMNS; i++) {
        const unsigned char *row = c.argument[1].tensor->memory + i / COLUMNS * (COLUMNS * bits_of(f) / 8);
        const int64_t group = i / COLUMNS * (COLUMNS / group_of(f)) + i % COLUMNS / group_of(f);
        const float value =
            element(f, row, i % COLUMNS) * scale(f, *(unsigned char *)test_at(c.argument[2].tensor, group));
        memcpy(test_at(values, i), &value, sizeof value);
    }
    op_expect_ok(&c);
    assert_ok(samebits_matmul(api_context, c.pointer[0], &values->dl, NULL, &want->dl));
    assert_memory_equal(c.argument[3].tensor->memory, want->memory, want->size);
}

static void test_products(void **state)
{
    (void)state;
    test_rng rng = {93};
    for (int i = 0; i < 2 * FORMATS; i++) {
        product_user along_k = {formats[i / 2], 1, SAMEBITS_ORDER_PORTABLE_1},
                     along_n = {formats[i / 2], 0, along_k.order};
        check_along_k(&along_k, i % 2 ? TEST_U8 : TEST_U32, &rng);
        check_along_n(&along_n, i % 2 ? TEST_U8 : TEST_U32, &rng);
        test_free_all(NULL);
    }
    for (int transpose = 0; transpose < 2; transpose++) {
        product_user u = {SAMEBITS_FORMAT_MLX_NVFP4, transpose, SAMEBITS_ORDER_PORTABLE_1};
        op_case c = product_case(&u, TEST_U32, transpose ? N : K, transpose ? K : 256, &rng);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        u.format = SAMEBITS_FORMAT_NVFP4;
        op_expect(&c, SAMEBITS_ERR_FORMAT, "format", "a format of other weights");
        u.format = SAMEBITS_FORMAT_MLX_NVFP4;
        u.order = transpose ? (samebits_order)9 : SAMEBITS_ORDER_INT8_1;
        op_expect(&c, SAMEBITS_ERR_ORDER, "order", "an order that it does not have");
        test_free_all(NULL);
    }
}

static void test_empty(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{0, 64}, {8, 0}, {0, 0}};
    for (int i = 0; i < 3; i++) {
        const int64_t n = sizes[i][0], k = sizes[i][1];
        test_tensor *w = TENSOR(TEST_U32, n, k / 8), *s = TENSOR(TEST_U8, n, k / 16);
        test_tensor *x = TENSOR(TEST_F32, 3, k), *out = TENSOR(TEST_F32, 3, n);
        samebits_weights *weights;
        assert_ok(
            samebits_weights_prepare_scaled(api_context, &w->dl, &s->dl, SAMEBITS_FORMAT_MLX_NVFP4, NULL, &weights));
        for (int order = SAMEBITS_ORDER_PORTABLE_1; order <= SAMEBITS_ORDER_INT8_1; order++) {
            assert_ok(samebits_linear_prepared(api_context, &x->dl, weights, (samebits_order)order, NULL, &out->dl));
            for (int64_t j = 0; j < test_count(out); j++) assert_true(test_get(out, j) == 0.0f);
        }
        samebits_weights_destroy(&weights);
    }
}

int api_scaled_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_errors), API_TEST(test_parameters), API_TEST(test_others),   API_TEST(test_all_codes),
        API_TEST(test_values), API_TEST(test_empty),      API_TEST(test_products),
    };
    return API_RUN(tests);
}
