#include "op.h"

#include <stdlib.h>
#include <string.h>

#include "mlx.h"
#include "op_rows.h"
#include "plain.h"
#include "quant.h"

/* w lies as (N, K); matmul wants (K, N): the same memory seen transposed. */
static void turn_weights(const problem *p, tensor *b)
{
    tensor_slice(b, &p->w, 0, 0, p->n);
    b->shape[0] = p->k;
    b->shape[1] = p->n;
    b->stride[0] = p->w.stride[1];
    b->stride[1] = p->w.stride[0];
}

static samebits_status run_matmul(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    tensor b;
    turn_weights(p, &b);
    return samebits_matmul(context, x, &b.dl, &p->epilogue, out);
}

static samebits_status run_addmm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    tensor b;
    turn_weights(p, &b);
    return samebits_addmm(context, &p->c.dl, x, &b.dl, p->epilogue.alpha, p->epilogue.beta, out);
}

static samebits_status run_linear(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return samebits_linear(context, x, &p->w.dl, &p->epilogue, out);
}

static samebits_status run_prepared(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return samebits_linear_prepared(context, x, p->prepared, p->op->order, &p->epilogue, out);
}

static samebits_status run_quantized(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return samebits_matmul_quantized(context, x, &p->w.dl, p->op->format, p->op->order, &p->epilogue, out);
}

static samebits_status run_affine(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    const mlx_form *f = mlx_form_of(p->op->format);
    return samebits_matmul_affine(context, x, &p->w.dl, &p->scales.dl, &p->biases.dl, f->bits, f->group,
                                  !(p->op->flags & OP_ACROSS), p->op->order, &p->epilogue, out);
}

static samebits_status run_scaled(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return samebits_matmul_scaled(context, x, &p->w.dl, &p->scales.dl, p->op->format, !(p->op->flags & OP_ACROSS),
                                  p->op->order, &p->epilogue, out);
}

/* Rows dealt to three experts that all have the problem's weights: another grouping must not move a row. */
static samebits_status run_gather(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    const samebits_weights *experts[] = {p->prepared, p->prepared, p->prepared};
    DLTensor index = {.device = {kDLCPU, 0}, .ndim = x->ndim - 1, .dtype = {kDLInt, 32, 1}, .shape = x->shape};
    int64_t rows = 1;
    for (int i = 0; i < index.ndim; i++) rows *= x->shape[i];
    int32_t *expert = cli_alloc((size_t)rows * sizeof *expert);
    for (int64_t i = 0; i < rows; i++) expert[i] = (int32_t)(i * i % 7 % 3);
    index.data = expert;
    const samebits_status status =
        samebits_gather_prepared(context, x, experts, CLI_COUNT(experts), &index, p->op->order, &p->epilogue, out);
    free(expert);
    return status;
}

#define ELEMENT_BY_ELEMENT(name, call)                                                                                 \
    static samebits_status run_##name(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)   \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        return call;                                                                                                   \
    }

ELEMENT_BY_ELEMENT(activate, samebits_activate(context, x, p->op->activation, out))
ELEMENT_BY_ELEMENT(gated, samebits_gated(context, x, &p->w.dl, p->op->activation, out))
ELEMENT_BY_ELEMENT(add, samebits_add(context, x, &p->w.dl, out))
ELEMENT_BY_ELEMENT(sub, samebits_sub(context, x, &p->w.dl, out))
ELEMENT_BY_ELEMENT(mul, samebits_mul(context, x, &p->w.dl, out))
ELEMENT_BY_ELEMENT(div, samebits_div(context, x, &p->w.dl, out))
ELEMENT_BY_ELEMENT(scale, samebits_scale(context, x, SCALE_FACTOR, SCALE_BIAS, out))

static samebits_status run_rope(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    int32_t at = rope_position_of(p);
    int64_t shape = x->shape[x->ndim - 2], stride = 0;
    const DLTensor position = {
        .data = &at, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = &shape, .strides = &stride};
    samebits_rope_params params;
    rope_params_of(p, &params);
    return samebits_rope(context, x, &position, &params, out);
}

#define PORTABLE SAMEBITS_ORDER_PORTABLE_1
#define INT8     SAMEBITS_ORDER_INT8_1
#define AMX      SAMEBITS_ORDER_AMX_1
#define FLOATS(name, form, type, out, flags, activation, run)                                                          \
    {                                                                                                                  \
        name, form, T_##type, T_##type, T_##out, PORTABLE, SAMEBITS_FORMAT_##type, OP_HAS_N | (flags),                 \
            SAMEBITS_ACTIVATION_##activation, run, plain_product                                                       \
    }
/* Elements of 8 bytes, which have no weight format: what the table asks of a format is that of f32. */
#define WIDE(name, form, type, flags, activation, run, plain)                                                          \
    {                                                                                                                  \
        name, form, T_##type, T_##type, T_##type, PORTABLE, SAMEBITS_FORMAT_F32, OP_HAS_N | (flags),                   \
            SAMEBITS_ACTIVATION_##activation, run, plain                                                               \
    }
/* Products of bf16 in the order of AMX's matrix unit. */
#define DEVICE(name, form, out, run)                                                                                   \
    {                                                                                                                  \
        name, form, T_BF16, T_BF16, T_##out, AMX, SAMEBITS_FORMAT_BF16, OP_HAS_N | OP_PREPARED,                        \
            SAMEBITS_ACTIVATION_NONE, run, plain_amx                                                                   \
    }
/* Weights of a 16-bit format under f32 activations. */
#define MIXED(form, type)                                                                                              \
    {                                                                                                                  \
        "linear_prepared", form, T_F32, T_##type, T_F32, PORTABLE, SAMEBITS_FORMAT_##type, OP_HAS_N | OP_PREPARED,     \
            SAMEBITS_ACTIVATION_NONE, run_prepared, plain_product                                                      \
    }
#define QUANTIZED(name, form, type, order, flags, run, plain)                                                          \
    {                                                                                                                  \
        name, form, T_F32, T_U8, T_F32, order, SAMEBITS_FORMAT_##type, OP_HAS_N | (flags), SAMEBITS_ACTIVATION_NONE,   \
            run, plain                                                                                                 \
    }
#define QUANTIZED_ALL(form, type)                                                                                      \
    QUANTIZED("linear_prepared", form, type, PORTABLE, OP_PREPARED, run_prepared, plain_product),                      \
        QUANTIZED("linear_prepared", form, type, INT8, OP_PREPARED, run_prepared, plain_int8),                         \
        QUANTIZED("matmul_quantized", form, type, PORTABLE, 0, run_quantized, plain_product),                          \
        QUANTIZED("matmul_quantized", form, type, INT8, 0, run_quantized, plain_int8)
#define MLX(name, form, type, order, run, plain)                                                                       \
    {                                                                                                                  \
        name, form, T_F32, T_U32, T_F32, order, SAMEBITS_FORMAT_##type, OP_HAS_N | OP_PREPARED,                        \
            SAMEBITS_ACTIVATION_NONE, run, plain                                                                       \
    }
#define MLX_AS_IT_LIES(name, form, type, order, flags, run, plain)                                                     \
    {                                                                                                                  \
        name, form, T_F32, T_U32, T_F32, order, SAMEBITS_FORMAT_##type, OP_HAS_N | (flags), SAMEBITS_ACTIVATION_NONE,  \
            run, plain                                                                                                 \
    }
#define AFFINE(form, type, order, flags, plain)                                                                        \
    MLX_AS_IT_LIES("matmul_affine", form, type, order, flags, run_affine, plain)
#define SCALED(form, type, order, flags, plain)                                                                        \
    MLX_AS_IT_LIES("matmul_scaled", form, type, order, flags, run_scaled, plain)
#define MLX_PORTABLE(form, type) MLX("linear_prepared", form, type, PORTABLE, run_prepared, plain_product)
#define MLX_BOTH(form, type)                                                                                           \
    MLX_PORTABLE(form, type), MLX("linear_prepared", form, type, INT8, run_prepared, plain_int8)
#define ROWS(name, form, type, flags, run, plain)                                                                      \
    {                                                                                                                  \
        name, form, T_##type, T_F32, T_##type, PORTABLE, SAMEBITS_FORMAT_F32, flags, SAMEBITS_ACTIVATION_NONE, run,    \
            plain                                                                                                      \
    }
/* The three float dtypes. */
#define ROWS_ALL(name, flags, run, plain)                                                                              \
    ROWS(name, "f32", F32, flags, run, plain), ROWS(name, "f16", F16, flags, run, plain),                              \
        ROWS(name, "bf16", BF16, flags, run, plain)
#define ARGMAX(form, type)                                                                                             \
    {                                                                                                                  \
        "argmax", form, T_##type, T_F32, T_I32, PORTABLE, SAMEBITS_FORMAT_F32, OP_ONE, SAMEBITS_ACTIVATION_NONE,       \
            run_argmax, plain_argmax                                                                                   \
    }
#define SAMPLE(form, type, flags)                                                                                      \
    {                                                                                                                  \
        "sample", form, T_##type, T_F32, T_I32, PORTABLE, SAMEBITS_FORMAT_F32, OP_ONE | (flags),                       \
            SAMEBITS_ACTIVATION_NONE, run_sample, plain_sample                                                         \
    }
#define TABLE(form, type, w, out, flags)                                                                               \
    {                                                                                                                  \
        "embedding", form, T_F32, w, T_##out, PORTABLE, SAMEBITS_FORMAT_##type, OP_TABLE | (flags),                    \
            SAMEBITS_ACTIVATION_NONE, run_embedding, plain_embedding                                                   \
    }
#define ELEMENTS(name, form, type, flags, activation, run, plain)                                                      \
    {                                                                                                                  \
        name, form, T_##type, T_F32, T_##type, PORTABLE, SAMEBITS_FORMAT_F32, flags, SAMEBITS_ACTIVATION_##activation, \
            run, plain                                                                                                 \
    }
#define ELEMENTS_ALL(name, flags, activation, run, plain)                                                              \
    ELEMENTS(name, "f32", F32, flags, activation, run, plain),                                                         \
        ELEMENTS(name, "f16", F16, flags, activation, run, plain),                                                     \
        ELEMENTS(name, "bf16", BF16, flags, activation, run, plain)

const op ops[] = {
    FLOATS("matmul", "f32", F32, F32, 0, NONE, run_matmul),
    FLOATS("matmul", "f16", F16, F16, 0, NONE, run_matmul),
    FLOATS("matmul", "bf16", BF16, BF16, 0, NONE, run_matmul),
    FLOATS("matmul", "f16-f32", F16, F32, 0, NONE, run_matmul),
    FLOATS("matmul", "bf16-f32", BF16, F32, 0, NONE, run_matmul),
    FLOATS("addmm", "f32", F32, F32, OP_EPILOGUE, NONE, run_addmm),
    FLOATS("addmm", "bf16", BF16, BF16, OP_EPILOGUE, NONE, run_addmm),
    FLOATS("linear", "f32", F32, F32, 0, NONE, run_linear),
    FLOATS("linear", "f16", F16, F16, 0, NONE, run_linear),
    FLOATS("linear", "bf16", BF16, BF16, 0, NONE, run_linear),
    FLOATS("linear", "f32+bias+relu", F32, F32, OP_EPILOGUE, RELU, run_linear),
    FLOATS("linear", "f32+bias+silu", F32, F32, OP_EPILOGUE, SILU, run_linear),
    FLOATS("linear", "f16+bias+gelu", F16, F32, OP_EPILOGUE, GELU, run_linear),
    FLOATS("linear", "bf16+bias+gelu_tanh", BF16, F32, OP_EPILOGUE, GELU_TANH, run_linear),
    WIDE("matmul", "f64", F64, 0, NONE, run_matmul, plain_f64),
    WIDE("matmul", "complex64", C64, 0, NONE, run_matmul, plain_complex),
    WIDE("addmm", "f64", F64, OP_EPILOGUE, NONE, run_addmm, plain_f64),
    WIDE("addmm", "complex64", C64, OP_EPILOGUE, NONE, run_addmm, plain_complex),
    WIDE("linear", "f64", F64, 0, NONE, run_linear, plain_f64),
    WIDE("linear", "complex64", C64, 0, NONE, run_linear, plain_complex),
    WIDE("linear", "f64+bias+relu", F64, OP_EPILOGUE, RELU, run_linear, plain_f64),
    WIDE("linear", "complex64+bias", C64, OP_EPILOGUE, NONE, run_linear, plain_complex),
    FLOATS("linear_prepared", "f32", F32, F32, OP_PREPARED, NONE, run_prepared),
    FLOATS("linear_prepared", "f16", F16, F16, OP_PREPARED, NONE, run_prepared),
    FLOATS("linear_prepared", "bf16", BF16, BF16, OP_PREPARED, NONE, run_prepared),
    DEVICE("linear_prepared", "bf16", BF16, run_prepared),
    DEVICE("linear_prepared", "bf16-f32", F32, run_prepared),
    MIXED("f32*f16", F16),
    MIXED("f32*bf16", BF16),
    QUANTIZED_ALL("q4_0", Q4_0),
    QUANTIZED_ALL("q4_1", Q4_1),
    QUANTIZED_ALL("q5_0", Q5_0),
    QUANTIZED_ALL("q5_1", Q5_1),
    QUANTIZED_ALL("q8_0", Q8_0),
    QUANTIZED_ALL("iq4_nl", IQ4_NL),
    QUANTIZED_ALL("mxfp4", MXFP4),
    QUANTIZED_ALL("q2_k", Q2_K),
    QUANTIZED_ALL("q3_k", Q3_K),
    QUANTIZED_ALL("q4_k", Q4_K),
    QUANTIZED_ALL("q5_k", Q5_K),
    QUANTIZED_ALL("q6_k", Q6_K),
    QUANTIZED_ALL("nvfp4", NVFP4),
    MLX_BOTH("affine_2:64:f16", AFFINE_2),
    MLX_BOTH("affine_3:32:bf16", AFFINE_3),
    MLX_BOTH("affine_4:64:bf16", AFFINE_4),
    MLX_BOTH("affine_5:128:f16", AFFINE_5),
    MLX_BOTH("affine_6:64:f32", AFFINE_6),
    MLX_BOTH("affine_8:32:f32", AFFINE_8),
    MLX_BOTH("mlx_mxfp4", MLX_MXFP4),
    MLX_BOTH("mlx_nvfp4", MLX_NVFP4),
    MLX_PORTABLE("mlx_mxfp8", MLX_MXFP8),
    AFFINE("affine_3:32:bf16", AFFINE_3, PORTABLE, 0, plain_product),
    AFFINE("affine_4:64:bf16", AFFINE_4, PORTABLE, 0, plain_product),
    AFFINE("affine_4:64:bf16", AFFINE_4, INT8, 0, plain_int8),
    AFFINE("affine_8:32:f32", AFFINE_8, INT8, 0, plain_int8),
    AFFINE("affine_2:64:f16+along-n", AFFINE_2, PORTABLE, OP_ACROSS, plain_product),
    AFFINE("affine_4:64:bf16+along-n", AFFINE_4, PORTABLE, OP_ACROSS, plain_product),
    AFFINE("affine_5:128:f16+along-n", AFFINE_5, PORTABLE, OP_ACROSS, plain_product),
    SCALED("mlx_mxfp8", MLX_MXFP8, PORTABLE, 0, plain_product),
    SCALED("mlx_nvfp4", MLX_NVFP4, INT8, 0, plain_int8),
    SCALED("mlx_mxfp4+along-n", MLX_MXFP4, PORTABLE, OP_ACROSS, plain_product),
    SCALED("mlx_mxfp8+along-n", MLX_MXFP8, PORTABLE, OP_ACROSS, plain_product),
    SCALED("mlx_nvfp4+along-n", MLX_NVFP4, PORTABLE, OP_ACROSS, plain_product),
    FLOATS("gather_prepared", "f32", F32, F32, OP_PREPARED, NONE, run_gather),
    FLOATS("gather_prepared", "bf16", BF16, BF16, OP_PREPARED, NONE, run_gather),
    DEVICE("gather_prepared", "bf16", BF16, run_gather),
    QUANTIZED("gather_prepared", "q4_k", Q4_K, PORTABLE, OP_PREPARED, run_gather, plain_product),
    QUANTIZED("gather_prepared", "q4_k", Q4_K, INT8, OP_PREPARED, run_gather, plain_int8),
    MLX("gather_prepared", "affine_4:64:bf16", AFFINE_4, PORTABLE, run_gather, plain_product),
    MLX("gather_prepared", "affine_4:64:bf16", AFFINE_4, INT8, run_gather, plain_int8),
    MLX("gather_prepared", "mlx_mxfp4", MLX_MXFP4, INT8, run_gather, plain_int8),
    ROWS_ALL("rms_norm", OP_COLUMNS, run_rms_norm, plain_rms_norm),
    ROWS_ALL("layer_norm", OP_COLUMNS, run_layer_norm, plain_layer_norm),
    ROWS_ALL("l2_norm", 0, run_l2_norm, plain_l2_norm),
    ROWS_ALL("group_norm", OP_COLUMNS, run_group_norm, plain_group_norm),
    ROWS_ALL("add_rms_norm", OP_COLUMNS, run_add_rms_norm, plain_add_rms_norm),
    ROWS_ALL("softmax", 0, run_softmax, plain_softmax),
    ROWS_ALL("log_softmax", 0, run_log_softmax, plain_log_softmax),
    ROWS_ALL("logsumexp", OP_ONE, run_logsumexp, plain_logsumexp),
    ROWS_ALL("log_likelihood", OP_ONE, run_log_likelihood, plain_log_likelihood),
    ROWS_ALL("cross_entropy", OP_ONE, run_cross_entropy, plain_cross_entropy),
    ROWS_ALL("sum", OP_ONE, run_sum, plain_sum),
    ROWS_ALL("mean", OP_ONE, run_mean, plain_mean),
    ROWS_ALL("max", OP_ONE, run_max, plain_max),
    ROWS("top_k", "f32", F32, 0, run_top_k, plain_top_k),
    ROWS("top_k", "bf16", BF16, 0, run_top_k, plain_top_k),
    SAMPLE("f32", F32, 0),
    SAMPLE("bf16", BF16, 0),
    SAMPLE("f32+filters", F32, OP_FILTERS),
    SAMPLE("f16+filters", F16, OP_FILTERS),
    TABLE("bf16-f32", BF16, T_BF16, F32, 0),
    TABLE("f32-f16", F32, T_F32, F16, OP_PREPARED),
    TABLE("q4_0", Q4_0, T_U8, F32, 0),
    TABLE("q6_k", Q6_K, T_U8, F32, OP_PREPARED),
    TABLE("nvfp4", NVFP4, T_U8, BF16, OP_PREPARED),
    TABLE("affine_4:64:bf16", AFFINE_4, T_U32, BF16, OP_PREPARED),
    TABLE("mlx_mxfp8", MLX_MXFP8, T_U32, F32, OP_PREPARED),
    ARGMAX("f32", F32),
    ARGMAX("f16", F16),
    ARGMAX("bf16", BF16),
    ELEMENTS_ALL("exp", 0, EXP, run_activate, plain_activate),
    ELEMENTS_ALL("sigmoid", 0, SIGMOID, run_activate, plain_activate),
    ELEMENTS_ALL("tanh", 0, TANH, run_activate, plain_activate),
    ELEMENTS_ALL("relu", 0, RELU, run_activate, plain_activate),
    ELEMENTS_ALL("silu", 0, SILU, run_activate, plain_activate),
    ELEMENTS_ALL("gelu", 0, GELU, run_activate, plain_activate),
    ELEMENTS_ALL("gelu_tanh", 0, GELU_TANH, run_activate, plain_activate),
    ELEMENTS_ALL("gelu_quick", 0, GELU_QUICK, run_activate, plain_activate),
    ELEMENTS_ALL("swiglu", OP_COLUMNS, SILU, run_gated, plain_gated),
    ELEMENTS_ALL("geglu", OP_COLUMNS, GELU, run_gated, plain_gated),
    ELEMENTS_ALL("geglu_tanh", OP_COLUMNS, GELU_TANH, run_gated, plain_gated),
    ELEMENTS_ALL("add", OP_COLUMNS, NONE, run_add, plain_add),
    ELEMENTS_ALL("sub", OP_COLUMNS, NONE, run_sub, plain_sub),
    ELEMENTS_ALL("mul", OP_COLUMNS, NONE, run_mul, plain_mul),
    ELEMENTS_ALL("div", OP_COLUMNS, NONE, run_div, plain_div),
    ELEMENTS_ALL("scale", 0, NONE, run_scale, plain_scale),
    ROWS("rope", "f32", F32, 0, run_rope, plain_rope),
    ROWS("rope", "f16", F16, 0, run_rope, plain_rope),
    ROWS("rope", "bf16", BF16, 0, run_rope, plain_rope),
    ROWS("rope", "f32+interleaved", F32, OP_PAIRS, run_rope, plain_rope),
    ROWS("rope", "f32+yarn", F32, OP_YARN, run_rope, plain_rope),
};
const int op_count = CLI_COUNT(ops);

/* The rows of a problem are not to differ in anything but x, so that all have one position. */
int32_t rope_position_of(const problem *p) { return (int32_t)(7 + 131 * p->k); }

void rope_params_of(const problem *p, samebits_rope_params *params)
{
    samebits_rope_params_default(params);
    params->first = p->k % 2;
    params->layout = p->op->flags & OP_PAIRS ? SAMEBITS_ROPE_INTERLEAVED : SAMEBITS_ROPE_HALVES;
    if (!(p->op->flags & OP_YARN)) return;
    params->base = 500000.0f;
    params->scale = 0.25f;
    params->extrapolation = 1.0f;
    params->original_context = 4096;
}

int op_present(const op *o)
{
    rng r = {1};
    problem p;
    problem_make(&p, o, 32, 16, &r);
    tensor x, out;
    tensor_make2(&x, o->x, LAYOUT_PLAIN, 1, p.k);
    tensor_make2(&out, o->out, LAYOUT_PLAIN, 1, p.n);
    tensor_fill(&x, FILL_UNIT, &r);
    const samebits_status status = o->run(&p, cli_context(SAMEBITS_CPU_SCALAR, 1, 0), &x.dl, &out.dl);
    tensor_free(&x);
    tensor_free(&out);
    problem_free(&p);
    if (status == SAMEBITS_ERR_UNSUPPORTED) return 0;
    cli_check(status, o->name);
    return 1;
}

static void make_epilogue(problem *p, rng *r)
{
    const op *o = p->op;
    samebits_epilogue_default(&p->epilogue);
    p->epilogue.activation = o->activation;
    if (!(o->flags & OP_EPILOGUE)) return;
    tensor_make2(&p->c, o->out, LAYOUT_PLAIN, 1, p->n);
    tensor_fill(&p->c, FILL_UNIT, r);
    p->epilogue.alpha = 1.25f;
    p->epilogue.beta = -0.7f;
    p->epilogue.c = &p->c.dl;
    if (o->run == run_addmm) return;
    tensor_make(&p->bias, o->out, LAYOUT_PLAIN, 1, &p->n);
    tensor_fill(&p->bias, FILL_UNIT, r);
    p->epilogue.bias = &p->bias.dl;
}

void problem_prepare(problem *p, samebits_context *context)
{
    const mlx_form *f = mlx_form_of(p->op->format);
    samebits_status status;
    if (!f)
        status = samebits_weights_prepare(context, &p->w.dl, p->op->format, NULL, &p->prepared);
    else if (f->scales == T_U8)
        status = samebits_weights_prepare_scaled(context, &p->w.dl, &p->scales.dl, p->op->format, NULL, &p->prepared);
    else
        status = samebits_weights_prepare_affine(context, &p->w.dl, &p->scales.dl, &p->biases.dl, f->bits, f->group,
                                                 NULL, &p->prepared);
    cli_check(status, "samebits_weights_prepare");
}

static void make_rows(problem *p, rng *r)
{
    const op *o = p->op;
    size_t row_size = 0;
    cli_check(samebits_format_row_size(o->format, p->k, &row_size), "samebits_format_row_size");
    tensor_make2(&p->w, o->w, LAYOUT_PLAIN, p->n, o->w == T_U8 ? (int64_t)row_size : p->k);
    if (dtype_is_wide(o->w)) {
        tensor_fill(&p->w, o->flags & OP_EPILOGUE ? FILL_UNIT : FILL_SPREAD, r);
        return;
    }
    p->wide = cli_alloc((size_t)(p->n * p->k) * sizeof(float));
    if (o->w == T_U8) {
        quant_fill(o->format, &p->w, FILL_UNIT, r);
        for (int64_t row = 0; row < p->n; row++)
            quant_row(o->format, tensor_at(&p->w, row * (int64_t)row_size), p->k, p->wide + row * p->k);
    } else {
        /* Sums of a size at which the activations bend. */
        tensor_fill(&p->w, o->flags & OP_EPILOGUE ? FILL_UNIT : FILL_SPREAD, r);
        for (int64_t row = 0; row < p->n; row++) tensor_row(&p->w, row, p->wide + row * p->k);
    }
}

static void make_weights(problem *p, rng *r)
{
    if (mlx_form_of(p->op->format)) {
        p->wide = cli_alloc((size_t)(p->n * p->k) * sizeof(float));
        mlx_make(p, r);
        for (int64_t row = 0; row < p->n; row++) mlx_row(p, row, p->wide + row * p->k);
    } else {
        make_rows(p, r);
    }
    if (p->op->flags & OP_PREPARED) problem_prepare(p, cli_context(SAMEBITS_CPU_AUTO, 1, 0));
}

void problem_make(problem *p, const op *o, int64_t k, int64_t n, rng *r)
{
    const mlx_form *f = mlx_form_of(o->format);
    const int64_t block = CLI_MAX(samebits_format_block(o->format), f ? f->group : 1);
    memset(p, 0, sizeof *p);
    p->op = o;
    const int across = (o->flags & OP_ACROSS) != 0;
    p->k = across ? k : (k + block - 1) / block * block;
    if (across) n = (n + block - 1) / block * block;
    p->n = o->flags & OP_HAS_N ? n : o->flags & OP_ONE ? 1 : p->k;
    make_epilogue(p, r);
    if (o->flags & OP_COLUMNS) {
        tensor_make(&p->w, T_F32, LAYOUT_PLAIN, 1, &p->k);
        tensor_make(&p->bias, T_F32, LAYOUT_PLAIN, 1, &p->k);
        tensor_fill(&p->w, FILL_UNIT, r);
        tensor_fill(&p->bias, FILL_UNIT, r);
    }
    if (o->flags & OP_TABLE) p->n = TABLE_ROWS;
    if (o->flags & (OP_HAS_N | OP_TABLE)) make_weights(p, r);
    if (o->flags & OP_TABLE) p->n = p->k;
}

void problem_free(problem *p)
{
    tensor_free(&p->w);
    tensor_free(&p->scales);
    tensor_free(&p->biases);
    tensor_free(&p->bias);
    tensor_free(&p->c);
    samebits_weights_destroy(&p->prepared);
    free(p->wide);
}
