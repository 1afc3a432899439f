/* A matrix product whose rows do not depend on the batch: a row alone and the same row among 1,000. */
#include <samebits/samebits.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 1000, K = 768, N = 512 };

static DLTensor matrix(float *data, int64_t shape[2])
{
    DLTensor t = {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
    return t; /* no strides: row-major */
}

int main(void)
{
    float *x = malloc(sizeof(float) * M * K), *w = malloc(sizeof(float) * K * N), *out = malloc(sizeof(float) * M * N);
    float alone[N];
    if (!x || !w || !out) return 2;
    for (int i = 0; i < M * K; i++) x[i] = (float)(rand() % 2001 - 1000) / 997.0f;
    for (int i = 0; i < K * N; i++) w[i] = (float)(rand() % 2001 - 1000) / 991.0f;

    samebits_context *context;
    if (samebits_create(&context, NULL)) return fprintf(stderr, "%s\n", samebits_last_error()), 2;
    int64_t many[2] = {M, K}, weights[2] = {K, N}, result[2] = {M, N}, one[2] = {1, K}, one_result[2] = {1, N};
    DLTensor a = matrix(x, many), b = matrix(w, weights), c = matrix(out, result);
    if (samebits_matmul(context, &a, &b, NULL, &c)) return fprintf(stderr, "%s\n", samebits_last_error()), 2;

    int moved = 0;
    for (int row = 0; row < M; row += 37) {
        DLTensor a1 = matrix(x + row * K, one), c1 = matrix(alone, one_result);
        if (samebits_matmul(context, &a1, &b, NULL, &c1)) return fprintf(stderr, "%s\n", samebits_last_error()), 2;
        moved += memcmp(alone, out + row * N, sizeof alone) != 0;
    }
    printf("%d of %d rows differ between alone and in a batch of %d\n", moved, (M + 36) / 37, M);
    samebits_destroy(&context);
    return free(x), free(w), free(out), moved != 0;
}
