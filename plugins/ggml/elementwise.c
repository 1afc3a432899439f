/* UNARY, GLU, ADD, SUB, MUL, DIV, SCALE: ops that work element by element. */
#include <string.h>

#include "plugin.h"

/* ggml's own rule is wider: a size of b may divide that of a. */
static bool broadcasts(const struct ggml_tensor *b, const struct ggml_tensor *op)
{
    for (int i = 0; i < GGML_MAX_DIMS; i++)
        if (b->ne[i] != 1 && b->ne[i] != op->ne[i]) return false;
    return true;
}

static int32_t int_param(const struct ggml_tensor *op, int index) { return op->op_params[index]; }

/* --- ADD, SUB, MUL, DIV --- */

static bool supports_binary(const struct ggml_tensor *op)
{
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    return sbg_is_float(a->type) && sbg_is_float(b->type) &&
           (op->type == GGML_TYPE_F32 || op->type == a->type || op->type == b->type) && broadcasts(a, op) &&
           broadcasts(b, op);
}

static samebits_status binary(sbg_backend *backend, struct ggml_tensor *op)
{
    sbg_view a, b, out;
    sbg_view_of(op->src[0], &a);
    sbg_view_of(op->src[1], &b);
    sbg_view_of(op, &out);
    switch (op->op) {
    case GGML_OP_ADD: return samebits_add(backend->samebits, &a.tensor, &b.tensor, &out.tensor);
    case GGML_OP_SUB: return samebits_sub(backend->samebits, &a.tensor, &b.tensor, &out.tensor);
    case GGML_OP_MUL: return samebits_mul(backend->samebits, &a.tensor, &b.tensor, &out.tensor);
    default: return samebits_div(backend->samebits, &a.tensor, &b.tensor, &out.tensor);
    }
}

/* --- UNARY --- */

/* NONE: not taken. */
static samebits_activation unary_of(const struct ggml_tensor *op)
{
    switch ((enum ggml_unary_op)int_param(op, 0)) {
    case GGML_UNARY_OP_TANH: return SAMEBITS_ACTIVATION_TANH;
    case GGML_UNARY_OP_RELU: return SAMEBITS_ACTIVATION_RELU;
    case GGML_UNARY_OP_SIGMOID: return SAMEBITS_ACTIVATION_SIGMOID;
    case GGML_UNARY_OP_GELU: return SAMEBITS_ACTIVATION_GELU_TANH;
    case GGML_UNARY_OP_GELU_ERF: return SAMEBITS_ACTIVATION_GELU;
    case GGML_UNARY_OP_GELU_QUICK: return SAMEBITS_ACTIVATION_GELU_QUICK;
    case GGML_UNARY_OP_SILU: return SAMEBITS_ACTIVATION_SILU;
    case GGML_UNARY_OP_EXP: return SAMEBITS_ACTIVATION_EXP;
    default: return SAMEBITS_ACTIVATION_NONE;
    }
}

static bool supports_unary(const struct ggml_tensor *op)
{
    return sbg_is_float(op->type) && op->src[0]->type == op->type && unary_of(op) != SAMEBITS_ACTIVATION_NONE;
}

static samebits_status unary(sbg_backend *backend, struct ggml_tensor *op)
{
    sbg_view x, out;
    sbg_view_of(op->src[0], &x);
    sbg_view_of(op, &out);
    return samebits_activate(backend->samebits, &x.tensor, unary_of(op), &out.tensor);
}

/* --- GLU: activation(x) * y, two tensors, or the halves of each row of one --- */

static samebits_activation glu_of(const struct ggml_tensor *op)
{
    switch ((enum ggml_glu_op)int_param(op, 0)) {
    case GGML_GLU_OP_REGLU: return SAMEBITS_ACTIVATION_RELU;
    case GGML_GLU_OP_GEGLU: return SAMEBITS_ACTIVATION_GELU_TANH;
    case GGML_GLU_OP_GEGLU_ERF: return SAMEBITS_ACTIVATION_GELU;
    case GGML_GLU_OP_GEGLU_QUICK: return SAMEBITS_ACTIVATION_GELU_QUICK;
    case GGML_GLU_OP_SWIGLU: return SAMEBITS_ACTIVATION_SILU;
    default: return SAMEBITS_ACTIVATION_NONE;
    }
}

static bool supports_glu(const struct ggml_tensor *op)
{
    return sbg_is_float(op->type) && op->src[0]->type == op->type && glu_of(op) != SAMEBITS_ACTIVATION_NONE;
}

static samebits_status glu(sbg_backend *backend, struct ggml_tensor *op)
{
    const bool swapped = int_param(op, 1) != 0;
    sbg_view x, y, out;
    sbg_view_of(op->src[0], &x);
    sbg_view_of(op->src[1] ? op->src[1] : op->src[0], &y);
    sbg_view_of(op, &out);
    if (!op->src[1]) {
        const uint64_t half = (uint64_t)op->ne[0] * op->src[0]->nb[0];
        x.shape[3] = y.shape[3] = op->ne[0];
        x.tensor.byte_offset = swapped ? half : 0;
        y.tensor.byte_offset = swapped ? 0 : half;
    }
    return samebits_gated(backend->samebits, &x.tensor, &y.tensor, glu_of(op), &out.tensor);
}

/* --- SCALE --- */

static bool supports_scale(const struct ggml_tensor *op)
{
    return op->type == GGML_TYPE_F32 && op->src[0]->type == GGML_TYPE_F32;
}

static samebits_status scale(sbg_backend *backend, struct ggml_tensor *op)
{
    const float bias = sbg_param(op, 1);
    sbg_view x, out;
    sbg_view_of(op->src[0], &x);
    sbg_view_of(op, &out);
    /* ggml's scale without a bias has +0 there; -0 keeps the product's zeros. */
    return samebits_scale(backend->samebits, &x.tensor, sbg_param(op, 0), bias == 0 ? -0.0f : bias, &out.tensor);
}

const sbg_op sbg_elementwise[] = {
    {GGML_OP_ADD, supports_binary, binary}, {GGML_OP_SUB, supports_binary, binary},
    {GGML_OP_MUL, supports_binary, binary}, {GGML_OP_DIV, supports_binary, binary},
    {GGML_OP_UNARY, supports_unary, unary}, {GGML_OP_GLU, supports_glu, glu},
    {GGML_OP_SCALE, supports_scale, scale},
};
const int sbg_elementwise_count = sizeof sbg_elementwise / sizeof *sbg_elementwise;
