/* Weights as an op receives them. */
#ifndef SB_OPS_WEIGHTS_H
#define SB_OPS_WEIGHTS_H

#include "formats/formats.h"
#include "ops/tensor.h"

/* Checks a tensor of weights and describes its rows. Errors: as samebits_weights_prepare. */
samebits_status sb_rows_of(const DLTensor *w, samebits_format format, sb_rows *rows, sb_view *view);

#endif
