/* Weights as an op receives them. */
#ifndef SB_OPS_WEIGHTS_H
#define SB_OPS_WEIGHTS_H

#include "base/context.h"
#include "formats/formats.h"
#include "ops/tensor.h"

/* Checks a tensor of weights, `name` in messages, and describes its rows. Errors: as samebits_weights_prepare. */
samebits_status sb_rows_of(const DLTensor *w, const char *name, samebits_format format, sb_rows *rows, sb_view *view);

/* The same for the three tensors of affine weights: n rows of k. Errors: as samebits_weights_prepare_affine. */
samebits_status sb_affine_rows_of(const DLTensor *w, const DLTensor *scales, const DLTensor *biases, int bits,
                                  int group, sb_rows *rows, sb_view *scale, sb_view *bias);
/* And for the two of MLX's floats. Errors: as samebits_weights_prepare_scaled. */
samebits_status sb_scaled_rows_of(const DLTensor *w, const DLTensor *scales, samebits_format format, sb_rows *rows,
                                  sb_view *scale);

/* Bytes of the panels of n rows. Errors: FORMAT, PARAM, OVERFLOW. */
samebits_status sb_weights_bytes(samebits_format format, sb_group group, int64_t n, int64_t k, size_t *bytes);
/* Makes *weights, packed into storage if that is not NULL. Errors: FORMAT, PARAM, OVERFLOW, MEMORY. */
samebits_status sb_weights_make(samebits_context *context, const sb_rows *rows, void *storage,
                                samebits_weights **weights);

#endif
