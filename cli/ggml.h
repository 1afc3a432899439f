/* A ggml build as a peer, through its C functions found by dlsym. */
#ifndef GGML_H
#define GGML_H

#include "attention.h"

typedef struct ggml_library ggml_library;
typedef struct ggml_op ggml_op;

/* Opens libggml-base and the best libggml-cpu in a folder; ends the program with a message if it cannot. */
ggml_library *ggml_open(const char *folder);
/* The backend API version of the ggml in `path`, a library or a folder of them; *version gets its own version
 * or NULL. 0 if `path` is no ggml. */
int ggml_api(const char *path, const char **version);
/* "ggml 0.26.0" */
const char *ggml_name(const ggml_library *g);
/* Its number for a weight format, or -1. */
int ggml_type_of(samebits_format format);
/* Widens k weights: the function that defines a format. NULL if this ggml has none for it. */
typedef void ggml_dequantiser(const void *row, float *out, int64_t k);
ggml_dequantiser *ggml_find_dequantiser(const ggml_library *g, samebits_format format);

/* out (M, N) = x (M, K) w^T as a graph, weights copied from w. */
ggml_op *ggml_linear(ggml_library *g, samebits_format format, const tensor *w, int64_t k, const tensor *x);
/* Flash attention of one sequence without a mask; k and v f16 or blocks. */
ggml_op *ggml_attention(ggml_library *g, const attention_call *call);
void ggml_compute(ggml_op *op, int threads);
/* The f32 results, and their number. */
const float *ggml_result(const ggml_op *op);
void ggml_op_free(ggml_op *op);

#endif
