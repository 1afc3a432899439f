/* top_k and sample: bad input, ties, filters, the distribution, and rows that must not move each other. */
#include <math.h>
#include <stdlib.h>

#include "api.h"

enum { B = 3, H = 4, N = 37, TOP = 5 };

static samebits_status call_top_k(op_case *c)
{
    return samebits_top_k(c->context, c->pointer[0], c->pointer[1], c->pointer[2]);
}

static samebits_status call_sample(op_case *c)
{
    return samebits_sample(c->context, c->pointer[0], c->user, c->pointer[1], c->pointer[2]);
}

static op_case sample_case(samebits_sampling_params *params, test_dtype dtype)
{
    test_rng rng = {41};
    samebits_sampling_params_default(params);
    op_case c = {.context = api_context, .call = call_sample, .user = params};
    op_add(&c, "x", TENSOR(dtype, B, H, N), 1, 8, OP_NO_GROW);
    op_add(&c, "noise", TENSOR(TEST_U32, B, H, 4), 1, 8, 0);
    op_add(&c, "token", TENSOR(TEST_I32, B, H), 0, 8, OP_OUT);
    test_random_small(c.argument[0].tensor, &rng);
    test_random_bytes(c.argument[1].tensor, &rng);
    return c;
}

static void test_errors(void **state)
{
    (void)state;
    for (int dtype = TEST_F32; dtype <= TEST_BF16; dtype++) {
        samebits_sampling_params params;
        op_case c = sample_case(&params, (test_dtype)dtype);
        op_check_errors(&c);
        params.top_k = N;
        params.top_p = 0.9f;
        op_check_memory(&c, 2);
        c = (op_case){.context = api_context, .call = call_top_k};
        op_add(&c, "x", TENSOR((test_dtype)dtype, B, H, N), 1, 8, OP_NO_GROW);
        op_add(&c, "value", TENSOR(TEST_F32, B, H, TOP), 1, 8, OP_OUT | OP_OPTIONAL);
        op_add(&c, "index", TENSOR(TEST_I32, B, H, TOP), 1, 8, OP_OUT | OP_OPTIONAL);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        c.pointer[1] = c.pointer[2] = NULL;
        op_expect(&c, SAMEBITS_ERR_NULL, "value", "nothing to write");
        c.pointer[2] = &TENSOR(TEST_I32, B, H, N + 1)->dl;
        op_expect(&c, SAMEBITS_ERR_SHAPE, "index", "more than there are");
        test_free_all(NULL);
    }
}

static void test_parameters(void **state)
{
    (void)state;
    samebits_sampling_params p;
    op_case c = sample_case(&p, TEST_F32);
    static const float bad_temperature[] = {-1.0f, NAN, INFINITY, -INFINITY, 0x1p-140f};
    static const float bad_share[] = {-0.1f, 1.5f, NAN, INFINITY};
    static const int64_t bad_k[] = {-1, N + 1, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 5; i++) {
        samebits_sampling_params_default(&p);
        p.temperature = bad_temperature[i];
        op_expect(&c, SAMEBITS_ERR_PARAM, "temperature", "no such temperature");
    }
    for (int i = 0; i < 4; i++) {
        samebits_sampling_params_default(&p);
        p.top_p = bad_share[i];
        op_expect(&c, SAMEBITS_ERR_PARAM, "top_p", "no share");
        samebits_sampling_params_default(&p);
        p.min_p = bad_share[i];
        op_expect(&c, SAMEBITS_ERR_PARAM, "min_p", "no share");
        samebits_sampling_params_default(&p);
        p.top_k = bad_k[i];
        op_expect(&c, SAMEBITS_ERR_PARAM, "top_k", "not so many");
    }
    samebits_sampling_params_default(&p);
    samebits_sampling_params_default(NULL);
    p.struct_size--;
    op_expect(&c, SAMEBITS_ERR_PARAM, "struct_size", "another struct");
    c.user = NULL;
    op_expect_ok(&c);
    DLTensor *x = c.pointer[0];
    x->shape[2] = 0;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "x", "nothing to draw from");
}

/* One row of logits with one row of noise. */
static int32_t draw(const float *logits, int64_t n, const samebits_sampling_params *p, uint32_t seed, uint32_t counter)
{
    const uint32_t words[4] = {seed, 7, counter, 0};
    int64_t four = 4, one = 1;
    int32_t token = -2;
    const DLTensor x = {
        .data = (void *)logits, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = &n};
    const DLTensor noise = {
        .data = (void *)words, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLUInt, 32, 1}, .shape = &four};
    DLTensor out = {.data = &token, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = &one};
    assert_ok(samebits_sample(api_context, &x, p, &noise, &out));
    return token;
}

static void test_special_rows(void **state)
{
    (void)state;
    const float inf = INFINITY;
    const float with_nan[] = {1, NAN, 2}, with_inf[] = {1, inf, inf}, nothing[] = {-inf, -inf}, one[] = {-inf, 3, -inf};
    const float ties[] = {-0.0f, 0.0f, -1, 0.0f};
    samebits_sampling_params p;
    samebits_sampling_params_default(&p);
    for (int zero = 0; zero < 2; zero++) {
        p.temperature = zero ? 0.0f : 1.0f;
        assert_int_equal(draw(with_nan, 3, &p, 1, 1), -1);
        assert_int_equal(draw(with_inf, 3, &p, 1, 1), zero ? 1 : -1);
        assert_int_equal(draw(nothing, 2, &p, 1, 1), -1);
        assert_int_equal(draw(one, 3, &p, 1, 1), 1);
    }
    assert_int_equal(draw(ties, 4, &p, 1, 1), 0);
    p.temperature = 1.0f;
    p.top_k = 2; /* of three equal ones the first two */
    int seen[4] = {0};
    for (uint32_t i = 0; i < 200; i++) seen[draw(ties, 4, &p, 3, i)]++;
    assert_true(seen[0] > 50 && seen[1] > 50 && seen[2] == 0 && seen[3] == 0);
}

/* Draws as often as the softmax says: chi squared over 20,000 draws, with the filters' sets known. */
static void test_distribution(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    static const float logits[8] = {0.0f, 1.5f, -2.0f, 1.0f, -INFINITY, 0.5f, 2.0f, -40.0f};
    /* temperature, top_k, top_p, min_p, and which tokens may come */
    static const struct {
        float temperature;
        int64_t top_k;
        float top_p, min_p;
        unsigned tokens;
    } cases[] = {{1.0f, 0, 1.0f, 0.0f, 0x6F}, {2.0f, 0, 1.0f, 0.0f, 0xEF}, {1.0f, 3, 1.0f, 0.0f, 0x4A},
                 {1.0f, 0, 0.5f, 0.0f, 0x42}, {1.0f, 0, 1.0f, 0.3f, 0x4A}, {1.0f, 2, 0.99f, 0.0f, 0x42},
                 {1.0f, 0, 0.0f, 0.0f, 0x40}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        samebits_sampling_params p;
        samebits_sampling_params_default(&p);
        p.temperature = cases[i].temperature;
        p.top_k = cases[i].top_k;
        p.top_p = cases[i].top_p;
        p.min_p = cases[i].min_p;
        int seen[8] = {0};
        for (uint32_t d = 0; d < DRAWS; d++) seen[draw(logits, 8, &p, 11, d)]++;
        double total = 0, chi = 0;
        for (int t = 0; t < 8; t++)
            if (cases[i].tokens >> t & 1) total += exp((double)logits[t] / (double)p.temperature);
        for (int t = 0; t < 8; t++) {
            if (!(cases[i].tokens >> t & 1)) {
                assert_int_equal(seen[t], 0);
                continue;
            }
            const double want = DRAWS * exp((double)logits[t] / (double)p.temperature) / total;
            chi += want > 1e-3 ? (seen[t] - want) * (seen[t] - want) / want : 0;
        }
        assert_true(chi < 30.0); /* 6 degrees of freedom: 1 in 25,000 */
    }
}

/* The published vectors of the generator, seen through rows whose tokens spell its bits: 2^16 equal logits and the
 * token are 16 bits of the first 64. */
static void test_generator(void **state)
{
    (void)state;
    enum { SIZE = 1 << 16 };
    float *flat = calloc(SIZE, sizeof *flat);
    const uint32_t zeros[4] = {0};
    int64_t n = SIZE, four = 4;
    int32_t token;
    const DLTensor x = {.data = flat, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = &n};
    const DLTensor noise = {
        .data = (void *)zeros, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLUInt, 32, 1}, .shape = &four};
    DLTensor out = {.data = &token, .device = {kDLCPU, 0}, .ndim = 0, .dtype = {kDLInt, 32, 1}};
    assert_ok(samebits_sample(api_context, &x, NULL, &noise, &out));
    /* Key 0, counter 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8. */
    assert_int_equal(token, 0xE169);
    free(flat);
}

/* A row alone, among others, padded with -Inf. */
static void test_rows_alone(void **state)
{
    (void)state;
    samebits_sampling_params p;
    op_case c = sample_case(&p, TEST_F32);
    p.top_p = 0.9f;
    p.temperature = 0.7f;
    op_expect_ok(&c);
    for (int r = 0; r < B * H; r++) {
        test_tensor *x = TENSOR(TEST_F32, N + 300), *token = test_new(TEST_I32, 0, NULL);
        DLTensor noise = c.argument[1].tensor->dl;
        noise.data = test_at(c.argument[1].tensor, r * 4);
        noise.ndim = 1;
        noise.shape += 2;
        noise.strides += 2;
        for (int i = 0; i < N + 300; i++)
            test_set(x, i, i < N ? test_get(c.argument[0].tensor, (int64_t)r * N + i) : -INFINITY);
        for (int i = 0; i < N; i++) memcpy(test_at(x, i), test_at(c.argument[0].tensor, (int64_t)r * N + i), 4);
        assert_ok(samebits_sample(api_context, &x->dl, &p, &noise, &token->dl));
        assert_memory_equal(token->memory, test_at(c.argument[2].tensor, r), 4);
    }
}

static void test_top_k(void **state)
{
    (void)state;
    const float row[] = {1, NAN, -0.0f, 3, 0.0f, 3, -INFINITY, NAN};
    static const int32_t want[] = {1, 7, 3, 5, 0, 2, 4, 6};
    for (int k = 1; k <= 8; k++) {
        test_tensor *x = TENSOR(TEST_F32, 8), *value = TENSOR(TEST_F32, k), *index = TENSOR(TEST_I32, k);
        for (int i = 0; i < 8; i++) memcpy(test_at(x, i), row + i, 4);
        assert_ok(samebits_top_k(api_context, &x->dl, &value->dl, &index->dl));
        assert_memory_equal(index->memory, want, (size_t)k * 4);
        for (int i = 0; i < k; i++)
            assert_true(isnan(row[want[i]]) ? isnan(test_get(value, i)) : test_get(value, i) == row[want[i]]);
    }
}

int api_sampling_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_errors),    API_TEST(test_parameters), API_TEST(test_special_rows), API_TEST(test_distribution),
        API_TEST(test_generator), API_TEST(test_rows_alone), API_TEST(test_top_k),
    };
    return API_RUN(tests);
}
