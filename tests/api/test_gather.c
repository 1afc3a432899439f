/* Products with experts: bad input, any sequence of rows, empty experts; each row beside the plain product of it. */
#include <stdlib.h>

#include "api.h"

enum { EXPERTS = 5, N = 33, K = 64, TOKENS = 11, USED = 3 };

typedef struct {
    samebits_weights *prepared[EXPERTS];
    samebits_format format;
    samebits_order order;
    samebits_epilogue epilogue;
} expert_set;

static samebits_status call_linear(op_case *c)
{
    const expert_set *s = c->user;
    samebits_epilogue e = s->epilogue;
    e.bias = c->pointer[4];
    return samebits_gather_linear(c->context, c->pointer[0], c->pointer[3], s->format, c->pointer[2], s->order, &e,
                                  c->pointer[1]);
}

static samebits_status call_prepared(op_case *c)
{
    const expert_set *s = c->user;
    return samebits_gather_prepared(c->context, c->pointer[0], (const samebits_weights *const *)s->prepared, EXPERTS,
                                    c->pointer[2], s->order, &s->epilogue, c->pointer[1]);
}

static test_tensor *weights_of(samebits_format format)
{
    test_rng rng = {51};
    if (format <= SAMEBITS_FORMAT_BF16) {
        test_tensor *w = TENSOR((test_dtype)format, EXPERTS, N, K);
        test_random(w, &rng);
        return w;
    }
    size_t size;
    assert_ok(samebits_format_row_size(format, K, &size));
    test_tensor *w = TENSOR(TEST_U8, EXPERTS, N, (int64_t)size);
    test_random_bytes(w, &rng);
    return w;
}

/* Expert 2 has no rows. */
static test_tensor *index_of(int sorted)
{
    test_rng rng = {52};
    test_tensor *index = TENSOR(TEST_I32, TOKENS, USED);
    for (int32_t i = 0; i < TOKENS * USED; i++) {
        int32_t expert = sorted ? i * EXPERTS / (TOKENS * USED) : (int32_t)test_below(&rng, EXPERTS);
        if (expert == 2) expert = 3;
        memcpy(test_at(index, i), &expert, 4);
    }
    return index;
}

static op_case gather_case(expert_set *s, samebits_format format, samebits_order order, int prepared, int sorted)
{
    test_rng rng = {53};
    op_case c = {.context = api_context, .call = prepared ? call_prepared : call_linear, .user = s};
    *s = (expert_set){.format = format, .order = order};
    samebits_epilogue_default(&s->epilogue);
    op_add(&c, "x", TENSOR(TEST_F32, TOKENS, USED, K), 2, 8, 0);
    op_add(&c, "out", TENSOR(TEST_F32, TOKENS, USED, N), 2, 8, OP_OUT);
    op_add(&c, "index", index_of(sorted), 1, 7, 0);
    test_random(c.argument[0].tensor, &rng);
    test_tensor *w = weights_of(format);
    if (!prepared) {
        op_add(&c, "w", w, 3, 3, OP_NO_GROW); /* any number of experts */
        op_add(&c, "bias", TENSOR(TEST_F32, N), 1, 1, OP_OPTIONAL);
        test_random(c.argument[4].tensor, &rng);
        return c;
    }
    for (int64_t e = 0; e < EXPERTS; e++) {
        DLTensor one = w->dl;
        one.ndim = 2;
        one.shape = w->shape + 1;
        one.strides = w->strides + 1;
        one.data = test_at(w, e * w->strides[0]);
        one.byte_offset = 0;
        assert_ok(samebits_weights_prepare(api_context, &one, format, NULL, &s->prepared[e]));
    }
    return c;
}

static void release(expert_set *s)
{
    for (int e = 0; e < EXPERTS; e++) samebits_weights_destroy(&s->prepared[e]);
}

static void test_errors(void **state)
{
    (void)state;
    expert_set s;
    op_case c = gather_case(&s, SAMEBITS_FORMAT_F16, SAMEBITS_ORDER_PORTABLE_1, 0, 0);
    op_check_errors(&c);
    op_check_memory(&c, 2);
    c = gather_case(&s, SAMEBITS_FORMAT_F32, SAMEBITS_ORDER_PORTABLE_1, 1, 0);
    op_check_errors(&c);
    op_check_memory(&c, 2);
    release(&s);
}

static void test_parameters(void **state)
{
    (void)state;
    expert_set s;
    op_case c = gather_case(&s, SAMEBITS_FORMAT_Q8_0, SAMEBITS_ORDER_INT8_1, 1, 0);
    static const int32_t wrong[] = {EXPERTS, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int32_t right;
        memcpy(&right, test_at(c.argument[2].tensor, 20), 4);
        memcpy(test_at(c.argument[2].tensor, 20), &wrong[i], 4);
        op_expect(&c, SAMEBITS_ERR_PARAM, "index", "no such expert");
        memcpy(test_at(c.argument[2].tensor, 20), &right, 4);
    }
    const samebits_weights *const *list = (const samebits_weights *const *)s.prepared;
    const samebits_weights *holes[EXPERTS] = {s.prepared[0], NULL, s.prepared[2], s.prepared[3], s.prepared[4]};
    DLTensor *x = c.pointer[0], *out = c.pointer[1], *index = c.pointer[2];
    assert_fails(samebits_gather_prepared(api_context, x, NULL, EXPERTS, index, s.order, NULL, out), SAMEBITS_ERR_NULL,
                 "experts");
    assert_fails(samebits_gather_prepared(api_context, x, holes, EXPERTS, index, s.order, NULL, out), SAMEBITS_ERR_NULL,
                 "experts");
    assert_fails(samebits_gather_prepared(api_context, x, list, 0, index, s.order, NULL, out), SAMEBITS_ERR_PARAM,
                 "count");
    s.order = (samebits_order)77;
    op_expect(&c, SAMEBITS_ERR_ORDER, "order", "an unknown order");
    release(&s);
}

/* Formats with scales beside their rows: the message says what to do instead. */
static void test_formats(void **state)
{
    (void)state;
    expert_set s;
    op_case c = gather_case(&s, SAMEBITS_FORMAT_F32, SAMEBITS_ORDER_PORTABLE_1, 0, 0);
    for (int f = SAMEBITS_FORMAT_AFFINE_2; f <= SAMEBITS_FORMAT_MLX_NVFP4; f++) {
        s.format = (samebits_format)f;
        op_expect(&c, SAMEBITS_ERR_FORMAT, "samebits_gather_prepared", "scales beside the rows");
    }
    s.format = SAMEBITS_FORMAT_COUNT;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "samebits_format", "unknown");
}

/* Each row, alone, through the plain product with its expert. */
static void expect_plain_rows(const op_case *c, const expert_set *s)
{
    for (int64_t r = 0; r < TOKENS * USED; r++) {
        test_tensor *x = TENSOR(TEST_F32, 1, K), *out = TENSOR(TEST_F32, 1, N);
        int32_t expert;
        memcpy(&expert, test_at(c->argument[2].tensor, r), 4);
        memcpy(x->memory, test_at(c->argument[0].tensor, r * K), K * 4);
        assert_ok(samebits_linear_prepared(api_context, &x->dl, s->prepared[expert], s->order, NULL, &out->dl));
        assert_memory_equal(out->memory, test_at(c->argument[1].tensor, r * N), N * 4);
    }
}

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        samebits_format format;
        samebits_order order;
    } kinds[] = {{SAMEBITS_FORMAT_F32, SAMEBITS_ORDER_PORTABLE_1},  {SAMEBITS_FORMAT_F16, SAMEBITS_ORDER_PORTABLE_1},
                 {SAMEBITS_FORMAT_BF16, SAMEBITS_ORDER_PORTABLE_1}, {SAMEBITS_FORMAT_Q4_0, SAMEBITS_ORDER_PORTABLE_1},
                 {SAMEBITS_FORMAT_Q4_0, SAMEBITS_ORDER_INT8_1},     {SAMEBITS_FORMAT_Q8_0, SAMEBITS_ORDER_INT8_1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int sorted = 0; sorted < 2; sorted++) {
            expert_set s, plain;
            op_case c = gather_case(&s, kinds[i].format, kinds[i].order, 1, sorted);
            op_expect_ok(&c);
            expect_plain_rows(&c, &s);
            op_case raw = gather_case(&plain, kinds[i].format, kinds[i].order, 0, sorted);
            raw.pointer[4] = NULL;
            op_expect_ok(&raw);
            assert_memory_equal(c.argument[1].tensor->memory, raw.argument[1].tensor->memory,
                                c.argument[1].tensor->size);
            release(&s);
        }
}

/* One row of x for all experts of a token, by a stride of 0, and an output whose rows are apart. */
static void test_broadcast(void **state)
{
    (void)state;
    expert_set s;
    op_case c = gather_case(&s, SAMEBITS_FORMAT_F32, SAMEBITS_ORDER_PORTABLE_1, 1, 0);
    test_tensor *x = c.argument[0].tensor;
    for (int64_t r = 0; r < TOKENS * USED; r++) memcpy(test_at(x, r * K), test_at(x, r / USED * USED * K), K * 4);
    op_expect_ok(&c);
    void *want = test_gather(c.argument[1].tensor);
    const int64_t shape[] = {TOKENS, USED, N}, strides[] = {1, TOKENS * 2, TOKENS * USED * 3};
    test_tensor *out = test_strided(TEST_F32, 3, shape, strides, 3);
    x->strides[1] = 0;
    c.pointer[1] = &out->dl;
    assert_ok(c.call(&c));
    void *have = test_gather(out);
    assert_memory_equal(want, have, TOKENS * USED * N * 4);
    free(want);
    free(have);
    release(&s);
}

int api_gather_tests(void)
{
    static const struct CMUnitTest tests[] = {API_TEST(test_errors), API_TEST(test_parameters), API_TEST(test_formats),
                                              API_TEST(test_rows), API_TEST(test_broadcast)};
    return API_RUN(tests);
}
