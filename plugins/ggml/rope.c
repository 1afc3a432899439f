/* ROPE: x (D, H, L, B), position (L) or (4 L), factor (dims / 2). */
#include "plugin.h"

enum {
    DIMS = 1,
    MODE = 2,
    CONTEXT = 4,
    BASE,
    SCALE,
    EXTRAPOLATION,
    MAGNITUDE,
    BETA_FAST,
    BETA_SLOW,
    SECTIONS,
    FIRST = 15
};

static bool has_sections(const struct ggml_tensor *op) { return (op->op_params[MODE] & GGML_ROPE_TYPE_MROPE) != 0; }

static void params_of(const struct ggml_tensor *op, samebits_rope_params *p)
{
    const int32_t *n = op->op_params;
    samebits_rope_params_default(p);
    p->layout = n[MODE] == GGML_ROPE_TYPE_NORMAL ? SAMEBITS_ROPE_INTERLEAVED : SAMEBITS_ROPE_HALVES;
    p->dims = n[DIMS];
    p->first = n[FIRST];
    p->base = sbg_param(op, BASE);
    p->scale = sbg_param(op, SCALE);
    p->extrapolation = sbg_param(op, EXTRAPOLATION);
    p->magnitude = sbg_param(op, MAGNITUDE);
    p->beta_fast = sbg_param(op, BETA_FAST);
    p->beta_slow = sbg_param(op, BETA_SLOW);
    p->original_context = n[CONTEXT];
    if (!has_sections(op)) return;
    p->sections = n[MODE] == GGML_ROPE_TYPE_IMROPE ? SAMEBITS_ROPE_SECTIONS_CYCLIC : SAMEBITS_ROPE_SECTIONS_BLOCKS;
    for (int i = 0; i < 4; i++) p->section[i] = n[SECTIONS + i];
}

static bool supports_rope(const struct ggml_tensor *op)
{
    const struct ggml_tensor *x = op->src[0], *factor = op->src[2];
    switch (op->op_params[MODE]) {
    case GGML_ROPE_TYPE_NORMAL:
    case GGML_ROPE_TYPE_NEOX:
    case GGML_ROPE_TYPE_MROPE:
    case GGML_ROPE_TYPE_IMROPE: break;
    default: return false; /* vision: its sections count from their own start */
    }
    if (sbg_param(op, EXTRAPOLATION) != 0 && op->op_params[CONTEXT] < 1) return false;
    return (op->type == GGML_TYPE_F32 || op->type == GGML_TYPE_F16) && x->type == op->type &&
           op->src[1]->type == GGML_TYPE_I32 && (!factor || factor->type == GGML_TYPE_F32);
}

static void ints_of(const struct ggml_tensor *tensor, int64_t sets, int64_t length, sbg_view *view)
{
    view->tensor = (DLTensor){.data = tensor->data,
                              .device = {kDLCPU, 0},
                              .ndim = sets > 1 ? 2 : 1,
                              .dtype = {kDLInt, 32, 1},
                              .shape = view->shape + (sets > 1 ? 0 : 1),
                              .strides = view->stride + (sets > 1 ? 0 : 1)};
    view->shape[0] = sets;
    view->shape[1] = length;
    view->stride[0] = length;
    view->stride[1] = 1;
}

static samebits_status rope(sbg_backend *backend, struct ggml_tensor *op)
{
    const struct ggml_tensor *factor = op->src[2];
    sbg_view x, position, factors, out;
    samebits_rope_params p;
    params_of(op, &p);
    sbg_view_of(op->src[0], &x);
    sbg_view_of(op, &out);
    sbg_swap_dims(&x, 1, 2); /* samebits has the places next to the elements */
    sbg_swap_dims(&out, 1, 2);
    ints_of(op->src[1], has_sections(op) ? 4 : 1, op->ne[2], &position);
    if (factor) {
        sbg_vector_of(factor->data, p.dims / 2, &factors);
        p.factor = &factors.tensor;
    }
    return samebits_rope(backend->samebits, &x.tensor, &position.tensor, &p, &out.tensor);
}

const sbg_op sbg_rope = {GGML_OP_ROPE, supports_rope, rope};
