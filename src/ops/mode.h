/* What modes mean for a product (samebits/mode.h). */
#ifndef SB_MODE_H
#define SB_MODE_H

#include "ops/product.h"

/* Offers a product whose arguments have been checked to the context's stock, if it has more rows than the limit.
 * Returns whether stock has computed it. */
int sb_mode_offer(const samebits_context *context, const sb_product *product);

/* Whether this thread is in a mode. */
int sb_mode_is_on(void);

/* What becomes of a product in a mode whose arguments have been checked but for dtypes that have no row, which `status`
 * and the last message say: a strict mode refuses it; another offers it to stock, unless it has an epilogue. Else
 * `status`. */
samebits_status sb_mode_without_row(const samebits_context *context, samebits_status status, const sb_product *product,
                                    int has_epilogue);

#endif
