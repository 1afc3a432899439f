/* Formats and prepared weights. */
#include <stdlib.h>

#include "api.h"

typedef struct {
    samebits_format format;
    void *storage;
} prepare_user;

/* Prepares and destroys: the case's only tensor is the input. */
static samebits_status call_prepare(op_case *c)
{
    const prepare_user *u = c->user;
    samebits_weights *weights = (samebits_weights *)c;
    const samebits_status status = samebits_weights_prepare(c->context, c->pointer[0], u->format, u->storage, &weights);
    if (status) assert_null(weights);
    samebits_weights_destroy(&weights);
    return status;
}

static void test_prepare_errors(void **state)
{
    (void)state;
    static const test_dtype dtypes[] = {TEST_F32, TEST_F16, TEST_BF16};
    for (int i = 0; i < 3; i++) {
        prepare_user user = {SAMEBITS_FORMAT_F32 + i, NULL};
        test_rng rng = {21};
        op_case c = {.context = api_context, .call = call_prepare, .user = &user};
        op_add(&c, "w", TENSOR(dtypes[i], 21, 33), 2, 2, OP_NO_GROW);
        test_random(c.argument[0].tensor, &rng);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        c.pointer[0] = &TENSOR(dtypes[(i + 1) % 3], 21, 33)->dl;
        op_expect(&c, SAMEBITS_ERR_DTYPE, "w", "another float");
    }
}

static void test_prepare_parameters(void **state)
{
    (void)state;
    test_tensor *w = TENSOR(TEST_F32, 20, 8);
    samebits_weights *weights = (samebits_weights *)w;
    assert_fails(samebits_weights_prepare(api_context, &w->dl, SAMEBITS_FORMAT_F32, NULL, NULL), SAMEBITS_ERR_NULL,
                 "weights");
    assert_fails(samebits_weights_prepare(api_context, &w->dl, SAMEBITS_FORMAT_COUNT, NULL, &weights),
                 SAMEBITS_ERR_FORMAT, "format");
    assert_null(weights);
    assert_fails(samebits_weights_prepare(api_context, &w->dl, (samebits_format)-1, NULL, &weights),
                 SAMEBITS_ERR_FORMAT, "format");
    assert_fails(samebits_weights_prepare(api_context, &w->dl, SAMEBITS_FORMAT_F32, (char *)w->memory + 4, &weights),
                 SAMEBITS_ERR_PARAM, "storage");
    assert_null(weights);
    samebits_weights_destroy(&weights);
    samebits_weights_destroy(NULL);
    assert_int_equal(samebits_weights_rows(NULL), 0);
    assert_int_equal(samebits_weights_depth(NULL), 0);
    assert_int_equal(samebits_weights_format(NULL), SAMEBITS_FORMAT_COUNT);
}

/* The caller's storage is used, and exactly as much of it as samebits_weights_size says. */
static void test_storage(void **state)
{
    (void)state;
    static const samebits_format formats[] = {SAMEBITS_FORMAT_F32, SAMEBITS_FORMAT_F16, SAMEBITS_FORMAT_BF16};
    test_rng rng = {22};
    for (int i = 0; i < 3; i++) {
        test_tensor *w = TENSOR((test_dtype)i, 37, 19);
        test_random(w, &rng);
        size_t size, row_size;
        assert_ok(samebits_weights_size(formats[i], 37, 19, &size));
        assert_ok(samebits_format_row_size(formats[i], 19, &row_size));
        test_tensor *storage = TENSOR(TEST_U8, (int64_t)size); /* its guard bytes see a write past the end */
        samebits_weights *weights;
        test_memory memory;
        test_memory_init(&memory);
        samebits_options o;
        samebits_options_default(&o);
        o.allocator = test_memory_allocator(&memory);
        samebits_context *c;
        assert_ok(samebits_create(&c, &o));
        assert_ok(samebits_weights_prepare(c, &w->dl, formats[i], storage->memory, &weights));
        samebits_destroy(&c); /* weights outlive their context */
        assert_int_equal(samebits_weights_rows(weights), 37);
        assert_int_equal(samebits_weights_depth(weights), 19);
        assert_int_equal(samebits_weights_format(weights), formats[i]);
        test_tensor *rows = TENSOR(TEST_U8, 37, (int64_t)row_size);
        assert_ok(samebits_weights_restore(weights, rows->memory, row_size));
        assert_memory_equal(rows->memory, w->memory, w->size);
        assert_ok(samebits_weights_restore_rows(weights, 14, 5, rows->memory, row_size)); /* across two panels */
        assert_memory_equal(rows->memory, (const char *)w->memory + 14 * row_size, 5 * row_size);
        assert_fails(samebits_weights_restore_rows(weights, 33, 5, rows->memory, row_size), SAMEBITS_ERR_PARAM, "37");
        assert_fails(samebits_weights_restore_rows(weights, INT64_MAX, 5, rows->memory, row_size), SAMEBITS_ERR_PARAM,
                     "there are 37");
        assert_fails(samebits_weights_restore(weights, rows->memory, row_size - 1), SAMEBITS_ERR_PARAM, "row_stride");
        assert_fails(samebits_weights_restore(NULL, rows->memory, row_size), SAMEBITS_ERR_NULL, "weights");
        assert_fails(samebits_weights_restore(weights, NULL, row_size), SAMEBITS_ERR_NULL, "rows");
        samebits_weights_destroy(&weights);
        assert_null(weights);
        assert_int_equal(memory.live, 0);
        assert_int_equal(memory.faults, 0);
    }
}

static int has_scales_beside(samebits_format f)
{
    return f >= SAMEBITS_FORMAT_AFFINE_2 && f <= SAMEBITS_FORMAT_MLX_NVFP4;
}

static void test_sizes(void **state)
{
    (void)state;
    size_t bytes = 12345;
    for (int f = 0; f < SAMEBITS_FORMAT_COUNT; f++) {
        const int64_t block = samebits_format_block((samebits_format)f);
        if (!block) continue; /* a format of a later version */
        assert_string_not_equal(samebits_format_name((samebits_format)f), "unknown");
        assert_ok(samebits_format_row_size((samebits_format)f, 0, &bytes));
        assert_int_equal(bytes, 0);
        size_t one, ten;
        assert_ok(samebits_format_row_size((samebits_format)f, block, &one));
        assert_ok(samebits_format_row_size((samebits_format)f, 10 * block, &ten));
        assert_int_equal(ten, 10 * one);
        assert_fails(samebits_format_row_size((samebits_format)f, -block, &bytes), SAMEBITS_ERR_PARAM, "K");
        if (block > 1) {
            assert_fails(samebits_format_row_size((samebits_format)f, block + 1, &bytes), SAMEBITS_ERR_FORMAT, "K");
            if (!has_scales_beside((samebits_format)f))
                assert_fails(samebits_weights_size((samebits_format)f, 4, block - 1, &bytes), SAMEBITS_ERR_FORMAT, "K");
        }
        if (has_scales_beside((samebits_format)f)) {
            assert_fails(samebits_weights_size((samebits_format)f, 4, block, &bytes), SAMEBITS_ERR_FORMAT,
                         f >= SAMEBITS_FORMAT_MLX_MXFP4 ? "samebits_weights_size_scaled"
                                                        : "samebits_weights_size_affine");
            continue;
        }
        const int64_t huge = ((int64_t)1 << 62) / block * block;
        assert_fails(samebits_weights_size((samebits_format)f, huge, huge, &bytes), SAMEBITS_ERR_OVERFLOW, "weights");
        assert_fails(samebits_weights_size((samebits_format)f, INT64_MAX, block, &bytes), SAMEBITS_ERR_OVERFLOW,
                     "weights");
        assert_fails(samebits_weights_size((samebits_format)f, -1, block, &bytes), SAMEBITS_ERR_PARAM, "N");
    }
    assert_fails(samebits_weights_size(SAMEBITS_FORMAT_F32, 1, 1, NULL), SAMEBITS_ERR_NULL, "bytes");
    assert_fails(samebits_format_row_size(SAMEBITS_FORMAT_F32, 1, NULL), SAMEBITS_ERR_NULL, "bytes");
    assert_fails(samebits_format_row_size((samebits_format)99, 1, &bytes), SAMEBITS_ERR_FORMAT, "format");
    assert_fails(samebits_weights_size((samebits_format)99, 1, 1, &bytes), SAMEBITS_ERR_FORMAT, "format");
    assert_string_equal(samebits_format_name((samebits_format)99), "unknown");
    assert_int_equal(samebits_format_block((samebits_format)99), 0);
    assert_int_equal(samebits_format_block((samebits_format)-1), 0);
}

static void test_empty_weights(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{0, 8}, {8, 0}, {0, 0}};
    for (int i = 0; i < 3; i++) {
        test_tensor *w = TENSOR(TEST_F32, sizes[i][0], sizes[i][1]), *x = TENSOR(TEST_F32, 2, sizes[i][1]);
        test_tensor *out = TENSOR(TEST_F32, 2, sizes[i][0]);
        samebits_weights *weights;
        assert_ok(samebits_weights_prepare(api_context, &w->dl, SAMEBITS_FORMAT_F32, NULL, &weights));
        assert_ok(samebits_linear_prepared(api_context, &x->dl, weights, SAMEBITS_ORDER_PORTABLE_1, NULL, &out->dl));
        for (int64_t j = 0; j < test_count(out); j++) assert_true(test_get(out, j) == 0.0f);
        samebits_weights_destroy(&weights);
    }
}

int api_weights_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_prepare_errors), API_TEST(test_prepare_parameters), API_TEST(test_storage),
        API_TEST(test_sizes),          API_TEST(test_empty_weights),
    };
    return API_RUN(tests);
}
