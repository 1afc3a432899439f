#include "op.h"

#include <stdlib.h>
#include <string.h>

#include "plain.h"

static samebits_status run_matmul(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    /* w lies as (N, K); matmul wants (K, N): the same memory seen transposed. */
    tensor b;
    tensor_slice(&b, &p->w, 0, 0, p->n);
    b.shape[0] = p->k;
    b.shape[1] = p->n;
    b.stride[0] = p->w.stride[1];
    b.stride[1] = p->w.stride[0];
    return samebits_matmul(context, x, &b.dl, &p->epilogue, out);
}

static samebits_status run_addmm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out)
{
    tensor b;
    tensor_slice(&b, &p->w, 0, 0, p->n);
    b.shape[0] = p->k;
    b.shape[1] = p->n;
    b.stride[0] = p->w.stride[1];
    b.stride[1] = p->w.stride[0];
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

#define PORTABLE SAMEBITS_ORDER_PORTABLE_1
#define FLOATS(name, form, type, out, flags, run)                                                                      \
    {                                                                                                                  \
        name, form, T_##type, T_##type, T_##out, PORTABLE, SAMEBITS_FORMAT_##type, OP_HAS_N | (flags),                 \
            SAMEBITS_ACTIVATION_NONE, run, plain_product                                                               \
    }

const op ops[] = {
    FLOATS("matmul", "f32", F32, F32, OP_CONTROL, run_matmul),
    FLOATS("matmul", "f16", F16, F16, 0, run_matmul),
    FLOATS("matmul", "bf16", BF16, BF16, 0, run_matmul),
    FLOATS("matmul", "f16-f32", F16, F32, 0, run_matmul),
    FLOATS("matmul", "bf16-f32", BF16, F32, 0, run_matmul),
    FLOATS("addmm", "f32", F32, F32, OP_EPILOGUE, run_addmm),
    FLOATS("linear", "f32", F32, F32, 0, run_linear),
    FLOATS("linear", "f16", F16, F16, 0, run_linear),
    FLOATS("linear", "bf16", BF16, BF16, 0, run_linear),
    FLOATS("linear_prepared", "f32", F32, F32, OP_PREPARED, run_prepared),
    FLOATS("linear_prepared", "f16", F16, F16, OP_PREPARED, run_prepared),
    FLOATS("linear_prepared", "bf16", BF16, BF16, OP_PREPARED, run_prepared),
};
const int op_count = CLI_COUNT(ops);

int op_present(const op *o)
{
    rng r = {1};
    problem p;
    problem_make(&p, o, 32, 16, &r);
    tensor x, out;
    tensor_make2(&x, o->x, LAYOUT_PLAIN, 1, p.k);
    tensor_make2(&out, o->out, LAYOUT_PLAIN, 1, p.n);
    tensor_fill(&x, FILL_UNIT, &r);
    const samebits_status status = o->run(&p, cli_context(SAMEBITS_CPU_SCALAR, 1), &x.dl, &out.dl);
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

void problem_make(problem *p, const op *o, int64_t k, int64_t n, rng *r)
{
    const int64_t block = CLI_MAX(samebits_format_block(o->format), 1);
    memset(p, 0, sizeof *p);
    p->op = o;
    p->k = (k + block - 1) / block * block;
    p->n = o->flags & OP_HAS_N ? n : p->k;
    make_epilogue(p, r);
    if (!(o->flags & OP_HAS_N)) return;
    tensor_make2(&p->w, o->w, LAYOUT_PLAIN, p->n, p->k);
    tensor_fill(&p->w, FILL_SPREAD, r);
    p->wide = cli_alloc((size_t)(p->n * p->k) * sizeof(float));
    for (int64_t row = 0; row < p->n; row++) tensor_row(&p->w, row, p->wide + row * p->k);
    if (o->flags & OP_PREPARED)
        cli_check(samebits_weights_prepare(cli_context(SAMEBITS_CPU_AUTO, 1), &p->w.dl, o->format, NULL, &p->prepared),
                  "samebits_weights_prepare");
}

void problem_free(problem *p)
{
    tensor_free(&p->w);
    tensor_free(&p->bias);
    tensor_free(&p->c);
    samebits_weights_destroy(&p->prepared);
    free(p->wide);
}
