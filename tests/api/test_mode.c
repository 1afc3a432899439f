/* The limit, the modes of a thread, stock products, and their counts. */
#include <pthread.h>
#include <stdlib.h>

#include "api.h"

enum { DEPTH = 40, WIDTH = 19, MOST = 33 };

/* A stock product that nobody could mistake for ours; f32, f64 inputs and f32 outputs, all of them 2-D. */
typedef struct {
    int calls, taken;
    int refuse;
} stock;

static double element(const DLTensor *t, int64_t i, int64_t j)
{
    const int64_t step = t->strides ? t->strides[0] : t->shape[1], next = t->strides ? t->strides[1] : 1;
    const char *data = (const char *)t->data + t->byte_offset;
    const int64_t at = i * step + j * next;
    return t->dtype.bits == 64 ? ((const double *)data)[at] : (double)((const float *)data)[at];
}

static samebits_status product(void *user, const DLTensor *a, const DLTensor *b, DLTensor *out)
{
    stock *s = user;
    s->calls++;
    if (s->refuse || a->ndim != 2 || b->ndim != 2) return SAMEBITS_ERR_UNSUPPORTED;
    s->taken++;
    for (int64_t i = 0; i < out->shape[0]; i++)
        for (int64_t j = 0; j < out->shape[1]; j++) {
            double sum = 0.0;
            for (int64_t k = a->shape[1] - 1; k >= 0; k--) sum += element(a, i, k) * element(b, k, j);
            const int64_t step = out->strides ? out->strides[0] : out->shape[1],
                          next = out->strides ? out->strides[1] : 1;
            ((float *)((char *)out->data + out->byte_offset))[i * step + j * next] = (float)sum;
        }
    return SAMEBITS_OK;
}

static samebits_context *with_stock(stock *s)
{
    samebits_options o;
    samebits_context *context;
    samebits_options_default(&o);
    o.threads = 2;
    o.stock = product;
    o.stock_user = s;
    assert_ok(samebits_create(&context, &o));
    return context;
}

static void begin(int64_t limit, int strict)
{
    samebits_mode_params p;
    samebits_mode_params_default(&p);
    p.limit = limit;
    p.strict = strict;
    assert_ok(samebits_mode_begin(&p));
}

static samebits_mode_report counts(void)
{
    samebits_mode_report r;
    assert_ok(samebits_mode_counts(&r));
    return r;
}

static void assert_counts(int64_t above_limit, int64_t without_row, int64_t refused)
{
    const samebits_mode_report r = counts();
    assert_int_equal(r.above_limit, above_limit);
    assert_int_equal(r.without_row, without_row);
    assert_int_equal(r.refused, refused);
}

static test_tensor *random_matrix(int64_t rows, int64_t columns, uint64_t seed)
{
    test_rng rng = {seed};
    test_tensor *t = TENSOR(TEST_F32, rows, columns);
    test_random(t, &rng);
    return t;
}

static void test_limit(void **state)
{
    (void)state;
    assert_int_equal(samebits_limit(), 0);
    assert_ok(samebits_limit_set(8));
    assert_fails(samebits_limit_set(-1), SAMEBITS_ERR_PARAM, "limit");
    assert_fails(samebits_limit_set(INT64_MIN), SAMEBITS_ERR_PARAM, "limit");
    assert_int_equal(samebits_limit(), 8);
    assert_ok(samebits_limit_set(SAMEBITS_UNLIMITED));
    assert_ok(samebits_limit_set(0));
}

static void test_nesting(void **state)
{
    (void)state;
    samebits_mode_params p;
    samebits_mode_params_default(NULL);
    samebits_mode_params_default(&p);
    assert_int_equal(p.limit, 0);
    assert_int_equal(p.strict, 0);
    assert_fails(samebits_mode_end(), SAMEBITS_ERR_PARAM, "mode");
    p.struct_size++;
    assert_fails(samebits_mode_begin(&p), SAMEBITS_ERR_PARAM, "struct_size");
    p.struct_size--;
    p.limit = -3;
    assert_fails(samebits_mode_begin(&p), SAMEBITS_ERR_PARAM, "limit");
    assert_int_equal(samebits_mode_depth(), 0);
    for (int i = 1; i <= SAMEBITS_MODE_DEPTH; i++) {
        assert_ok(samebits_mode_begin(NULL));
        assert_int_equal(samebits_mode_depth(), i);
    }
    assert_fails(samebits_mode_begin(NULL), SAMEBITS_ERR_PARAM, "samebits_mode_end");
    for (int i = 0; i < SAMEBITS_MODE_DEPTH; i++) assert_ok(samebits_mode_end());
    assert_fails(samebits_mode_end(), SAMEBITS_ERR_PARAM, "mode");
}

static samebits_route route(int64_t rows, int has_row)
{
    samebits_route r = (samebits_route)77;
    assert_ok(samebits_mode_route("conv", rows, has_row, &r));
    return r;
}

static void test_route(void **state)
{
    (void)state;
    samebits_route r = (samebits_route)77;
    samebits_mode_counts_reset();
    assert_fails(samebits_mode_route(NULL, 1, 1, &r), SAMEBITS_ERR_NULL, "op");
    assert_fails(samebits_mode_route("conv", 1, 1, NULL), SAMEBITS_ERR_NULL, "route");
    assert_fails(samebits_mode_route("conv", -1, 1, &r), SAMEBITS_ERR_PARAM, "rows");
    assert_fails(samebits_mode_counts(NULL), SAMEBITS_ERR_NULL, "report");
    /* Off: stock, and nothing to report. */
    assert_int_equal(route(1, 1), SAMEBITS_ROUTE_STOCK);
    assert_counts(0, 0, 0);
    assert_ok(samebits_limit_set(4));
    assert_int_equal(route(4, 1), SAMEBITS_ROUTE_ORDER);
    assert_int_equal(route(5, 1), SAMEBITS_ROUTE_STOCK);
    assert_int_equal(route(4, 0), SAMEBITS_ROUTE_STOCK);
    assert_counts(1, 1, 0);
    begin(0, 1); /* the process's limit, strict */
    assert_int_equal(route(5, 0), SAMEBITS_ROUTE_STOCK);
    assert_fails(samebits_mode_route("conv", 4, 0, &r), SAMEBITS_ERR_UNSUPPORTED, "conv");
    assert_int_equal(r, 77);
    begin(9, 0); /* the inner mode decides alone */
    assert_int_equal(route(9, 1), SAMEBITS_ROUTE_ORDER);
    assert_int_equal(route(9, 0), SAMEBITS_ROUTE_STOCK);
    begin(0, 1);
    assert_fails(samebits_mode_route("conv", 4, 0, &r), SAMEBITS_ERR_UNSUPPORTED, "conv");
    assert_ok(samebits_mode_end());
    assert_ok(samebits_mode_end());
    assert_fails(samebits_mode_route("conv", 4, 0, &r), SAMEBITS_ERR_UNSUPPORTED, "conv");
    assert_ok(samebits_mode_end());
    assert_int_equal(route(4, 0), SAMEBITS_ROUTE_STOCK);
    assert_ok(samebits_limit_set(0));
    begin(0, 1); /* a mode without any limit: every call */
    assert_int_equal(route(INT64_MAX, 1), SAMEBITS_ROUTE_ORDER);
    assert_ok(samebits_mode_end());
    assert_counts(2, 3, 3);
    samebits_mode_counts_reset();
    assert_counts(0, 0, 0);
}

/* Rows of linear, each a product of its own in `want`: how many of them differ. */
static int differing(samebits_context *context, int64_t rows, const samebits_epilogue *epilogue, samebits_status want)
{
    int moved = 0;
    test_tensor *x = random_matrix(rows, DEPTH, 5), *w = random_matrix(WIDTH, DEPTH, 6);
    test_tensor *all = TENSOR(TEST_F32, rows, WIDTH), *one = TENSOR(TEST_F32, 1, WIDTH),
                *row = TENSOR(TEST_F32, 1, DEPTH);
    assert_int_equal(samebits_linear(context, &x->dl, &w->dl, epilogue, &all->dl), want);
    for (int64_t i = 0; i < rows; i++) {
        memcpy(test_at(row, 0), test_at(x, i * DEPTH), DEPTH * sizeof(float));
        assert_ok(samebits_linear(api_context, &row->dl, &w->dl, epilogue, &one->dl));
        moved += memcmp(test_at(one, 0), test_at(all, i * WIDTH), WIDTH * sizeof(float)) != 0;
    }
    return moved;
}

static void test_stock(void **state)
{
    (void)state;
    stock s = {0};
    samebits_context *context = with_stock(&s);
    samebits_epilogue epilogue;
    samebits_epilogue_default(&epilogue);
    epilogue.bias = &random_matrix(1, WIDTH, 8)->dl;
    ((DLTensor *)(uintptr_t)epilogue.bias)->ndim = 1;
    ((DLTensor *)(uintptr_t)epilogue.bias)->shape[0] = WIDTH;
    ((DLTensor *)(uintptr_t)epilogue.bias)->strides = NULL;
    epilogue.activation = SAMEBITS_ACTIVATION_SILU;
    samebits_mode_counts_reset();
    for (int kind = 0; kind < 2; kind++) {
        const samebits_epilogue *e = kind ? &epilogue : NULL;
        /* Without a limit a context's stock has no part in any call. */
        s = (stock){0};
        assert_int_equal(differing(context, MOST, e, SAMEBITS_OK), 0);
        begin(SAMEBITS_UNLIMITED, 1);
        assert_int_equal(differing(context, MOST, e, SAMEBITS_OK), 0);
        assert_ok(samebits_mode_end());
        assert_int_equal(s.calls, 0);
        assert_ok(samebits_limit_set(8));
        for (int64_t rows = 1; rows <= 8; rows++) assert_int_equal(differing(context, rows, e, SAMEBITS_OK), 0);
        assert_int_equal(s.calls, 0);
        assert_in_range(differing(context, 9, e, SAMEBITS_OK), 5, 9); /* the control: stock did move them */
        assert_int_equal(s.taken, 1);
        assert_counts(kind + 1, 0, 0);
        /* What stock does not take follows its order. */
        s.refuse = 1;
        assert_int_equal(differing(context, MOST, e, SAMEBITS_OK), 0);
        assert_int_equal(s.calls, 2);
        assert_counts(kind + 1, 0, 0);
        /* A mode's limit stands in for the process's, and a context without stock has none of it. */
        s = (stock){0};
        begin(9, 0);
        assert_int_equal(differing(context, 9, e, SAMEBITS_OK), 0);
        assert_int_equal(differing(api_context, MOST, e, SAMEBITS_OK), 0);
        assert_ok(samebits_mode_end());
        assert_int_equal(s.calls, 0);
        assert_ok(samebits_limit_set(0));
    }
    samebits_destroy(&context);
}

/* f64 weights beside f32 rows: no row. Plain calls say ERR_DTYPE, strict modes ERR_UNSUPPORTED, others leave it to
 * stock. */
static void test_without_row(void **state)
{
    (void)state;
    stock s = {0};
    samebits_context *context = with_stock(&s);
    double weights[WIDTH * DEPTH];
    test_tensor *x = random_matrix(3, DEPTH, 5), *w = random_matrix(WIDTH, DEPTH, 6), *out = TENSOR(TEST_F32, 3, WIDTH);
    DLTensor wide = w->dl;
    for (int i = 0; i < WIDTH * DEPTH; i++) weights[i] = (double)test_get(w, i);
    wide.data = weights;
    wide.dtype.bits = 64;
    samebits_mode_counts_reset();
    test_poison(out);
    test_save(out);
    assert_fails(samebits_linear(context, &x->dl, &wide, NULL, &out->dl), SAMEBITS_ERR_DTYPE, "w");
    begin(0, 1);
    assert_fails(samebits_linear(context, &x->dl, &wide, NULL, &out->dl), SAMEBITS_ERR_UNSUPPORTED, "strict");
    assert_ok(samebits_mode_end());
    begin(0, 0);
    assert_fails(samebits_linear(api_context, &x->dl, &wide, NULL, &out->dl), SAMEBITS_ERR_DTYPE, "w");
    s.refuse = 1;
    assert_fails(samebits_linear(context, &x->dl, &wide, NULL, &out->dl), SAMEBITS_ERR_DTYPE, "w");
    assert_true(test_unchanged(out));
    assert_counts(0, 0, 1);
    s.refuse = 0;
    /* Epilogues of such dtypes are nobody's. */
    samebits_epilogue epilogue;
    samebits_epilogue_default(&epilogue);
    const int calls = s.calls;
    assert_fails(samebits_linear(context, &x->dl, &wide, &epilogue, &out->dl), SAMEBITS_ERR_DTYPE, "w");
    assert_int_equal(s.calls, calls);
    assert_true(test_unchanged(out));
    assert_ok(samebits_linear(context, &x->dl, &wide, NULL, &out->dl));
    assert_counts(0, 1, 1);
    /* Bad arguments stay what they are. */
    assert_fails(samebits_linear(context, &x->dl, NULL, NULL, &out->dl), SAMEBITS_ERR_NULL, "w");
    assert_ok(samebits_mode_end());
    samebits_destroy(&context);
}

typedef samebits_status product_fn(samebits_context *, const DLTensor *, const DLTensor *, const samebits_epilogue *,
                                   DLTensor *);

enum { SIDE = 5 };

/* A product of int64, one tensor of which is spoilt: it never reaches stock, in a strict mode or another. */
static void test_without_row_checked(void **state)
{
    (void)state;
    static const struct {
        int which; /* x, w, out */
        const char *what;
        samebits_status status;
    } spoils[] = {
        {0, "shape", SAMEBITS_ERR_NULL},    {1, "shape", SAMEBITS_ERR_NULL},     {2, "shape", SAMEBITS_ERR_NULL},
        {0, "data", SAMEBITS_ERR_NULL},     {1, "data", SAMEBITS_ERR_NULL},      {2, "data", SAMEBITS_ERR_NULL},
        {0, "device", SAMEBITS_ERR_DEVICE}, {1, "device", SAMEBITS_ERR_DEVICE},  {2, "device", SAMEBITS_ERR_DEVICE},
        {0, "depth", SAMEBITS_ERR_SHAPE},   {1, "depth", SAMEBITS_ERR_SHAPE},    {2, "depth", SAMEBITS_ERR_SHAPE},
        {1, "rank", SAMEBITS_ERR_RANK},     {2, "stride", SAMEBITS_ERR_OVERLAP}, {2, "memory", SAMEBITS_ERR_OVERLAP},
        {0, "offset", SAMEBITS_ERR_STRIDE}};
    static product_fn *const products[] = {samebits_linear, samebits_matmul};
    stock s = {0};
    samebits_context *context = with_stock(&s);
    static int64_t memory[3][SIDE * SIDE];
    for (int call = 0; call < 4; call++)
        for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
            DLTensor t[3];
            int64_t shape[3][2], stride[2] = {0, 1};
            const int which = spoils[i].which;
            const char *what = spoils[i].what;
            for (int k = 0; k < 3; k++) {
                shape[k][0] = shape[k][1] = SIDE;
                t[k] = (DLTensor){memory[k], {kDLCPU, 0}, 2, {kDLInt, 64, 1}, shape[k], NULL, 0};
            }
            if (!strcmp(what, "shape")) t[which].shape = NULL;
            if (!strcmp(what, "data")) t[which].data = NULL;
            if (!strcmp(what, "device")) t[which].device.device_type = kDLCUDA;
            if (!strcmp(what, "depth")) shape[which][1]--;
            if (!strcmp(what, "rank")) t[which].ndim = 1;
            if (!strcmp(what, "stride")) t[which].strides = stride;
            if (!strcmp(what, "memory")) t[which].data = memory[0];
            if (!strcmp(what, "offset")) t[which].byte_offset = 4;
            begin(0, call & 1);
            const samebits_status status = products[call >> 1](context, &t[0], &t[1], NULL, &t[2]);
            assert_ok(samebits_mode_end());
            if (status != spoils[i].status) print_error("%s of tensor %d: %s\n", what, which, samebits_last_error());
            assert_int_equal(status, spoils[i].status);
        }
    assert_int_equal(s.calls, 0);
    samebits_destroy(&context);
}

/* Above the limit, a stock product that declines, and no memory for the library's own: out is as it was. */
static void test_declined(void **state)
{
    (void)state;
    stock s = {.refuse = 1};
    test_memory memory;
    test_memory_init(&memory);
    samebits_options o;
    samebits_context *context;
    samebits_options_default(&o);
    o.allocator = test_memory_allocator(&memory);
    o.stock = product;
    o.stock_user = &s;
    assert_ok(samebits_create(&context, &o));
    test_tensor *x = random_matrix(9, DEPTH, 5), *w = random_matrix(WIDTH, DEPTH, 6), *out = TENSOR(TEST_F32, 9, WIDTH);
    test_poison(out);
    test_save(out);
    begin(8, 0);
    memory.calls = 0;
    memory.fail_at = 0;
    assert_fails(samebits_linear(context, &x->dl, &w->dl, NULL, &out->dl), SAMEBITS_ERR_MEMORY, "memory");
    assert_int_equal(s.calls, 1);
    assert_true(test_unchanged(out));
    memory.fail_at = -1;
    assert_ok(samebits_linear(context, &x->dl, &w->dl, NULL, &out->dl));
    assert_ok(samebits_mode_end());
    samebits_destroy(&context);
}

static void *elsewhere(void *arg)
{
    int *depth = arg;
    *depth = samebits_mode_depth();
    begin(1, 1); /* a thread may end inside a mode */
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    int depth = -1;
    pthread_t thread;
    begin(7, 1);
    assert_int_equal(pthread_create(&thread, NULL, elsewhere, &depth), 0);
    pthread_join(thread, NULL);
    assert_int_equal(depth, 0);
    assert_int_equal(samebits_mode_depth(), 1);
    assert_ok(samebits_mode_end());
}

int api_mode_tests(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(test_limit),    API_TEST(test_nesting),     API_TEST(test_route),
        API_TEST(test_stock),    API_TEST(test_without_row), API_TEST(test_without_row_checked),
        API_TEST(test_declined), API_TEST(test_threads),
    };
    return API_RUN(tests);
}
