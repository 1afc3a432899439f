/* The ops that work on rows alone, as the table in op.c runs them. */
#include "op_rows.h"

#include <stdlib.h>
#include <string.h>

#include "plain.h"

/* Ops that want x and out, and no more of a problem than its shape. */
#define ROWS(name, call)                                                                                               \
    samebits_status run_##name(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)          \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        return call;                                                                                                   \
    }

ROWS(softmax, samebits_softmax(context, x, NULL, out))
ROWS(log_softmax, samebits_log_softmax(context, x, out))
ROWS(logsumexp, samebits_logsumexp(context, x, out))
ROWS(l2_norm, samebits_l2_norm(context, x, NORM_EPS, out))
ROWS(sum, samebits_sum(context, x, out))
ROWS(mean, samebits_mean(context, x, out))
ROWS(max, samebits_max(context, x, out))
ROWS(argmax, samebits_argmax(context, x, out))
ROWS(top_k, samebits_top_k(context, x, out, NULL)) /* as many as out has columns, sorted */

samebits_status run_rms_norm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return samebits_rms_norm(context, x, &p->w.dl, NORM_EPS, out);
}

samebits_status run_layer_norm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return samebits_layer_norm(context, x, &p->w.dl, &p->bias.dl, NORM_EPS, out);
}

/* Each row a sample of K channels; rows in batches one batch after the other. */
samebits_status run_group_norm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    if (x->ndim == 2) return samebits_group_norm(context, x, group_count(p), &p->w.dl, &p->bias.dl, NORM_EPS, out);
    for (int64_t i = 0; i < x->shape[0]; i++) {
        DLTensor in = *x, to = *out;
        in.byte_offset += (uint64_t)(i * x->strides[0] * (x->dtype.bits / 8));
        to.byte_offset += (uint64_t)(i * out->strides[0] * (out->dtype.bits / 8));
        in.ndim = to.ndim = x->ndim - 1;
        in.shape++;
        in.strides++;
        to.shape++;
        to.strides++;
        const samebits_status status = run_group_norm(p, context, &in, &to);
        if (status) return status;
    }
    return SAMEBITS_OK;
}

/* The residual of all rows is the problem's bias. */
samebits_status run_add_rms_norm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    int64_t strides[TENSOR_DIMS] = {0}, rows = 1;
    for (int i = 0; i + 1 < x->ndim; i++) rows *= x->shape[i];
    strides[x->ndim - 1] = 1;
    DLTensor residual = p->bias.dl, sum = *x;
    residual.ndim = x->ndim;
    residual.shape = x->shape;
    residual.strides = strides;
    sum.data = cli_alloc((size_t)(rows * p->k) * 4);
    sum.byte_offset = 0;
    sum.strides = NULL;
    const samebits_status status = samebits_add_rms_norm(context, x, &residual, &p->w.dl, NORM_EPS, &sum, out);
    free(sum.data);
    return status;
}

/* The same token in all rows, which are not to differ in anything but x. */
static samebits_status of_token(samebits_status (*run)(samebits_context *, const DLTensor *, const DLTensor *,
                                                       DLTensor *),
                                const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    int32_t at = (int32_t)token_of(p);
    int64_t strides[TENSOR_DIMS] = {0};
    const DLTensor token = {.data = &at,
                            .device = {kDLCPU, 0},
                            .ndim = x->ndim - 1,
                            .dtype = {kDLInt, 32, 1},
                            .shape = x->shape,
                            .strides = strides};
    return run(context, x, &token, out);
}

samebits_status run_log_likelihood(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return of_token(samebits_log_likelihood, p, context, x, out);
}

samebits_status run_cross_entropy(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return of_token(samebits_cross_entropy, p, context, x, out);
}

int64_t table_row_of(float first)
{
    uint32_t bits;
    memcpy(&bits, &first, sizeof bits);
    return (bits ^ bits >> 15) % TABLE_ROWS;
}

samebits_status run_embedding(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    const int dims = x->ndim - 1;
    int64_t rows = 1;
    for (int i = 0; i < dims; i++) rows *= x->shape[i];
    int32_t *ids = cli_alloc((size_t)rows * sizeof *ids);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = 0, rest = r;
        for (int i = dims - 1; i >= 0; rest /= x->shape[i], i--) at += rest % x->shape[i] * x->strides[i];
        float first;
        memcpy(&first, (const char *)x->data + x->byte_offset + at * 4, sizeof first);
        ids[r] = (int32_t)table_row_of(first);
    }
    const DLTensor id = {.data = ids, .device = {kDLCPU, 0}, .ndim = dims, .dtype = {kDLInt, 32, 1}, .shape = x->shape};
    const samebits_status status = p->prepared ? samebits_embedding_prepared(context, p->prepared, &id, out)
                                               : samebits_embedding(context, &p->w.dl, p->op->format, &id, out);
    free(ids);
    return status;
}

void sampling_of(const problem *p, samebits_sampling_params *params, uint32_t noise[4])
{
    samebits_sampling_params_default(params);
    for (int i = 0; i < 4; i++) noise[i] = (uint32_t)(p->k + 1) * (0x9E3779B9u + 2u * (uint32_t)i);
    if (!(p->op->flags & OP_FILTERS)) return;
    params->temperature = 3.0f;
    params->top_k = CLI_MIN(20, p->k);
    params->top_p = 0.95f;
    params->min_p = 0.001f;
}

samebits_status run_sample(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    samebits_sampling_params params;
    uint32_t words[4];
    int64_t shape[TENSOR_DIMS] = {0}, strides[TENSOR_DIMS] = {0};
    sampling_of(p, &params, words);
    for (int i = 0; i + 1 < x->ndim; i++) shape[i] = x->shape[i];
    shape[x->ndim - 1] = 4;
    strides[x->ndim - 1] = 1;
    const DLTensor noise = {.data = words,
                            .device = {kDLCPU, 0},
                            .ndim = x->ndim,
                            .dtype = {kDLUInt, 32, 1},
                            .shape = shape,
                            .strides = strides};
    return samebits_sample(context, x, &params, &noise, out);
}
