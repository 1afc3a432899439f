/* Embedding lookup: bad input, ids out of range, dtypes, layouts. The values are in test_dequantised.c, test_affine.c
 * and test_scaled.c. */
#include <stdlib.h>

#include "api.h"

enum { V = 19, K = 64 };

typedef struct {
    samebits_format format;
    samebits_weights *prepared;
} table;

static samebits_status call_plain(op_case *c)
{
    return samebits_embedding(c->context, c->pointer[2], ((const table *)c->user)->format, c->pointer[0],
                              c->pointer[1]);
}

static samebits_status call_prepared(op_case *c)
{
    return samebits_embedding_prepared(c->context, ((const table *)c->user)->prepared, c->pointer[0], c->pointer[1]);
}

static op_case lookup(table *t, samebits_format format, test_dtype out, int prepared)
{
    test_rng rng = {61};
    op_case c = {.context = api_context, .call = prepared ? call_prepared : call_plain, .user = t};
    test_tensor *id = TENSOR(TEST_I32, 2, 3), *w;
    for (int i = 0; i < 6; i++) {
        const int32_t row = (int32_t)test_below(&rng, V);
        memcpy(test_at(id, i), &row, sizeof row);
    }
    op_add(&c, "id", id, 0, 7, 0);
    op_add(&c, "out", TENSOR(out, 2, 3, K), 1, 8, OP_OUT);
    if (format <= SAMEBITS_FORMAT_BF16) {
        w = TENSOR((test_dtype)format, V, K);
        test_random(w, &rng);
    } else {
        size_t row;
        assert_ok(samebits_format_row_size(format, K, &row));
        w = TENSOR(TEST_U8, V, (int64_t)row);
        test_random_bytes(w, &rng);
    }
    *t = (table){.format = format};
    if (prepared)
        assert_ok(samebits_weights_prepare(api_context, &w->dl, format, NULL, &t->prepared));
    else
        op_add(&c, "table", w, 2, 2, OP_NO_GROW);
    return c;
}

static void test_errors(void **state)
{
    (void)state;
    static const samebits_format formats[] = {SAMEBITS_FORMAT_F32, SAMEBITS_FORMAT_BF16, SAMEBITS_FORMAT_Q5_1,
                                              SAMEBITS_FORMAT_NVFP4};
    for (int i = 0; i < 4; i++)
        for (int prepared = 0; prepared < 2; prepared++) {
            table t;
            op_case c = lookup(&t, formats[i], (test_dtype)(i % 3), prepared);
            op_check_errors(&c);
            op_check_memory(&c, 2);
            static const int32_t bad[] = {-1, V, INT32_MAX, INT32_MIN};
            for (int b = 0; b < 4; b++) {
                int32_t *last = test_at(c.argument[0].tensor, 5), kept = *last;
                *last = bad[b];
                op_expect(&c, SAMEBITS_ERR_PARAM, "id", "no such row");
                *last = kept;
            }
            samebits_weights_destroy(&t.prepared);
            test_free_all(NULL);
        }
    table t;
    op_case c = lookup(&t, SAMEBITS_FORMAT_F32, TEST_F32, 0);
    t.format = SAMEBITS_FORMAT_AFFINE_4;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "samebits_weights_prepare_affine", "affine rows");
    t.format = SAMEBITS_FORMAT_COUNT;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "format", "no such format");
    assert_fails(samebits_embedding_prepared(api_context, NULL, c.pointer[0], c.pointer[1]), SAMEBITS_ERR_NULL,
                 "table");
}

/* Any layout and dtype of out; one id without dims; nothing. */
static void test_layouts(void **state)
{
    (void)state;
    table t;
    op_case c = lookup(&t, SAMEBITS_FORMAT_F16, TEST_F32, 0);
    op_expect_ok(&c);
    for (int dtype = TEST_F32; dtype <= TEST_BF16; dtype++) {
        test_tensor *out = test_strided((test_dtype)dtype, 3, (int64_t[]){2, 3, K}, (int64_t[]){1, 2, 9}, 2);
        assert_ok(samebits_embedding(api_context, c.pointer[2], t.format, c.pointer[0], &out->dl));
        for (int64_t i = 0; i < 6 * K; i++) {
            if (dtype == TEST_F32) assert_memory_equal(test_at(out, i), test_at(c.argument[1].tensor, i), 4);
            if (dtype == TEST_F16) {
                const int64_t row = *(int32_t *)test_at(c.argument[0].tensor, i / K);
                assert_memory_equal(test_at(out, i), test_at(c.argument[2].tensor, row * K + i % K), 2);
            }
        }
    }
    test_tensor *one = test_new(TEST_I32, 0, NULL), *row = TENSOR(TEST_F32, K), *none = TENSOR(TEST_I32, 0);
    memset(one->memory, 0, one->size);
    assert_ok(samebits_embedding(api_context, c.pointer[2], t.format, &one->dl, &row->dl));
    assert_true(test_get(row, 5) == test_get(c.argument[2].tensor, 5));
    assert_ok(samebits_embedding(api_context, c.pointer[2], t.format, &none->dl, &TENSOR(TEST_F32, 0, K)->dl));
}

int api_embedding_tests(void)
{
    static const struct CMUnitTest tests[] = {API_TEST(test_errors), API_TEST(test_layouts)};
    return API_RUN(tests);
}
