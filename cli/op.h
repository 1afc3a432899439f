/* The ops that work row by row, as one table: verify, fingerprint and bench walk it. A new op or dtype is
 * one entry in op.c and, if its arithmetic is new, one function in plain.c. */
#ifndef OP_H
#define OP_H

#include "tensor.h"

typedef struct op op;

/* An op with everything but the rows: outputs are functions of one row of x and of this. */
typedef struct problem {
    const op *op;
    int64_t k, n;          /* columns of x and of out */
    tensor w;              /* weights (N, K), blocks (N, bytes), words (N, words), or one number a column (K) */
    tensor scales, biases; /* (N, K / group), of affine weights; with OP_ACROSS w and these have K rows */
    tensor bias, c;        /* (N), and (1, N) for addmm */
    samebits_epilogue epilogue;
    samebits_weights *prepared;
    float *wide; /* w as f32, for the plain C versions; not of f64 and complex64 */
} problem;

typedef enum op_flags {
    OP_HAS_N = 1,     /* N is free; otherwise out has x's columns */
    OP_PREPARED = 2,  /* weights go through samebits_weights_prepare */
    OP_EPILOGUE = 4,  /* with alpha, beta, c, bias and an activation */
    OP_COLUMNS = 8,   /* w and bias are f32, one number a column: (K) */
    OP_PAIRS = 16,    /* rope: interleaved */
    OP_YARN = 32,     /* rope: YaRN */
    OP_ONE = 64,      /* out has one column */
    OP_TABLE = 128,   /* w is a table of TABLE_ROWS rows of K */
    OP_FILTERS = 256, /* sample: with temperature, top_k, top_p and min_p */
    OP_ACROSS = 512   /* matmul_affine, matmul_scaled: w is packed along N, (K, N words) */
} op_flags;

/* One call of a plain C version: what a kernel would know. */
typedef struct plain_call plain_call;

struct op {
    const char *name; /* as --op takes it */
    const char *form; /* dtypes or weight format, and what sets it apart */
    dtype x, w, out;
    samebits_order order;
    samebits_format format;
    unsigned flags;
    samebits_activation activation;
    samebits_status (*run)(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
    void (*plain)(const plain_call *call); /* the order in plain C */
};

extern const op ops[];
extern const int op_count;

/* Whether this library has the op: one tiny call that does not answer UNSUPPORTED. */
int op_present(const op *o);
/* Makes the weights. K is rounded up to the format's block; with OP_ACROSS N. */
void problem_make(problem *p, const op *o, int64_t k, int64_t n, rng *r);
void problem_free(problem *p);
/* Packs the weights as they lie into p->prepared. */
void problem_prepare(problem *p, samebits_context *context);
/* Whether the weights are quantised. */
static inline int op_is_quantised(const op *o) { return o->w == T_U8 || o->w == T_U32; }

#endif
