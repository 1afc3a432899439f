/* oneDNN's matmul primitive: the peer of products with prepared weights, since it lays weights out as it likes best. */
#ifndef ONEDNN_H
#define ONEDNN_H

#include "tensor.h"

typedef struct onednn onednn;
typedef struct onednn_op onednn_op;

/* The primitives of a library that dlopen found, or NULL: it is no oneDNN of version 3. */
onednn *onednn_open(void *library);
/* out (M, N) = x (M, K) w^T, w (N, K), all contiguous; w is laid out here, once. NULL: it has no such product, or
 * is NULL itself. The caller keeps x and out while the op lives. */
onednn_op *onednn_linear(const onednn *library, const tensor *x, const tensor *w, const tensor *out);
void onednn_run(void *op);
void onednn_free(onednn_op *op);

#endif
