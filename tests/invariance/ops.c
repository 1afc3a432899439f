#include "ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { DEPTH = 300, QUANT_DEPTH = 512, WIDTH = 35, ROWS = 300, QUANT_ROWS = 140, MANY_ROWS = 4096 };

static const char *dtype_name(test_dtype dtype)
{
    static const char *const names[] = {"f32", "f16", "bf16", "u8", "i32", "bool", "u32", "f64", "complex64"};
    return names[dtype];
}

static samebits_status run_matmul(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    return samebits_matmul(c, x, op->w, op->epilogue.struct_size ? &op->epilogue : NULL, out);
}

static samebits_status run_linear(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    return samebits_linear(c, x, op->w, op->epilogue.struct_size ? &op->epilogue : NULL, out);
}

static samebits_status run_prepared(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    return samebits_linear_prepared(c, x, op->weights, op->order, op->epilogue.struct_size ? &op->epilogue : NULL, out);
}

static samebits_status run_quantized(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    return samebits_matmul_quantized(c, x, op->w, op->format, op->order, NULL, out);
}

static samebits_status run_softmax(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    (void)op;
    return samebits_softmax(c, x, NULL, out);
}

static samebits_status run_log_softmax(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    (void)op;
    return samebits_log_softmax(c, x, out);
}

static samebits_status run_rms_norm(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    return samebits_rms_norm(c, x, op->w, 1e-5f, out);
}

static samebits_status run_sum(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    (void)op;
    return samebits_sum(c, x, out);
}

static samebits_status run_max(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    (void)op;
    return samebits_max(c, x, out);
}

static samebits_status run_logsumexp(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    (void)op;
    return samebits_logsumexp(c, x, out);
}

static samebits_status run_layer_norm(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    return samebits_layer_norm(c, x, op->w, op->w, 1e-5f, out);
}

static samebits_status run_silu(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    (void)op;
    return samebits_activate(c, x, SAMEBITS_ACTIVATION_SILU, out);
}

static samebits_status run_geglu(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    return samebits_gated(c, x, op->w, SAMEBITS_ACTIVATION_GELU, out);
}

static samebits_status run_div(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    return samebits_div(c, x, op->w, out);
}

static samebits_status run_scale(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    (void)op;
    return samebits_scale(c, x, 1.7f, -0.3f, out);
}

/* All rows have one position, so that each is a function of x's row. */
static samebits_status run_rope(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out)
{
    int32_t at = 4321;
    int64_t shape = x->shape[0], stride = 0;
    const DLTensor position = {
        .data = &at, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = &shape, .strides = &stride};
    samebits_rope_params p;
    samebits_rope_params_default(&p);
    p.first = op->width_in % 2;
    p.layout = op->in == TEST_F32 ? SAMEBITS_ROPE_HALVES : SAMEBITS_ROPE_INTERLEAVED;
    return samebits_rope(c, x, &position, &p, out);
}

/* Weights (N, K) or, as a transposed view of the same memory, (K, N). */
static DLTensor *weights_of(test_dtype dtype, int transposed)
{
    test_rng rng = {41};
    test_tensor *w = TENSOR(dtype, WIDTH, DEPTH);
    test_random(w, &rng);
    if (transposed) {
        w->shape[0] = DEPTH;
        w->shape[1] = WIDTH;
        w->strides[0] = 1;
        w->strides[1] = DEPTH;
    }
    return &w->dl;
}

static void name_op(row_op *op, const char *kind, const char *detail)
{
    snprintf(op->name, sizeof op->name, "%s %s->%s%s%s", kind, dtype_name(op->in), dtype_name(op->out),
             *detail ? " " : "", detail);
}

static void float_op(row_op *op, const char *kind, test_dtype in, test_dtype out)
{
    *op = (row_op){.in = in,
                   .out = out,
                   .width_in = DEPTH,
                   .width_out = WIDTH,
                   .max_rows = ROWS,
                   .order = SAMEBITS_ORDER_PORTABLE_1};
    name_op(op, kind, "");
}

static void matmul(row_op *op, test_dtype in, test_dtype out)
{
    float_op(op, "matmul", in, out);
    op->run = run_matmul;
    op->w = weights_of(in, 1);
}

static void linear(row_op *op, test_dtype in, test_dtype out)
{
    float_op(op, "linear", in, out);
    op->run = run_linear;
    op->w = weights_of(in, 0);
}

static void prepare(row_op *op, DLTensor *w, samebits_format format)
{
    samebits_context *c;
    assert_int_equal(samebits_create(&c, NULL), SAMEBITS_OK);
    assert_int_equal(samebits_weights_prepare(c, w, format, NULL, &op->weights), SAMEBITS_OK);
    samebits_destroy(&c);
}

static void prepared(row_op *op, test_dtype in, test_dtype weights, test_dtype out)
{
    float_op(op, "linear_prepared", in, out);
    name_op(op, "linear_prepared", dtype_name(weights));
    op->run = run_prepared;
    prepare(op, weights_of(weights, 0), (samebits_format)(SAMEBITS_FORMAT_F32 + (int)weights));
}

static void add_epilogue(row_op *op, samebits_activation activation)
{
    test_rng rng = {42};
    const int wide = op->out >= TEST_F64;
    test_tensor *bias = TENSOR(wide ? op->out : TEST_F16, WIDTH), *c = TENSOR(wide ? op->out : TEST_F32, 1, WIDTH);
    test_random(bias, &rng);
    test_random(c, &rng);
    samebits_epilogue_default(&op->epilogue);
    op->epilogue.alpha = 0.37;
    op->epilogue.beta = 1.5;
    op->epilogue.c = &c->dl;
    op->epilogue.bias = &bias->dl;
    op->epilogue.activation = activation;
    name_op(op, "linear", "with epilogue");
}

/* Rows of random blocks whose scales are ordinary numbers. Where they lie is a fact of each format. */
static DLTensor *quantised_weights(samebits_format format)
{
    static const struct {
        int bytes, scales, offset;
    } blocks[SAMEBITS_FORMAT_COUNT] = {
        [SAMEBITS_FORMAT_Q4_0] = {18, 1, 0},    [SAMEBITS_FORMAT_Q4_1] = {20, 2, 0},
        [SAMEBITS_FORMAT_Q5_0] = {22, 1, 0},    [SAMEBITS_FORMAT_Q5_1] = {24, 2, 0},
        [SAMEBITS_FORMAT_Q8_0] = {34, 1, 0},    [SAMEBITS_FORMAT_IQ4_NL] = {18, 1, 0},
        [SAMEBITS_FORMAT_MXFP4] = {17, 1, 0},   [SAMEBITS_FORMAT_Q2_K] = {84, 2, 80},
        [SAMEBITS_FORMAT_Q3_K] = {110, 1, 108}, [SAMEBITS_FORMAT_Q4_K] = {144, 2, 0},
        [SAMEBITS_FORMAT_Q5_K] = {176, 2, 0},   [SAMEBITS_FORMAT_Q6_K] = {210, 1, 208},
        [SAMEBITS_FORMAT_NVFP4] = {36, 0, 0},
    };
    test_rng rng = {43};
    size_t row;
    assert_int_equal(samebits_format_row_size(format, QUANT_DEPTH, &row), SAMEBITS_OK);
    test_tensor *w = TENSOR(TEST_U8, WIDTH, (int64_t)row);
    test_random_bytes(w, &rng);
    for (size_t b = 0; b < w->size; b += (size_t)blocks[format].bytes)
        for (int s = 0; s < blocks[format].scales; s++) {
            const uint16_t scale = (uint16_t)((test_next(&rng) & 0x83FFu) | (5u + (unsigned)test_below(&rng, 6)) << 10);
            uint8_t *at = w->memory + b + (size_t)(blocks[format].offset + 2 * s);
            if (format == SAMEBITS_FORMAT_MXFP4)
                *at = (uint8_t)(118 + (scale & 7));
            else
                memcpy(at, &scale, 2);
        }
    return &w->dl;
}

static int quantised(row_op *op, samebits_format format, samebits_order order, int is_prepared)
{
    *op = (row_op){.in = TEST_F32,
                   .out = TEST_F32,
                   .width_in = QUANT_DEPTH,
                   .width_out = WIDTH,
                   .max_rows = QUANT_ROWS,
                   .format = format,
                   .order = order};
    if (!samebits_format_block(format)) return 0;
    char detail[40];
    snprintf(detail, sizeof detail, "%s %s", samebits_format_name(format), samebits_order_name(order));
    name_op(op, is_prepared ? "linear_prepared" : "quantized", detail);
    op->w = quantised_weights(format);
    op->run = is_prepared ? run_prepared : run_quantized;
    if (is_prepared) prepare(op, op->w, format);
    return 1;
}

/* One group and dtype of scales for each width. */
static const struct {
    int bits, group;
    test_dtype scales;
} affine_forms[] = {{2, 32, TEST_F16},  {3, 64, TEST_BF16}, {4, 64, TEST_F32},
                    {5, 32, TEST_BF16}, {6, 128, TEST_F16}, {8, 64, TEST_BF16}};
enum { AFFINE_OPS = 2 * sizeof affine_forms / sizeof *affine_forms };

static void affine(int index, row_op *op)
{
    const int bits = affine_forms[index / 2].bits, group = affine_forms[index / 2].group;
    const test_dtype dtype = affine_forms[index / 2].scales;
    *op = (row_op){.in = TEST_F32,
                   .out = TEST_F32,
                   .width_in = QUANT_DEPTH,
                   .width_out = WIDTH,
                   .max_rows = QUANT_ROWS,
                   .order = index % 2 ? SAMEBITS_ORDER_INT8_1 : SAMEBITS_ORDER_PORTABLE_1,
                   .run = run_prepared};
    char detail[40];
    snprintf(detail, sizeof detail, "affine %d/%d %s", bits, group, samebits_order_name(op->order));
    name_op(op, "linear_prepared", detail);
    test_rng rng = {44};
    test_tensor *w = TENSOR(TEST_U32, WIDTH, QUANT_DEPTH * bits / 32);
    test_tensor *scales = TENSOR(dtype, WIDTH, QUANT_DEPTH / group),
                *biases = TENSOR(dtype, WIDTH, QUANT_DEPTH / group);
    test_random_bytes(w, &rng);
    test_random_small(scales, &rng);
    test_random_small(biases, &rng);
    samebits_context *c;
    assert_int_equal(samebits_create(&c, NULL), SAMEBITS_OK);
    assert_int_equal(
        samebits_weights_prepare_affine(c, &w->dl, &scales->dl, &biases->dl, bits, group, NULL, &op->weights),
        SAMEBITS_OK);
    samebits_destroy(&c);
}

/* MLX's floats, with scales of a byte. */
static const struct {
    samebits_format format;
    samebits_order order;
} scaled_forms[] = {{SAMEBITS_FORMAT_MLX_MXFP4, SAMEBITS_ORDER_PORTABLE_1},
                    {SAMEBITS_FORMAT_MLX_MXFP4, SAMEBITS_ORDER_INT8_1},
                    {SAMEBITS_FORMAT_MLX_NVFP4, SAMEBITS_ORDER_PORTABLE_1},
                    {SAMEBITS_FORMAT_MLX_NVFP4, SAMEBITS_ORDER_INT8_1},
                    {SAMEBITS_FORMAT_MLX_MXFP8, SAMEBITS_ORDER_PORTABLE_1}};
enum { SCALED_OPS = sizeof scaled_forms / sizeof *scaled_forms };

static void scaled(int index, row_op *op)
{
    const samebits_format format = scaled_forms[index].format;
    const int has_e4m3 = format == SAMEBITS_FORMAT_MLX_NVFP4;
    *op = (row_op){.in = TEST_F32,
                   .out = TEST_F32,
                   .width_in = QUANT_DEPTH,
                   .width_out = WIDTH,
                   .max_rows = QUANT_ROWS,
                   .order = scaled_forms[index].order,
                   .run = run_prepared};
    char detail[40];
    snprintf(detail, sizeof detail, "%s %s", samebits_format_name(format), samebits_order_name(op->order));
    name_op(op, "linear_prepared", detail);
    test_rng rng = {45};
    size_t row;
    assert_int_equal(samebits_format_row_size(format, QUANT_DEPTH, &row), SAMEBITS_OK);
    test_tensor *w = TENSOR(TEST_U8, WIDTH, (int64_t)row),
                *scales = TENSOR(TEST_U8, WIDTH, QUANT_DEPTH / (has_e4m3 ? 16 : 32));
    test_random_bytes(w, &rng);
    test_random_bytes(scales, &rng);
    for (size_t i = 0; i < w->size; i++) w->memory[i] &= 0xFE; /* no NaN */
    for (size_t i = 0; i < scales->size; i++)
        scales->memory[i] = has_e4m3 ? scales->memory[i] & 0xFE : 118 + scales->memory[i] % 8;
    samebits_context *c;
    assert_int_equal(samebits_create(&c, NULL), SAMEBITS_OK);
    assert_int_equal(samebits_weights_prepare_scaled(c, &w->dl, &scales->dl, format, NULL, &op->weights), SAMEBITS_OK);
    samebits_destroy(&c);
}

/* Widths around the sizes of vectors and chunks. */
static const int64_t row_widths[] = {1, 31, 33, 256, 300};
static const struct {
    const char *name;
    samebits_status (*run)(const row_op *op, samebits_context *c, DLTensor *x, DLTensor *out);
    test_dtype in, out;
    int one; /* out has one column */
} row_kinds[] = {
    {"softmax", run_softmax, TEST_F32, TEST_F32, 0},
    {"softmax", run_softmax, TEST_F16, TEST_F16, 0},
    {"log_softmax", run_log_softmax, TEST_F32, TEST_F32, 0},
    {"log_softmax", run_log_softmax, TEST_BF16, TEST_BF16, 0},
    {"rms_norm", run_rms_norm, TEST_F32, TEST_F32, 0},
    {"rms_norm", run_rms_norm, TEST_BF16, TEST_BF16, 0},
    {"layer_norm", run_layer_norm, TEST_F32, TEST_F32, 0},
    {"layer_norm", run_layer_norm, TEST_F16, TEST_F32, 0},
    {"sum", run_sum, TEST_F32, TEST_F32, 1},
    {"max", run_max, TEST_BF16, TEST_BF16, 1},
    {"logsumexp", run_logsumexp, TEST_F32, TEST_F32, 1},
    {"silu", run_silu, TEST_F32, TEST_F32, 0},
    {"geglu", run_geglu, TEST_F16, TEST_F16, 0},
    {"rope", run_rope, TEST_F32, TEST_F32, 0},
    {"rope", run_rope, TEST_F16, TEST_F16, 0},
    {"div", run_div, TEST_BF16, TEST_BF16, 0},
    {"scale", run_scale, TEST_F32, TEST_F32, 0},
};
enum { ROW_WIDTHS = sizeof row_widths / sizeof *row_widths, ROW_KINDS = sizeof row_kinds / sizeof *row_kinds };

static void row_by_row(int kind, int64_t width, row_op *op)
{
    test_rng rng = {44};
    test_tensor *w = TENSOR(TEST_F32, width);
    test_random_small(w, &rng);
    *op = (row_op){.in = row_kinds[kind].in,
                   .out = row_kinds[kind].out,
                   .width_in = width,
                   .width_out = row_kinds[kind].one ? 1 : width,
                   .max_rows = ROWS,
                   .run = row_kinds[kind].run,
                   .w = &w->dl,
                   .small = 1};
    char detail[24];
    snprintf(detail, sizeof detail, "of %lld", (long long)width);
    name_op(op, row_kinds[kind].name, detail);
}

static void make_tiny(row_op *op)
{
    op->tiny = 1;
    name_op(op, "linear", "of subnormals");
}

static int make_float(int index, row_op *op)
{
    switch (index) {
    case 0:
        matmul(op, TEST_F32, TEST_F32);
        op->max_rows = MANY_ROWS;
        return 1;
    case 1: matmul(op, TEST_F16, TEST_F16); return 1;
    case 2: matmul(op, TEST_F16, TEST_F32); return 1;
    case 3: matmul(op, TEST_BF16, TEST_BF16); return 1;
    case 4: matmul(op, TEST_BF16, TEST_F32); return 1;
    case 5:
        linear(op, TEST_F32, TEST_F32);
        make_tiny(op);
        return 1;
    case 6:
        linear(op, TEST_F32, TEST_F32);
        add_epilogue(op, SAMEBITS_ACTIVATION_RELU);
        return 1;
    case 7:
        linear(op, TEST_BF16, TEST_BF16);
        add_epilogue(op, SAMEBITS_ACTIVATION_SILU);
        return 1;
    case 8:
        linear(op, TEST_F32, TEST_F32);
        add_epilogue(op, SAMEBITS_ACTIVATION_GELU);
        return 1;
    case 9:
        linear(op, TEST_F16, TEST_F16);
        add_epilogue(op, SAMEBITS_ACTIVATION_GELU_TANH);
        return 1;
    case 10:
        prepared(op, TEST_F32, TEST_F32, TEST_F32);
        op->max_rows = MANY_ROWS;
        return 1;
    case 11: prepared(op, TEST_F32, TEST_F16, TEST_F32); return 1;
    case 12: prepared(op, TEST_F32, TEST_BF16, TEST_F32); return 1;
    case 13: prepared(op, TEST_F16, TEST_F16, TEST_F16); return 1;
    case 14: prepared(op, TEST_BF16, TEST_BF16, TEST_BF16); return 1;
    case 15: matmul(op, TEST_F64, TEST_F64); return 1;
    case 16: matmul(op, TEST_C64, TEST_C64); return 1;
    case 17:
        linear(op, TEST_F64, TEST_F64);
        add_epilogue(op, SAMEBITS_ACTIVATION_RELU);
        return 1;
    case 18:
        linear(op, TEST_C64, TEST_C64);
        add_epilogue(op, SAMEBITS_ACTIVATION_NONE);
        return 1;
    case 19:
        prepared(op, TEST_BF16, TEST_BF16, TEST_F32);
        op->order = SAMEBITS_ORDER_AMX_1;
        name_op(op, "linear_prepared", samebits_order_name(op->order));
        return 1;
    }
    return 0;
}

/* Q4_0 to Q6_K, and NVFP4. */
enum { FLOAT_OPS = 20, QUANT_FORMATS = SAMEBITS_FORMAT_Q6_K + 2 - SAMEBITS_FORMAT_Q4_0, QUANT_OPS = 4 * QUANT_FORMATS };

static samebits_format quant_format(int index)
{
    return index == QUANT_FORMATS - 1 ? SAMEBITS_FORMAT_NVFP4 : (samebits_format)(SAMEBITS_FORMAT_Q4_0 + index);
}

int ops_make(int index, row_op *op)
{
    if (index < FLOAT_OPS) return make_float(index, op);
    index -= FLOAT_OPS;
    if (index < QUANT_OPS) {
        const samebits_format format = quant_format(index / 4);
        const samebits_order order = index & 1 ? SAMEBITS_ORDER_INT8_1 : SAMEBITS_ORDER_PORTABLE_1;
        assert_true(quantised(op, format, order, index & 2));
        return 1;
    }
    index -= QUANT_OPS;
    if (index < AFFINE_OPS) {
        affine(index, op);
        return 1;
    }
    index -= AFFINE_OPS;
    if (index < SCALED_OPS) {
        scaled(index, op);
        return 1;
    }
    index -= SCALED_OPS;
    if (index < ROW_KINDS * ROW_WIDTHS) {
        row_by_row(index / ROW_WIDTHS, row_widths[index % ROW_WIDTHS], op);
        return 1;
    }
    return 0;
}

int ops_twin(int index, row_op *a, row_op *b)
{
    static const test_dtype dtypes[] = {TEST_F32, TEST_F16, TEST_BF16, TEST_F64, TEST_C64};
    if (index < 5) {
        const test_dtype out = index < 3 ? TEST_F32 : dtypes[index];
        matmul(a, dtypes[index], out);
        linear(b, dtypes[index], out);
        return 1;
    }
    index -= 5;
    if (index < 3) {
        linear(a, dtypes[index], TEST_F32);
        prepared(b, dtypes[index], dtypes[index], TEST_F32);
        return 1;
    }
    index -= 3;
    if (index < 2 * QUANT_FORMATS) {
        const samebits_format format = quant_format(index / 2);
        const samebits_order order = index & 1 ? SAMEBITS_ORDER_INT8_1 : SAMEBITS_ORDER_PORTABLE_1;
        assert_true(quantised(a, format, order, 0) && quantised(b, format, order, 1));
        return 1;
    }
    return 0;
}
