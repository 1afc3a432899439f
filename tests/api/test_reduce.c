/* sum, mean, max, argmax, logsumexp, log_likelihood, l2_norm, group_norm, norms of sums: bad input, edge sizes, ties,
 * special values, and what must have the bits of other calls. */
#include <math.h>
#include <stdlib.h>

#include "api.h"

static samebits_status call_sum(op_case *c) { return samebits_sum(c->context, c->pointer[0], c->pointer[1]); }
static samebits_status call_mean(op_case *c) { return samebits_mean(c->context, c->pointer[0], c->pointer[1]); }
static samebits_status call_max(op_case *c) { return samebits_max(c->context, c->pointer[0], c->pointer[1]); }
static samebits_status call_argmax(op_case *c) { return samebits_argmax(c->context, c->pointer[0], c->pointer[1]); }
static samebits_status call_logsumexp(op_case *c)
{
    return samebits_logsumexp(c->context, c->pointer[0], c->pointer[1]);
}
static samebits_status call_likelihood(op_case *c)
{
    return samebits_log_likelihood(c->context, c->pointer[0], c->pointer[2], c->pointer[1]);
}
static samebits_status call_l2(op_case *c) { return samebits_l2_norm(c->context, c->pointer[0], 1e-5f, c->pointer[1]); }
static samebits_status call_group(op_case *c)
{
    return samebits_group_norm(c->context, c->pointer[0], 2, c->pointer[2], c->pointer[3], 1e-5f, c->pointer[1]);
}
static samebits_status call_add_norm(op_case *c)
{
    return samebits_add_layer_norm(c->context, c->pointer[0], c->pointer[1], c->pointer[4], c->pointer[5], 1e-5f,
                                   c->pointer[2], c->pointer[3]);
}

enum { B = 2, H = 3, N = 37 };

static op_case reduced(samebits_status (*call)(op_case *), test_dtype in, test_dtype out)
{
    test_rng rng = {31};
    op_case c = {.context = api_context, .call = call};
    op_add(&c, "x", TENSOR(in, B, H, N), 1, 8, OP_NO_GROW);
    op_add(&c, "out", TENSOR(out, B, H), 0, 8, OP_OUT);
    test_random_small(c.argument[0].tensor, &rng);
    return c;
}

static const test_dtype kinds[][2] = {
    {TEST_F32, TEST_F32}, {TEST_F16, TEST_F16}, {TEST_F16, TEST_F32}, {TEST_BF16, TEST_BF16}, {TEST_BF16, TEST_F32}};

static void test_reduced_errors(void **state)
{
    (void)state;
    samebits_status (*const calls[])(op_case *) = {call_sum, call_mean, call_max, call_logsumexp, call_likelihood};
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            op_case c = reduced(calls[k], kinds[i][0], kinds[i][1]);
            if (calls[k] == call_likelihood) {
                test_tensor *token = TENSOR(TEST_I32, B, H);
                memset(token->memory, 0, token->size);
                op_add(&c, "token", token, 0, 8, 0);
            }
            op_check_errors(&c);
            op_check_memory(&c, 2);
            test_free_all(NULL);
        }
    op_case c = reduced(call_argmax, TEST_BF16, TEST_I32);
    op_check_errors(&c);
    op_check_memory(&c, 2);
    DLTensor *x = c.pointer[0];
    x->shape[2] = 0;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "x", "nothing to choose from");
    x->shape[2] = N;
    c.pointer[1] = &TENSOR(TEST_F32, B, H)->dl;
    op_expect(&c, SAMEBITS_ERR_DTYPE, "out", "an index as a float");
}

static void test_norm_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const test_dtype in = kinds[i][0], out = kinds[i][1];
        op_case c = {.context = api_context, .call = call_l2};
        op_add(&c, "x", TENSOR(in, B, H, N), 1, 8, OP_IN_PLACE);
        op_add(&c, "out", TENSOR(out, B, H, N), 1, 8, OP_OUT);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        c = (op_case){.context = api_context, .call = call_group};
        op_add(&c, "x", TENSOR(in, B, 4, 5, 3), 2, 7, OP_IN_PLACE);
        op_add(&c, "out", TENSOR(out, B, 4, 5, 3), 1, 8, OP_OUT);
        op_add(&c, "weight", TENSOR(in, 4), 1, 1, OP_OPTIONAL);
        op_add(&c, "bias", TENSOR(TEST_F32, 4), 1, 1, OP_OPTIONAL);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        c = (op_case){.context = api_context, .call = call_add_norm};
        op_add(&c, "x", TENSOR(in, B, H, N), 1, 8, 0);
        op_add(&c, "residual", TENSOR(in, B, H, N), 1, 8, 0);
        op_add(&c, "sum", TENSOR(out, B, H, N), 1, 8, OP_OUT);
        op_add(&c, "out", TENSOR(out, B, H, N), 1, 8, OP_OUT);
        op_add(&c, "weight", TENSOR(in, N), 1, 1, OP_OPTIONAL);
        op_add(&c, "bias", TENSOR(TEST_F32, N), 1, 1, OP_OPTIONAL);
        op_check_memory(&c, 2);
        test_free_all(NULL);
    }
}

static void test_add_norm_errors(void **state)
{
    (void)state;
    op_case c = {.context = api_context, .call = call_add_norm};
    op_add(&c, "x", TENSOR(TEST_F16, B, H, N), 1, 8, 0);
    op_add(&c, "residual", TENSOR(TEST_BF16, B, H, N), 1, 8, 0);
    op_add(&c, "sum", TENSOR(TEST_BF16, B, H, N), 1, 8, OP_OUT);
    op_add(&c, "out", TENSOR(TEST_F32, B, H, N), 1, 8, OP_OUT);
    op_add(&c, "weight", TENSOR(TEST_F32, N), 1, 1, OP_OPTIONAL);
    op_add(&c, "bias", TENSOR(TEST_F16, N), 1, 1, OP_OPTIONAL);
    op_expect_ok(&c);
    for (int i = 0; i < c.count; i++) {
        DLTensor *t = c.pointer[i];
        t->shape[0]++;
        op_expect(&c, SAMEBITS_ERR_SHAPE, NULL, "one larger");
        t->shape[0]--;
        const DLDataType kept = t->dtype;
        t->dtype = (DLDataType){kDLFloat, 64, 1};
        op_expect(&c, SAMEBITS_ERR_DTYPE, c.argument[i].name, "f64");
        t->dtype = kept;
        void *data = t->data;
        if (i > 2 || !i) {
            t->data = c.pointer[2]->data;
            op_expect(&c, SAMEBITS_ERR_OVERLAP, NULL, "over the sum, in part");
        }
        if (i != 3 && i != 2) {
            t->data = c.pointer[3]->data;
            op_expect(&c, SAMEBITS_ERR_OVERLAP, c.argument[i].name, "over the output");
        }
        t->data = data;
    }
    c.argument[2].tensor->dl.dtype = c.argument[0].tensor->dl.dtype;
    c.argument[3].tensor->dl.dtype = c.argument[1].tensor->dl.dtype;
    op_expect(&c, SAMEBITS_ERR_DTYPE, "out", "neither f32 nor sum's");
    c.context = NULL;
    op_expect(&c, SAMEBITS_ERR_NULL, "context", "NULL");
}

static void test_parameters(void **state)
{
    (void)state;
    test_tensor *x = TENSOR(TEST_F32, 2, 6, 5), *out = TENSOR(TEST_F32, 2, 6, 5), *flat = TENSOR(TEST_F32, 6);
    test_save(out);
    static const int64_t bad[] = {0, -1, 4, 7, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(samebits_group_norm(api_context, &x->dl, bad[i], NULL, NULL, 0.0f, &out->dl), SAMEBITS_ERR_PARAM,
                     "groups");
    assert_fails(samebits_group_norm(api_context, &x->dl, 2, NULL, NULL, -1.0f, &out->dl), SAMEBITS_ERR_PARAM, "eps");
    assert_fails(samebits_group_norm(api_context, &flat->dl, 2, NULL, NULL, 0.0f, &TENSOR(TEST_F32, 6)->dl),
                 SAMEBITS_ERR_RANK, "x");
    assert_fails(samebits_l2_norm(api_context, &x->dl, NAN, &out->dl), SAMEBITS_ERR_PARAM, "eps");
    test_tensor *likely = TENSOR(TEST_F32, 2, 6), *token = TENSOR(TEST_I32, 2, 6);
    test_save(likely);
    for (int i = 0; i < 2; i++) {
        memset(token->memory, 0, token->size);
        ((int32_t *)token->memory)[7] = i ? 5 : -1;
        assert_fails(samebits_log_likelihood(api_context, &x->dl, &token->dl, &likely->dl), SAMEBITS_ERR_PARAM,
                     "token");
        assert_fails(samebits_cross_entropy(api_context, &x->dl, &token->dl, &likely->dl), SAMEBITS_ERR_PARAM, "token");
    }
    assert_true(test_unchanged(out) && test_unchanged(likely));
}

static float value_of(samebits_status (*op)(samebits_context *, const DLTensor *, DLTensor *), const float *row,
                      int64_t n)
{
    test_tensor *x = TENSOR(TEST_F32, n), *out = test_new(TEST_F32, 0, NULL);
    for (int64_t i = 0; i < n; i++) memcpy(test_at(x, i), row + i, 4);
    assert_ok(op(api_context, &x->dl, &out->dl));
    return test_get(out, 0);
}

static int32_t index_of(const float *row, int64_t n)
{
    test_tensor *x = TENSOR(TEST_F32, n), *out = TENSOR(TEST_I32, 1);
    for (int64_t i = 0; i < n; i++) memcpy(test_at(x, i), row + i, 4);
    assert_ok(samebits_argmax(api_context, &x->dl, &out->dl));
    int32_t index;
    memcpy(&index, out->memory, sizeof index);
    return index;
}

/* Ties, NaN, Inf, zeros of both signs, rows of nothing: at several places of a vector. */
static void test_special_values(void **state)
{
    (void)state;
    const float inf = INFINITY;
    for (int64_t at = 0; at < 40; at++) {
        float row[40];
        for (int i = 0; i < 40; i++) row[i] = -1.0f;
        row[at] = row[39] = 2.0f;
        assert_int_equal(index_of(row, 40), at);
        assert_true(value_of(samebits_max, row, 40) == 2.0f);
        row[at] = -0.0f;
        row[39] = 0.0f;
        assert_int_equal(index_of(row, 40), at);
        assert_true(!signbit(value_of(samebits_max, row, 40)));
        row[39] = inf;
        assert_true(value_of(samebits_sum, row, 40) == inf);
        assert_true(value_of(samebits_logsumexp, row, 40) == inf);
        assert_int_equal(index_of(row, 40), 39);
        row[at] = NAN;
        assert_int_equal(index_of(row, 40), at);
        assert_true(isnan(value_of(samebits_max, row, 40)));
        assert_true(isnan(value_of(samebits_logsumexp, row, 40)));
        assert_true(isnan(value_of(samebits_mean, row, 40)));
        for (int i = 0; i < 40; i++) row[i] = -inf;
        assert_int_equal(index_of(row, 40), 0);
        assert_true(value_of(samebits_max, row, 40) == -inf);
        assert_true(value_of(samebits_logsumexp, row, 40) == -inf);
    }
    assert_true(value_of(samebits_sum, NULL, 0) == 0.0f && !signbit(value_of(samebits_sum, NULL, 0)));
    assert_true(isnan(value_of(samebits_mean, NULL, 0)));
    assert_true(value_of(samebits_max, NULL, 0) == -inf);
    assert_true(value_of(samebits_logsumexp, NULL, 0) == -inf);
}

/* log_likelihood is log_softmax at the token, cross_entropy its negative; also with the last dim kept, strided. */
static void test_likelihood(void **state)
{
    (void)state;
    test_rng rng = {33};
    test_tensor *x = TENSOR(TEST_F16, 6, 5, N), *all = TENSOR(TEST_F16, 6, 5, N), *token = TENSOR(TEST_I32, 6, 5, 1);
    test_tensor *have = test_strided(TEST_F16, 2, (int64_t[]){6, 5}, (int64_t[]){2, 13}, 1);
    test_tensor *minus = TENSOR(TEST_F16, 6, 5, 1);
    test_random_small(x, &rng);
    test_set(x, 3 * N + 4, NAN);
    test_set(x, 8 * N, INFINITY);
    for (int i = 0; i < N; i++) test_set(x, 11 * N + i, -INFINITY);
    for (int i = 0; i < 30; i++) ((int32_t *)token->memory)[i] = (int32_t)test_below(&rng, N);
    assert_ok(samebits_log_softmax(api_context, &x->dl, &all->dl));
    assert_ok(samebits_log_likelihood(api_context, &x->dl, &token->dl, &have->dl));
    assert_ok(samebits_cross_entropy(api_context, &x->dl, &token->dl, &minus->dl));
    for (int i = 0; i < 30; i++) {
        const int64_t at = (int64_t)i * N + ((int32_t *)token->memory)[i];
        assert_memory_equal(test_at(have, i), test_at(all, at), 2);
        if (isnan(test_get(have, i)))
            assert_memory_equal(test_at(minus, i), test_at(all, at), 2);
        else
            assert_true(test_get(minus, i) == -test_get(have, i));
    }
}

/* add_rms_norm and add_layer_norm have the bits of add and then the norm, in place and strided too. */
static void check_add_norm(test_dtype x_type, test_dtype residual_type, test_dtype sum_type, test_dtype out_type,
                           int in_place, int centred)
{
    test_rng rng = {35};
    const int64_t shape[] = {7, 5, N}, strides[] = {1, 8, 41};
    test_tensor *x = test_strided(x_type, 3, shape, strides, 3), *residual = TENSOR(residual_type, 7, 5, N);
    test_tensor *weight = TENSOR(TEST_BF16, N), *bias = TENSOR(TEST_F32, N);
    test_tensor *want_sum = TENSOR(sum_type, 7, 5, N), *want = TENSOR(out_type, 7, 5, N);
    test_tensor *sum = in_place ? residual : test_strided(sum_type, 3, shape, strides, 0);
    test_tensor *out = test_strided(out_type, 3, shape, (int64_t[]){200, 40, 1}, 1);
    test_random_small(x, &rng);
    test_random_small(residual, &rng);
    test_random_small(weight, &rng);
    test_random_small(bias, &rng);
    assert_ok(samebits_add(api_context, &x->dl, &residual->dl, &want_sum->dl));
    if (centred) {
        assert_ok(samebits_layer_norm(api_context, &want_sum->dl, &weight->dl, &bias->dl, 1e-6f, &want->dl));
        assert_ok(samebits_add_layer_norm(api_context, &x->dl, &residual->dl, &weight->dl, &bias->dl, 1e-6f, &sum->dl,
                                          &out->dl));
    } else {
        assert_ok(samebits_rms_norm(api_context, &want_sum->dl, &weight->dl, 1e-6f, &want->dl));
        assert_ok(samebits_add_rms_norm(api_context, &x->dl, &residual->dl, &weight->dl, 1e-6f, &sum->dl, &out->dl));
    }
    void *have_sum = test_gather(sum), *have = test_gather(out);
    assert_memory_equal(have_sum, want_sum->memory, want_sum->size);
    assert_memory_equal(have, want->memory, want->size);
    free(have_sum);
    free(have);
    test_free_all(NULL);
}

static void test_add_norm(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++)
        for (int centred = 0; centred < 2; centred++) {
            check_add_norm(TEST_F32, TEST_F32, TEST_F32, TEST_F32, in_place, centred);
            check_add_norm(TEST_BF16, TEST_BF16, TEST_BF16, TEST_BF16, in_place, centred);
            check_add_norm(TEST_F16, TEST_F32, TEST_F32, TEST_F32, in_place, centred);
            check_add_norm(TEST_F16, TEST_F16, TEST_F16, TEST_F32, in_place, centred);
        }
}

/* group_norm is layer_norm of each group, then weight and bias of each channel. */
static void test_group_norm(void **state)
{
    (void)state;
    test_rng rng = {37};
    enum { C = 6, S = 35 };
    for (int64_t groups = 1; groups <= C; groups += groups == 1 ? 1 : groups == 3 ? 3 : 1) {
        test_tensor *x = TENSOR(TEST_F32, 2, C, S), *have = TENSOR(TEST_F32, 2, C, S), *y = TENSOR(TEST_F32, 2, C, S);
        test_tensor *weight = TENSOR(TEST_F32, C), *bias = TENSOR(TEST_F32, C);
        test_random_small(x, &rng);
        test_random_small(weight, &rng);
        test_random_small(bias, &rng);
        test_tensor *apart = test_strided(TEST_F32, 3, (int64_t[]){2, C, S}, (int64_t[]){1, 2, 13}, 0);
        test_tensor *to = test_strided(TEST_F32, 3, (int64_t[]){2, C, S}, (int64_t[]){1, 71, 2}, 0);
        test_scatter(apart, x->memory);
        DLTensor rows = x->dl, normed = y->dl;
        int64_t shape[2] = {2 * groups, C / groups * S};
        rows.ndim = normed.ndim = 2;
        rows.shape = normed.shape = shape;
        rows.strides = normed.strides = NULL;
        assert_ok(samebits_layer_norm(api_context, &rows, NULL, NULL, 1e-5f, &normed));
        assert_ok(samebits_group_norm(api_context, &x->dl, groups, &weight->dl, &bias->dl, 1e-5f, &have->dl));
        for (int64_t i = 0; i < 2 * C * S; i++) {
            const int64_t channel = i / S % C;
            const float want = test_get(y, i) * test_get(weight, channel) + test_get(bias, channel);
            assert_memory_equal(test_at(have, i), &want, 4);
        }
        assert_ok(samebits_group_norm(api_context, &apart->dl, groups, &weight->dl, &bias->dl, 1e-5f, &to->dl));
        void *strided = test_gather(to);
        assert_memory_equal(strided, have->memory, have->size);
        free(strided);
        test_free_all(NULL);
    }
}

static void test_empty(void **state)
{
    (void)state;
    test_tensor *x = TENSOR(TEST_F32, 0, 5), *out = TENSOR(TEST_F32, 0, 5), *one = TENSOR(TEST_F32, 0);
    assert_ok(samebits_sum(api_context, &x->dl, &one->dl));
    assert_ok(samebits_logsumexp(api_context, &x->dl, &one->dl));
    assert_ok(samebits_l2_norm(api_context, &x->dl, 0.0f, &out->dl));
    assert_ok(samebits_group_norm(api_context, &x->dl, 5, NULL, NULL, 0.0f, &out->dl));
    assert_ok(samebits_add_rms_norm(api_context, &x->dl, &x->dl, NULL, 0.0f, &TENSOR(TEST_F32, 0, 5)->dl, &out->dl));
    test_tensor *zeros = TENSOR(TEST_F32, 1, 4), *to = TENSOR(TEST_F32, 1, 4);
    memset(zeros->memory, 0, zeros->size);
    assert_ok(samebits_l2_norm(api_context, &zeros->dl, 1e-12f, &to->dl));
    for (int i = 0; i < 4; i++) assert_true(test_get(to, i) == 0.0f);
}

int api_reduce_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_reduced_errors), API_TEST(test_norm_errors), API_TEST(test_add_norm_errors),
        API_TEST(test_parameters),     API_TEST(test_likelihood),  API_TEST(test_special_values),
        API_TEST(test_add_norm),       API_TEST(test_group_norm),  API_TEST(test_empty),
    };
    return API_RUN(tests);
}
