/* The stock controls of samebits verify: the same question, asked of libraries that make no promise. */
#include <stdlib.h>
#include <string.h>

#include "stock.h"
#include "table.h"
#include "verify.h"

enum { K = 2048, N = 1024, M = 64 };

typedef struct inputs {
    float *x, *w, *alone, *batch;
} inputs;

static int64_t differing(const float *a, const float *b, int64_t count)
{
    int64_t differ = 0;
    for (int64_t i = 0; i < count; i++) differ += memcmp(a + i, b + i, sizeof *a) != 0;
    return differ;
}

/* Rows alone against the same rows in batches of several heights. */
static control try_batch(const stock *s, const inputs *in)
{
    static const int64_t heights[] = {2, 3, 4, 5, 8, 9, 16, 33, 64};
    control c = {cli_text("%s", s->name), "sgemm", "batch", 0, 0};
    for (size_t i = 0; i < CLI_COUNT(heights); i++) {
        const int64_t row = heights[i] / 2;
        s->linear(s, 1, N, K, in->x + row * K, in->w, in->alone);
        s->linear(s, heights[i], N, K, in->x, in->w, in->batch);
        c.differing += differing(in->alone, in->batch + row * N, N);
        c.cases++;
    }
    return c;
}

static control try_threads(const stock *s, const inputs *in)
{
    static const int64_t heights[] = {1, 8, 64};
    control c = {cli_text("%s", s->name), "sgemm", "threads", 0, 0};
    for (size_t i = 0; i < CLI_COUNT(heights); i++) {
        s->set_threads(s, 1);
        s->linear(s, heights[i], N, K, in->x, in->w, in->alone);
        s->set_threads(s, 2);
        s->linear(s, heights[i], N, K, in->x, in->w, in->batch);
        c.differing += differing(in->alone, in->batch, heights[i] * N);
        c.cases++;
    }
    s->set_threads(s, 1);
    return c;
}

int verify_controls(const verify *v, const stock *list, int libraries, control **controls)
{
    rng r = {v->seed};
    inputs in = {cli_alloc(M * K * sizeof(float)), cli_alloc(N * K * sizeof(float)), cli_alloc(M * N * sizeof(float)),
                 cli_alloc(M * N * sizeof(float))};
    for (int64_t i = 0; i < M * K; i++) in.x[i] = bits_to_f32(T_F32, rng_f32_bits(&r, 4));
    for (int64_t i = 0; i < N * K; i++) in.w[i] = bits_to_f32(T_F32, rng_f32_bits(&r, 4));
    int count = 0;
    *controls = cli_alloc((size_t)(2 * libraries + 1) * sizeof **controls);
    for (int i = 0; i < libraries; i++) {
        if (!v->json) progress(i, libraries, "control: %s", list[i].name);
        if (list[i].set_threads) list[i].set_threads(&list[i], 1);
        (*controls)[count++] = try_batch(&list[i], &in);
        if (list[i].set_threads) (*controls)[count++] = try_threads(&list[i], &in);
    }
    (*controls)[count++] = try_batch(&stock_naive, &in);
    progress_end();
    free(in.x);
    free(in.w);
    free(in.alone);
    free(in.batch);
    return count;
}
