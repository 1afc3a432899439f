/* Stock libraries, found by dlopen: live negative controls for verify, peers for bench. */
#ifndef STOCK_H
#define STOCK_H

#include "tensor.h"

typedef struct stock stock;
struct stock {
    char *name; /* "OpenBLAS 0.3.34", or "built-in naive" */
    /* out (M, N) = x (M, K) w^T, w (N, K), all contiguous. */
    void (*linear)(const stock *s, int64_t m, int64_t n, int64_t k, const float *x, const float *w, float *out);
    /* The same of f64 or complex64; NULL: it has no such products. */
    void (*linear_wide)(const stock *s, dtype type, int64_t m, int64_t n, int64_t k, const void *x, const void *w,
                        void *out);
    /* The same of bf16, out f32; NULL: it has none. */
    void (*linear_bf16)(const stock *s, int64_t m, int64_t n, int64_t k, const uint16_t *x, const uint16_t *w,
                        float *out);
    void (*set_threads)(const stock *s, int threads);        /* NULL: it has no such call */
    void *library, *sgemm, *dgemm, *cgemm, *bgemm, *threads; /* itself, and its own functions */
};

/* Opens what the system has, and `path` (a list separated by ':') if not NULL; ends the program if a path
 * given holds none. *list gets the libraries; returns their number. Never frees them. */
int stock_open(const char *path, stock **list);
/* Kernels chosen by the number of rows, as many libraries do; it always moves. */
extern const stock stock_naive;
/* What to do if none is found. */
extern const char stock_hint[];

#endif
