/* A matrix product as the engine runs it: out = epilogue(x @ w^T), in batches. */
#ifndef SB_PRODUCT_H
#define SB_PRODUCT_H

#include <samebits/matmul.h>

#include "base/context.h"
#include "formats/formats.h"
#include "kernels/epilogue/epilogue.h"
#include "ops/tensor.h"

typedef struct sb_epilogue {
    double alpha, beta;
    int has_c, has_bias;
    sb_view c;    /* broadcast to out */
    sb_view bias; /* (N) */
    samebits_activation activation;
} sb_epilogue;

typedef struct sb_product {
    sb_view x;   /* (batch..., M, K), broadcast to out's batch dims */
    sb_view out; /* (batch..., M, N) */
    int64_t batches, m, n, k;
    const int64_t *row_map;          /* NULL, or with one batch: which row of x, c and out each of the m rows is */
    const samebits_weights *weights; /* prepared, shared by all batches; or NULL */
    sb_rows rows;                    /* else: the rows of w of batch 0 */
    sb_view w; /* else: w as (batch..., N, K), broadcast; its batch dims say where the other rows lie */
    samebits_order order;
    sb_epilogue epilogue;
} sb_product;

/* Checks an epilogue against a product's output. epilogue may be NULL.
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, PARAM. */
samebits_status sb_epilogue_of(const samebits_epilogue *epilogue, const sb_view *out, sb_epilogue *checked);

/* Checks and runs x (..., K) @ w^T, where p describes the weights (n, k), all but the product's shapes. p->w is w as a
 * tensor, if they are not prepared. Errors: as samebits_linear_prepared. */
samebits_status sb_weights_product(samebits_context *context, sb_product *p, int64_t n, int64_t k, const DLTensor *x,
                                   const samebits_epilogue *epilogue, const DLTensor *out);

/* Runs a product whose arguments have been checked. Errors: OVERFLOW, MEMORY, ORDER. */
samebits_status sb_product_run(const samebits_context *context, const sb_product *product);
/* The same in two parts, for ops of several products: how much memory it needs, and the run in it, which cannot fail.
 * Errors of the first: OVERFLOW, ORDER. */
samebits_status sb_product_size(const samebits_context *context, const sb_product *product, int64_t *size);
void sb_product_run_in(const samebits_context *context, const sb_product *product, char *memory);

/* The row of x, c and out that row `row` of a batch is. */
SB_INLINE int64_t sb_product_row(const sb_product *p, int64_t batch, int64_t row)
{
    return p->row_map ? p->row_map[row] : batch * p->m + row;
}

/* Applies the epilogue to acc, the sums of rows [row, row + rows) and columns [col, col + cols) of a batch. */
void sb_epilogue_store(const sb_epilogue_row *kernel, const sb_product *product, int64_t batch, int64_t row,
                       int64_t rows, int64_t col, int64_t cols, const float *acc, int64_t acc_stride);

#endif
