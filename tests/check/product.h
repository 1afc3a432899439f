/* Runs a row of a table of product kernels as the engine would. */
#ifndef SB_CHECK_PRODUCT_H
#define SB_CHECK_PRODUCT_H

#include "formats/product.h"

/* args.x are plain f32 rows of k, packed here for the row; args.tile is the row's. NaN results become the canonical one
 * (which NaN it is does not count: the epilogue stores one), but for the padding's, which is of another kind: -1. */
void check_run_product(const sb_matmul_row *row, sb_matmul_args args);

/* Panels filled with anything become what packing may write: zeros beside the last step of an odd k. */
void check_end_panels(samebits_format format, int64_t k, int64_t panels, void *w);

#endif
