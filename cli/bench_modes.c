/* What modes cost: one product without a mode, without a limit, and with a limit above which stock computes. */
#include <stdlib.h>

#include "bench.h"
#include "table.h"

typedef struct call {
    samebits_context *context;
    int64_t limit; /* 0: no mode */
    const tensor *x, *w;
    tensor *out;
} call;

static void run(void *arg)
{
    const call *c = arg;
    samebits_mode_params mode;
    samebits_mode_params_default(&mode);
    mode.limit = c->limit;
    if (c->limit) cli_check(samebits_mode_begin(&mode), "samebits_mode_begin");
    cli_check(samebits_linear(c->context, &c->x->dl, &c->w->dl, NULL, &c->out->dl), "samebits_linear");
    if (c->limit) cli_check(samebits_mode_end(), "samebits_mode_end");
}

/* A stock library's sgemm as modes want it: f32, b the transpose of rows that lie one after another. */
static samebits_status product(void *user, const DLTensor *a, const DLTensor *b, DLTensor *out)
{
    const stock *s = user;
    const int64_t m = a->shape[0], k = b->shape[0], n = b->shape[1];
    if (a->ndim != 2 || b->ndim != 2 || a->dtype.bits != 32 || b->dtype.bits != 32 || out->dtype.bits != 32 ||
        b->strides[0] != 1 || b->strides[1] != k || a->strides[0] != k || out->strides[0] != n)
        return SAMEBITS_ERR_UNSUPPORTED;
    s->linear(s, m, n, k, (const float *)((const char *)a->data + a->byte_offset),
              (const float *)((const char *)b->data + b->byte_offset), (float *)((char *)out->data + out->byte_offset));
    return SAMEBITS_OK;
}

static void line(bench *b, const call *ours, const tensor *x, tensor *out, int64_t limit)
{
    static const char *const names[] = {"samebits, unlimited", "no mode", "stock above the limit"};
    const int64_t m = x->shape[0], k = x->shape[1], n = out->shape[1];
    bench_line *l = bench_add(
        b, "linear", "f32, modes", SAMEBITS_ORDER_PORTABLE_1,
        cli_text("%lld x %lld x %lld, limit %lld", (long long)m, (long long)k, (long long)n, (long long)limit));
    call calls[3];
    for (int i = 0; i < (b->stock_count ? 3 : 2); i++) {
        calls[i] = *ours;
        calls[i].x = x;
        calls[i].out = out;
        calls[i].limit = i == 0 ? SAMEBITS_UNLIMITED : i == 1 ? 0 : limit;
        bench_join(l, names[i], run, &calls[i]);
    }
    l->flops = 2.0 * (double)(m * k * n);
    l->bytes = (double)(k * n) * sizeof(float);
    bench_time(b, l);
}

void bench_modes(bench *b)
{
    static const int64_t heights[] = {1, 8, 64, 512};
    if (!bench_wants(b, "f32, modes")) return;
    const int64_t size = b->quick ? 1024 : 4096, limit = samebits_limit() ? samebits_limit() : 8;
    rng r = {9};
    tensor x, w, out;
    samebits_options options;
    samebits_options_default(&options);
    options.threads = b->threads;
    if (b->stock_count) {
        options.stock = product;
        options.stock_user = &b->stocks[0];
        if (b->stocks[0].set_threads) b->stocks[0].set_threads(&b->stocks[0], b->threads);
    }
    call ours = {.w = &w};
    cli_check(samebits_create(&ours.context, &options), "samebits_create");
    tensor_make2(&w, T_F32, LAYOUT_PLAIN, size, size);
    tensor_fill(&w, FILL_UNIT, &r);
    for (size_t i = 0; i < CLI_COUNT(heights); i++) {
        tensor_make2(&x, T_F32, LAYOUT_PLAIN, heights[i], size);
        tensor_make2(&out, T_F32, LAYOUT_PLAIN, heights[i], size);
        tensor_fill(&x, FILL_UNIT, &r);
        line(b, &ours, &x, &out, limit);
        tensor_free(&x);
        tensor_free(&out);
    }
    tensor_free(&w);
    samebits_destroy(&ours.context);
}
