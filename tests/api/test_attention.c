/* attention: bad input, hidden keys, edge sizes, special values. */
#include <math.h>
#include <stdlib.h>

#include "api.h"

enum { Q, KEYS, VALUES, OUT, MASK, SLOPES, SINKS, INDEX, LENGTH, ARGUMENTS };
enum { B = 2, H = 4, LQ = 3, HKV = 2, LK = 6, D = 8, DV = 5, LIST = 4 };

static samebits_status call_plain(op_case *c)
{
    return samebits_attention(c->context, c->pointer[Q], c->pointer[KEYS], c->pointer[VALUES], c->user,
                              c->pointer[OUT]);
}

static samebits_status call_full(op_case *c)
{
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.scale = 0.3f;
    p.softcap = 20.0f;
    p.causal = 1;
    p.window = 4;
    p.mask = c->pointer[MASK];
    p.slopes = c->pointer[SLOPES];
    p.sinks = c->pointer[SINKS];
    p.key_index = c->pointer[INDEX];
    p.key_length = c->pointer[LENGTH];
    if (!p.mask) p.slopes = NULL;
    return samebits_attention(c->context, c->pointer[Q], c->pointer[KEYS], c->pointer[VALUES], &p, c->pointer[OUT]);
}

static op_case attention_case(test_dtype q, test_dtype kv, test_dtype out)
{
    test_rng rng = {81};
    op_case c = {.context = api_context, .call = call_plain};
    op_add(&c, "q", TENSOR(q, B, H, LQ, D), 4, 4, 0);
    op_add(&c, "k", TENSOR(kv, B, HKV, LK, D), 4, 4, 0);
    op_add(&c, "v", TENSOR(kv, B, HKV, LK, DV), 4, 4, 0);
    op_add(&c, "out", TENSOR(out, B, H, LQ, DV), 4, 4, OP_OUT);
    for (int i = 0; i < OUT; i++) test_random_small(c.argument[i].tensor, &rng);
    return c;
}

static samebits_status call_blocks(op_case *c)
{
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.k_format = p.v_format = *(const samebits_format *)c->user;
    return samebits_attention(c->context, c->pointer[Q], c->pointer[KEYS], c->pointer[VALUES], &p, c->pointer[OUT]);
}

/* Caches of two blocks and of one a row, of random bytes. */
static op_case blocks_case(samebits_format *format, int64_t keys)
{
    test_rng rng = {84};
    size_t bytes;
    assert_int_equal(samebits_format_row_size(*format, 32, &bytes), SAMEBITS_OK);
    op_case c = {.context = api_context, .call = call_blocks, .user = format};
    op_add(&c, "q", TENSOR(TEST_F32, B, H, LQ, 64), 4, 4, 0);
    op_add(&c, "k", TENSOR(TEST_U8, B, HKV, keys, 2 * (int64_t)bytes), 4, 4, OP_NO_GROW);
    op_add(&c, "v", TENSOR(TEST_U8, B, HKV, keys, (int64_t)bytes), 4, 4, OP_NO_GROW);
    op_add(&c, "out", TENSOR(TEST_F32, B, H, LQ, 32), 4, 4, OP_OUT);
    test_random_small(c.argument[Q].tensor, &rng);
    test_random_bytes(c.argument[KEYS].tensor, &rng);
    test_random_bytes(c.argument[VALUES].tensor, &rng);
    return c;
}

static void set_i32(test_tensor *t, const int32_t *values) { memcpy(t->memory, values, t->size); }

static op_case full_case(test_dtype q, test_dtype kv, test_dtype out)
{
    static const int32_t index[B * LIST] = {5, 0, 3, 1, 2, 4, 0, 5}, length[B] = {4, 3};
    test_rng rng = {82};
    op_case c = attention_case(q, kv, out);
    c.call = call_full;
    op_add(&c, "mask", TENSOR(kv, LQ, LK), 0, 4, OP_OPTIONAL);
    op_add(&c, "slopes", TENSOR(TEST_F32, H), 1, 1, OP_OPTIONAL);
    op_add(&c, "sinks", TENSOR(TEST_F32, H), 1, 1, OP_OPTIONAL);
    op_add(&c, "key_index", TENSOR(TEST_I32, B, LIST), 2, 2, OP_OPTIONAL | OP_NO_GROW);
    op_add(&c, "key_length", TENSOR(TEST_I32, B), 1, 1, OP_OPTIONAL);
    for (int i = MASK; i < INDEX; i++) test_random_small(c.argument[i].tensor, &rng);
    set_i32(c.argument[INDEX].tensor, index);
    set_i32(c.argument[LENGTH].tensor, length);
    return c;
}

static void test_errors(void **state)
{
    (void)state;
    static const test_dtype kinds[][3] = {{TEST_F32, TEST_F32, TEST_F32},
                                          {TEST_F32, TEST_F16, TEST_F32},
                                          {TEST_F16, TEST_F16, TEST_F16},
                                          {TEST_BF16, TEST_BF16, TEST_F32}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        op_case c = attention_case(kinds[i][0], kinds[i][1], kinds[i][2]);
        op_check_errors(&c);
        c = full_case(kinds[i][0], kinds[i][1], kinds[i][2]);
        op_check_errors(&c);
        op_check_memory(&c, 1);
        op_check_memory(&c, 3);
    }
}

static void test_parameters(void **state)
{
    (void)state;
    op_case c = attention_case(TEST_F32, TEST_F32, TEST_F32);
    samebits_attention_params p;
    c.user = &p;
    samebits_attention_params_default(NULL);
#define EXPECT_PARAM(change, status, name)                                                                             \
    do {                                                                                                               \
        samebits_attention_params_default(&p);                                                                         \
        change;                                                                                                        \
        op_expect(&c, status, name, #change);                                                                          \
    } while (0)
    EXPECT_PARAM(p.struct_size = 0, SAMEBITS_ERR_PARAM, "struct_size");
    EXPECT_PARAM(p.softcap = -1.0f, SAMEBITS_ERR_PARAM, "softcap");
    EXPECT_PARAM(p.softcap = NAN, SAMEBITS_ERR_PARAM, "softcap");
    EXPECT_PARAM(p.softcap = INFINITY, SAMEBITS_ERR_PARAM, "softcap");
    EXPECT_PARAM(p.window = -1, SAMEBITS_ERR_PARAM, "window");
    EXPECT_PARAM(p.window = 3, SAMEBITS_ERR_PARAM, "window"); /* without causal */
    test_tensor *slopes = TENSOR(TEST_F32, H), *keep = TENSOR(TEST_BOOL, LQ, LK);
    memset(keep->memory, 1, keep->size);
    EXPECT_PARAM(p.slopes = &slopes->dl, SAMEBITS_ERR_PARAM, "slopes"); /* without a mask */
    EXPECT_PARAM((p.slopes = &slopes->dl, p.mask = &keep->dl), SAMEBITS_ERR_PARAM, "slopes");
    samebits_attention_params_default(&p);
    op_expect_ok(&c);
}

/* Lists of keys: entries outside k and lengths outside the list. */
static void test_bad_lists(void **state)
{
    (void)state;
    op_case c = full_case(TEST_F32, TEST_F32, TEST_F32);
    test_tensor *index = c.argument[INDEX].tensor, *length = c.argument[LENGTH].tensor;
    static const int32_t entries[] = {-1, LK, INT32_MIN, INT32_MAX}, lengths[] = {-1, LIST + 1, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        const int32_t entry = *(int32_t *)test_at(index, 6), entries_used = *(int32_t *)test_at(length, 1);
        memcpy(test_at(index, 6), &entries[i], 4);
        op_expect(&c, SAMEBITS_ERR_PARAM, "key_index", "entry outside k");
        memcpy(test_at(index, 6), &entry, 4);
        memcpy(test_at(length, 1), &lengths[i], 4);
        op_expect(&c, SAMEBITS_ERR_PARAM, "key_length", "length outside the list");
        memcpy(test_at(length, 1), &entries_used, 4);
    }
    /* An entry behind the length does not count, and may be anything. */
    memcpy(test_at(index, 7), &entries[3], 4);
    op_expect_ok(&c);
}

static void expect_shape(op_case *c, int argument, test_tensor *t, const char *name)
{
    DLTensor *kept = c->pointer[argument];
    c->pointer[argument] = &t->dl;
    op_expect(c, SAMEBITS_ERR_SHAPE, name, "shape");
    c->pointer[argument] = kept;
}

static void test_shapes(void **state)
{
    (void)state;
    op_case c = attention_case(TEST_F32, TEST_F32, TEST_F32);
    expect_shape(&c, Q, TENSOR(TEST_F32, B, H, LQ, 0), "q");
    expect_shape(&c, KEYS, TENSOR(TEST_F32, B, 0, LK, D), "k");
    DLTensor *q = c.pointer[Q], *k = c.pointer[KEYS];
    c.pointer[Q] = &TENSOR(TEST_F32, B, H, LQ, 577)->dl;
    c.pointer[KEYS] = &TENSOR(TEST_F32, B, HKV, LK, 577)->dl;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "k", "577 columns");
    c.pointer[Q] = q;
    c.pointer[KEYS] = k;
    test_tensor *wide = TENSOR(TEST_F32, B, HKV, LK, 577), *out = TENSOR(TEST_F32, B, H, LQ, 577);
    DLTensor *v = c.pointer[VALUES], *o = c.pointer[OUT];
    c.pointer[VALUES] = &wide->dl;
    c.pointer[OUT] = &out->dl;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "v", "577 columns");
    c.pointer[VALUES] = v;
    c.pointer[OUT] = o;
    /* Blocks of Q8_0 are 34 bytes for 32 columns, bytes side by side. */
    test_tensor *blocks = TENSOR(TEST_U8, B, HKV, LK, 34);
    memset(blocks->memory, 0, blocks->size);
    c.pointer[KEYS] = &TENSOR(TEST_U8, B, HKV, LK, 33)->dl;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "k", "part of a block");
    c.pointer[KEYS] = &blocks->dl;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "q", "32 columns against 8");
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    c.user = &p;
    p.k_format = SAMEBITS_FORMAT_Q4_K;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "k", "blocks that no cache has");
    p.k_format = SAMEBITS_FORMAT_Q4_0;
    op_expect(&c, SAMEBITS_ERR_FORMAT, "k", "34 bytes are no blocks of 18");
}

static void test_empty(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{0, H, LQ, LK}, {B, 0, LQ, LK}, {B, H, 0, LK}, {0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t b = sizes[i][0], h = sizes[i][1], lq = sizes[i][2], lk = sizes[i][3];
        op_case c = {.context = api_context, .call = call_plain};
        op_add(&c, "q", TENSOR(TEST_F32, b, h, lq, D), 4, 4, 0);
        op_add(&c, "k", TENSOR(TEST_F32, b, h ? HKV : 0, lk, D), 4, 4, 0);
        op_add(&c, "v", TENSOR(TEST_F32, b, h ? HKV : 0, lk, DV), 4, 4, 0);
        op_add(&c, "out", TENSOR(TEST_F32, b, h, lq, DV), 4, 4, OP_OUT);
        op_expect_ok(&c);
    }
    /* Queries without any key: 0. */
    op_case c = {.context = api_context, .call = call_plain};
    op_add(&c, "q", TENSOR(TEST_F32, B, H, LQ, D), 4, 4, 0);
    op_add(&c, "k", TENSOR(TEST_F32, B, HKV, 0, D), 4, 4, 0);
    op_add(&c, "v", TENSOR(TEST_F32, B, HKV, 0, DV), 4, 4, 0);
    op_add(&c, "out", TENSOR(TEST_F32, B, H, LQ, DV), 4, 4, OP_OUT);
    op_expect_ok(&c);
    const float zero = 0.0f;
    for (int64_t i = 0; i < B * H * LQ * DV; i++) assert_memory_equal(test_at(c.argument[OUT].tensor, i), &zero, 4);
}

static void test_blocks(void **state)
{
    (void)state;
    for (samebits_format f = SAMEBITS_FORMAT_Q4_0; f <= SAMEBITS_FORMAT_IQ4_NL; f++) {
        op_case c = blocks_case(&f, LK);
        op_expect_ok(&c);
        op_check_errors(&c);
        op_check_memory(&c, 2);
        for (int i = KEYS; i <= VALUES; i++) {
            c.pointer[i]->strides[3] = 2;
            op_expect(&c, SAMEBITS_ERR_STRIDE, c.argument[i].name, "gaps between bytes");
            c.pointer[i]->strides[3] = 1;
        }
        /* A tensor without elements may have any strides; NumPy's have 0. */
        op_case none = blocks_case(&f, 0);
        for (int i = KEYS; i <= VALUES; i++) memset(none.pointer[i]->strides, 0, 4 * sizeof(int64_t));
        op_expect_ok(&none);
        const float zero = 0.0f;
        for (int64_t i = 0; i < B * H * LQ * 32; i++)
            assert_memory_equal(test_at(none.argument[OUT].tensor, i), &zero, 4);
        test_free_all(NULL);
    }
}

/* Hidden keys are never read: NaN in their K and V moves nothing, and a query that sees no key gives 0. */
static void test_hidden_keys(void **state)
{
    (void)state;
    op_case c = full_case(TEST_F32, TEST_F32, TEST_F32);
    test_tensor *out = c.argument[OUT].tensor, *mask = c.argument[MASK].tensor;
    for (int64_t q = 0; q < LQ; q++) test_set(mask, q * LK + 3, -INFINITY);
    c.pointer[SINKS] = NULL;
    op_expect_ok(&c);
    void *clean = test_gather(out);
    for (int64_t bh = 0; bh < B * HKV; bh++)
        for (int64_t key = 0; key < LK; key++) {
            const int listed = bh < HKV ? key == 5 || key == 0 || key == 1 : key == 2 || key == 4 || key == 0;
            for (int64_t i = 0; !listed && i < D; i++) test_set(c.argument[KEYS].tensor, (bh * LK + key) * D + i, NAN);
            for (int64_t i = 0; !listed && i < DV; i++)
                test_set(c.argument[VALUES].tensor, (bh * LK + key) * DV + i, NAN);
        }
    op_expect_ok(&c);
    assert_memory_equal(clean, out->memory, out->size);
    for (int64_t key = 0; key < LK; key++) test_set(mask, key, -INFINITY); /* all of query 0 */
    op_expect_ok(&c);
    const float zero = 0.0f;
    for (int64_t bh = 0; bh < B * H; bh++)
        for (int64_t i = 0; i < LQ * DV; i++) {
            void *have = test_at(out, bh * LQ * DV + i);
            if (i < DV)
                assert_memory_equal(have, &zero, 4);
            else
                assert_memory_equal(have, (char *)clean + (bh * LQ * DV + i) * 4, 4);
        }
    free(clean);
}

/* NaN in a query stays in its row; NaN in a key or value stays in its sequence and KV head. */
static void test_special_values(void **state)
{
    (void)state;
    op_case c = attention_case(TEST_F32, TEST_F32, TEST_F32);
    test_tensor *out = c.argument[OUT].tensor;
    const uint32_t canonical = 0x7FC00000u;
    op_expect_ok(&c);
    void *clean = test_gather(out);
    test_set(c.argument[Q].tensor, (1 * LQ + 2) * D, NAN);                    /* sequence 0, head 1, query 2 */
    test_set(c.argument[KEYS].tensor, ((1 * HKV + 1) * LK + 4) * D + 3, NAN); /* sequence 1, KV head 1: heads 2, 3 */
    op_expect_ok(&c);
    for (int64_t i = 0; i < B * H * LQ * DV; i++) {
        const int64_t row = i / DV, head = row / LQ;
        if (row == 1 * LQ + 2 || head == H + 2 || head == H + 3)
            assert_memory_equal(test_at(out, i), &canonical, 4);
        else
            assert_memory_equal(test_at(out, i), (char *)clean + i * 4, 4);
    }
    free(clean);
}

int api_attention_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_errors), API_TEST(test_parameters), API_TEST(test_bad_lists),   API_TEST(test_shapes),
        API_TEST(test_empty),  API_TEST(test_blocks),     API_TEST(test_hidden_keys), API_TEST(test_special_values),
    };
    return API_RUN(tests);
}
