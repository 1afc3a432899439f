/* rope: bad input, positions, layouts, sections, YaRN. */
#include <math.h>
#include <stdlib.h>

#include "api.h"

static samebits_status call_rope(op_case *c)
{
    samebits_rope_params *p = c->user;
    p->factor = c->pointer[3];
    return samebits_rope(c->context, c->pointer[0], c->pointer[2], p, c->pointer[1]);
}

static op_case rope_case(test_dtype in, test_dtype out, samebits_rope_params *p, int sets)
{
    test_rng rng = {91};
    samebits_rope_params_default(p);
    op_case c = {.context = api_context, .call = call_rope, .user = p};
    op_add(&c, "x", TENSOR(in, 2, 3, 5, 38), 2, 8, OP_IN_PLACE);
    op_add(&c, "out", TENSOR(out, 2, 3, 5, 38), 1, 8, OP_OUT);
    op_add(&c, "position", sets ? TENSOR(TEST_I32, sets, 5) : TENSOR(TEST_I32, 5), 1, 2, 0);
    op_add(&c, "factor", TENSOR(TEST_F32, 19), 1, 1, OP_OPTIONAL);
    test_random_small(c.argument[0].tensor, &rng);
    for (int64_t i = 0; i < test_count(c.argument[2].tensor); i++) {
        const int32_t position = (int32_t)test_below(&rng, 100000) - 20;
        memcpy(test_at(c.argument[2].tensor, i), &position, 4);
    }
    for (int64_t i = 0; i < 19; i++) test_set(c.argument[3].tensor, i, 1.0f + (float)i / 16);
    return c;
}

static void test_errors(void **state)
{
    (void)state;
    static const test_dtype kinds[][2] = {{TEST_F32, TEST_F32},
                                          {TEST_F16, TEST_F16},
                                          {TEST_F16, TEST_F32},
                                          {TEST_BF16, TEST_BF16},
                                          {TEST_BF16, TEST_F32}};
    samebits_rope_params p;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int sets = 0; sets <= 4; sets += 2) {
            op_case c = rope_case(kinds[i][0], kinds[i][1], &p, sets);
            if (sets == 4) {
                p.sections = SAMEBITS_ROPE_SECTIONS_BLOCKS;
                p.section[0] = p.section[1] = 5;
            }
            if (i % 2) p.layout = SAMEBITS_ROPE_INTERLEAVED;
            op_check_errors(&c);
            op_check_memory(&c, 2);
        }
}

#define SPOIL(field, value, word)                                                                                      \
    do {                                                                                                               \
        const samebits_rope_params good = p;                                                                           \
        p.field = value;                                                                                               \
        op_expect(&c, SAMEBITS_ERR_PARAM, word, "a parameter");                                                        \
        p = good;                                                                                                      \
    } while (0)

static void test_parameters(void **state)
{
    (void)state;
    samebits_rope_params p;
    samebits_rope_params_default(NULL);
    op_case c = rope_case(TEST_F32, TEST_F32, &p, 0);
    SPOIL(struct_size, 3, "struct_size");
    SPOIL(layout, SAMEBITS_ROPE_LAYOUT_COUNT, "layout");
    SPOIL(dims, 37, "dims");
    SPOIL(dims, 40, "dims");
    SPOIL(dims, -2, "dims");
    SPOIL(first, -1, "first");
    SPOIL(first, INT64_MIN, "first");
    SPOIL(first, 39, "first");
    SPOIL(first, INT64_MAX, "first");
    SPOIL(base, 0.0f, "base");
    SPOIL(base, -1.0f, "base");
    SPOIL(base, NAN, "base");
    SPOIL(base, INFINITY, "base");
    SPOIL(scale, NAN, "scale");
    SPOIL(magnitude, INFINITY, "magnitude");
    SPOIL(extrapolation, NAN, "extrapolation");
    SPOIL(extrapolation, 1.0f, "original_context");
    p.original_context = 4096;
    p.extrapolation = 1.0f;
    op_expect_ok(&c);
    SPOIL(beta_fast, 0.0f, "beta_fast");
    SPOIL(beta_slow, -1.0f, "beta_slow");
    SPOIL(scale, 0.0f, "scale");
    SPOIL(base, 1.0f, "base");
    p.extrapolation = 0.0f;
    SPOIL(sections, SAMEBITS_ROPE_SECTIONS_COUNT, "sections");
    p.sections = SAMEBITS_ROPE_SECTIONS_CYCLIC;
    SPOIL(section[0], 0, "section");
    SPOIL(section[2], -1, "section");
    p.section[1] = 1;
    op_expect(&c, SAMEBITS_ERR_SHAPE, "position", "one position a row with sections");
}

/* The angles of float64 arithmetic, to what f32 can hold. */
static void test_values(void **state)
{
    (void)state;
    for (int layout = 0; layout < SAMEBITS_ROPE_LAYOUT_COUNT; layout++) {
        samebits_rope_params p;
        op_case c = rope_case(TEST_F32, TEST_F32, &p, 2);
        p.layout = (samebits_rope_layout)layout;
        p.dims = 16;
        p.first = 4;
        p.scale = 0.25f;
        c.pointer[3] = NULL;
        op_expect_ok(&c);
        for (int64_t row = 0; row < 30; row++)
            for (int64_t i = 0; i < 8; i++) {
                int32_t position;
                memcpy(&position, test_at(c.argument[2].tensor, row / 15 * 5 + row % 5), 4);
                const int64_t a = row * 38 + 4 + (layout ? 2 * i : i), b = a + (layout ? 1 : 8);
                const double angle = 0.25 * position * pow(10000.0, -(double)(2 * i) / 16);
                const double x = (double)test_get(c.argument[0].tensor, a);
                const double y = (double)test_get(c.argument[0].tensor, b);
                const double size = (fabs(x) + fabs(y)) * 0x1p-22;
                const float have_x = test_get(c.argument[1].tensor, a), have_y = test_get(c.argument[1].tensor, b);
                assert_true(fabs(x * cos(angle) - y * sin(angle) - (double)have_x) <= size);
                assert_true(fabs(y * cos(angle) + x * sin(angle) - (double)have_y) <= size);
            }
        for (int64_t row = 0; row < 30; row++)
            for (int64_t i = 0; i < 38; i++)
                if (i < 4 || i >= 20)
                    assert_memory_equal(test_at(c.argument[0].tensor, row * 38 + i),
                                        test_at(c.argument[1].tensor, row * 38 + i), 4);
    }
}

/* The result of one row with its position, alone. */
static void test_position_alone(void **state)
{
    (void)state;
    samebits_rope_params p;
    op_case c = rope_case(TEST_F16, TEST_F32, &p, 2);
    op_expect_ok(&c);
    for (int64_t row = 0; row < 30; row++) {
        test_tensor *x = TENSOR(TEST_F16, 1, 38), *out = TENSOR(TEST_F32, 1, 38), *at = TENSOR(TEST_I32, 1);
        memcpy(x->memory, test_at(c.argument[0].tensor, row * 38), 76);
        memcpy(at->memory, test_at(c.argument[2].tensor, row / 15 * 5 + row % 5), 4);
        assert_ok(samebits_rope(api_context, &x->dl, &at->dl, &p, &out->dl));
        assert_memory_equal(out->memory, test_at(c.argument[1].tensor, row * 38), 38 * 4);
    }
}

/* Four equal components are one; the inverse turns back; in place. */
static void test_relations(void **state)
{
    (void)state;
    samebits_rope_params p, one;
    op_case c = rope_case(TEST_F32, TEST_F32, &p, 4), plain = rope_case(TEST_F32, TEST_F32, &one, 0);
    for (int64_t i = 0; i < 20; i++)
        memcpy(test_at(c.argument[2].tensor, i), test_at(plain.argument[2].tensor, i % 5), 4);
    op_expect_ok(&plain);
    for (int kind = SAMEBITS_ROPE_SECTIONS_BLOCKS; kind < SAMEBITS_ROPE_SECTIONS_COUNT; kind++) {
        p.sections = (samebits_rope_sections)kind;
        for (int i = 0; i < 4; i++) p.section[i] = 3 + i;
        op_expect_ok(&c);
        assert_memory_equal(c.argument[1].tensor->memory, plain.argument[1].tensor->memory, c.argument[1].tensor->size);
    }
    one.inverse = 1;
    test_tensor *out = plain.argument[1].tensor;
    assert_ok(samebits_rope(api_context, &out->dl, plain.pointer[2], &one, &out->dl));
    for (int64_t i = 0; i < test_count(out); i++) {
        const double x = (double)test_get(plain.argument[0].tensor, i);
        assert_true(fabs(x - (double)test_get(out, i)) < 1e-5);
    }
}

static void test_empty(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{0, 6}, {5, 0}, {0, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        test_tensor *x = TENSOR(TEST_F32, sizes[i][0], sizes[i][1]), *at = TENSOR(TEST_I32, sizes[i][0]);
        assert_ok(samebits_rope(api_context, &x->dl, &at->dl, NULL, &x->dl));
    }
}

int api_rope_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_errors),         API_TEST(test_parameters), API_TEST(test_values),
        API_TEST(test_position_alone), API_TEST(test_relations),  API_TEST(test_empty),
    };
    return API_RUN(tests);
}
