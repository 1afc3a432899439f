/* The ops this backend takes, and how each is handed to samebits. */
#include "plugin.h"

/* A packed weight may be read as the first operand of a product or a table only, a stack of them as experts. */
static bool reads_packed(const struct ggml_tensor *op)
{
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor *src = op->src[i];
        if (!src) continue;
        const struct ggml_tensor *owner = src->view_src ? src->view_src : src;
        if (!owner->buffer || !sbg_is_our_type(owner->buffer->buft)) continue;
        const bool reads_one = op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_GET_ROWS;
        const bool is_weight = i == 0 && (op->op == GGML_OP_MUL_MAT_ID || (reads_one && src->ne[2] == 1));
        if (!is_weight || !sbg_packable(src)) return true;
    }
    return false;
}

/* --- RMS_NORM, NORM --- */

static bool supports_norm(const struct ggml_tensor *op)
{
    return op->src[0]->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32;
}

static samebits_status rms_norm(sbg_backend *backend, struct ggml_tensor *op)
{
    sbg_view in, out;
    sbg_view_of(op->src[0], &in);
    sbg_view_of(op, &out);
    return samebits_rms_norm(backend->samebits, &in.tensor, NULL, sbg_param(op, 0), &out.tensor);
}

static samebits_status layer_norm(sbg_backend *backend, struct ggml_tensor *op)
{
    sbg_view in, out;
    sbg_view_of(op->src[0], &in);
    sbg_view_of(op, &out);
    return samebits_layer_norm(backend->samebits, &in.tensor, NULL, NULL, sbg_param(op, 0), &out.tensor);
}

static const sbg_op norm_ops[] = {{GGML_OP_RMS_NORM, supports_norm, rms_norm},
                                  {GGML_OP_NORM, supports_norm, layer_norm}};

static const sbg_op *const ops[] = {&sbg_mul_mat, &sbg_mul_mat_id, &sbg_get_rows, &sbg_attention,
                                    &sbg_softmax, &sbg_rope,       &norm_ops[0],  &norm_ops[1]};

/* The entry of an op; NULL for one that is not taken. */
static const sbg_op *find(enum ggml_op op)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i]->op == op) return ops[i];
    for (int i = 0; i < sbg_elementwise_count; i++)
        if (sbg_elementwise[i].op == op) return &sbg_elementwise[i];
    return NULL;
}

bool sbg_supports(const struct ggml_tensor *op)
{
    switch (op->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE: return true;
    default: break;
    }
    const sbg_op *entry = find(op->op);
    return entry && entry->supports(op) && !reads_packed(op);
}

samebits_status sbg_compute(sbg_backend *backend, struct ggml_tensor *op)
{
    const sbg_op *entry = find(op->op);
    return entry ? entry->compute(backend, op) : SAMEBITS_OK; /* views compute nothing */
}

bool sbg_stock_moves(enum ggml_op op)
{
    /* Element by element, or row by row in an order that only the row's length decides. What is not listed
     * may split or block its sums by the batch. */
    switch (op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
    case GGML_OP_DUP:
    case GGML_OP_CPY:
    case GGML_OP_CONT:
    case GGML_OP_CONCAT:
    case GGML_OP_REPEAT:
    case GGML_OP_PAD:
    case GGML_OP_ROLL:
    case GGML_OP_SET:
    case GGML_OP_FILL:
    case GGML_OP_TRI:
    case GGML_OP_ARANGE:
    case GGML_OP_GET_ROWS:
    case GGML_OP_SET_ROWS:
    case GGML_OP_DIAG:
    case GGML_OP_DIAG_MASK_INF:
    case GGML_OP_DIAG_MASK_ZERO:
    case GGML_OP_ADD:
    case GGML_OP_ADD1:
    case GGML_OP_ADD_ID:
    case GGML_OP_ACC:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV:
    case GGML_OP_SQR:
    case GGML_OP_SQRT:
    case GGML_OP_LOG:
    case GGML_OP_SIN:
    case GGML_OP_COS:
    case GGML_OP_SCALE:
    case GGML_OP_CLAMP:
    case GGML_OP_UNARY:
    case GGML_OP_GLU:
    case GGML_OP_LEAKY_RELU:
    case GGML_OP_ROPE:
    case GGML_OP_NORM:
    case GGML_OP_RMS_NORM:
    case GGML_OP_L2_NORM:
    case GGML_OP_SUM_ROWS:
    case GGML_OP_MEAN:
    case GGML_OP_ARGMAX:
    case GGML_OP_ARGSORT:
    case GGML_OP_TOP_K: return false;
    default: return true;
    }
}
