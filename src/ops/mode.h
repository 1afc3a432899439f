/* What modes mean for a product (samebits/mode.h). */
#ifndef SB_MODE_H
#define SB_MODE_H

#include "ops/product.h"

/* Offers a product whose arguments have been checked to the context's stock, if it has more rows than the limit.
 * Returns whether stock has computed it. */
int sb_mode_offer(const samebits_context *context, const sb_product *product);

/* What becomes of a product out = epilogue(a @ b), b transposed if `transposed`, that ended with `status`: where the
 * library has no row for its dtypes, a strict mode refuses it, and another offers it to stock. Else `status`. */
samebits_status sb_mode_without_row(const samebits_context *context, samebits_status status, const DLTensor *a,
                                    const DLTensor *b, int transposed, const samebits_epilogue *epilogue,
                                    DLTensor *out);

#endif
