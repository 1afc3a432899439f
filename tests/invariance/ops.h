/* The row ops of the library, as the tests call them. */
#ifndef OPS_H
#define OPS_H

#include "rows.h"

/* Makes op number `index` ready for rows_prepare; 0 past the last one. */
int ops_make(int index, row_op *op);

/* Groups of ops whose results must be the same rows: matmul, linear, prepared and quantised forms of one product. */
int ops_twin(int index, row_op *a, row_op *b);

#endif
