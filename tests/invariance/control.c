/* The negative control: a plain product whose sum is split by the number of rows, threads, strides, CPU level
 * and thread, which lets its neighbours in and keeps the caller's floating-point environment. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "rows.h"

static pthread_t main_thread;

static int64_t split_of(const samebits_context *context, const DLTensor *x, const DLTensor *out)
{
    int64_t split = 1;
    split += x->shape[0] > 1;
    split += samebits_context_threads(context) > 1;
    split += samebits_context_cpu(context) == SAMEBITS_CPU_SCALAR;
    split += x->byte_offset || out->byte_offset;
    split += x->strides[1] != 1 || out->strides[1] != 1;
    split += x->strides[0] != x->shape[1] || out->strides[0] != out->shape[1];
    split += omp_in_parallel();
    split += !pthread_equal(pthread_self(), main_thread);
    return split;
}

static samebits_status run(const row_op *op, samebits_context *context, DLTensor *x, DLTensor *out)
{
    const float *a = (const float *)((char *)x->data + x->byte_offset), *w = op->w->data;
    float *o = (float *)((char *)out->data + out->byte_offset);
    const int64_t k = op->width_in, n = op->width_out, split = split_of(context, x, out);
    for (int64_t r = 0; r < x->shape[0]; r++)
        for (int64_t c = 0; c < n; c++) {
            float total = 0.0f;
            for (int64_t s = 0; s < split; s++) {
                float part = 0.0f;
                for (int64_t i = s; i < k; i += split) part += a[r * x->strides[0] + i * x->strides[1]] * w[i * n + c];
                total += part;
            }
            const int64_t next = (r + 1) % x->shape[0];
            total += 0.0f * a[next * x->strides[0]];
            o[r * out->strides[0] + c * out->strides[1]] = total;
        }
    return SAMEBITS_OK;
}

void control_op(row_op *op)
{
    test_rng rng = {31};
    main_thread = pthread_self();
    test_tensor *w = TENSOR(TEST_F32, 131, 7);
    test_random_small(w, &rng);
    *op = (row_op){.name = "control",
                   .in = TEST_F32,
                   .out = TEST_F32,
                   .width_in = 131,
                   .width_out = 7,
                   .max_rows = 300,
                   .run = run,
                   .w = &w->dl,
                   .is_control = 1};
}
