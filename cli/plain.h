/* The orders again, in plain C and from the spec alone: a second implementation that verify holds the
 * library against, and in which --self-test plants its faults. */
#ifndef PLAIN_H
#define PLAIN_H

#include "op.h"

/* How a call is made; no part of it may move a bit. */
typedef struct setting {
    samebits_cpu cpu;
    int threads;
    int lent; /* the threads are the caller's own */
} setting;

/* Deviations that --self-test plants (fault.c says which check must see each). */
typedef enum fault_id {
    FAULT_NONE,
    FAULT_CHUNK,     /* a chunk of 128 terms, not 256 */
    FAULT_SWAP,      /* above the scalar level, the last two chunks change places */
    FAULT_ONE_ROW,   /* a single row is summed in eight lanes */
    FAULT_TAIL_ROWS, /* the rows past the last group of four too */
    FAULT_SPLIT,     /* K is split by the number of threads */
    FAULT_LEAK,      /* the last term comes from the next row */
    FAULT_FLUSH,     /* the host's flush-to-zero is left on */
    FAULT_STRIDED,   /* a strided row is summed in eight lanes */
    FAULT_TRUNCATE,  /* above the scalar level, 16-bit outputs are cut, not rounded */
    FAULT_LIBM,      /* exp of the C library */
    FAULT_ROUNDED,   /* attention: sums over keys rounded to f32 */
    FAULT_HIDDEN,    /* attention: a hidden key times zero */
    FAULT_COUNT
} fault_id;

struct plain_call {
    const problem *p;
    setting how;
    fault_id fault;
    const tensor *x; /* (M, K) */
    tensor *out;     /* (M, N) */
};

/* Products with f32 weights (problem.wide); of f64 and of complex64; int8-1; amx-1; norms, softmaxes and reductions. */
void plain_product(const plain_call *call);
void plain_f64(const plain_call *call);
void plain_complex(const plain_call *call);
void plain_int8(const plain_call *call);
void plain_amx(const plain_call *call);
void plain_rms_norm(const plain_call *call);
void plain_layer_norm(const plain_call *call);
void plain_softmax(const plain_call *call);
void plain_log_softmax(const plain_call *call);
void plain_l2_norm(const plain_call *call);
void plain_group_norm(const plain_call *call);
void plain_add_rms_norm(const plain_call *call);
void plain_logsumexp(const plain_call *call);
void plain_log_likelihood(const plain_call *call);
void plain_cross_entropy(const plain_call *call);
void plain_sum(const plain_call *call);
void plain_mean(const plain_call *call);
void plain_max(const plain_call *call);
void plain_argmax(const plain_call *call);
void plain_top_k(const plain_call *call);
void plain_sample(const plain_call *call);
void plain_embedding(const plain_call *call);
#define NORM_EPS 1e-5f

void plain_rope(const plain_call *call);
/* The position of all rows of a problem, and the parameters. */
int32_t rope_position_of(const problem *p);
void rope_params_of(const problem *p, samebits_rope_params *params);

/* Ops element by element; the second operand is problem.w, one number a column. */
void plain_activate(const plain_call *call);
void plain_gated(const plain_call *call);
void plain_add(const plain_call *call);
void plain_sub(const plain_call *call);
void plain_mul(const plain_call *call);
void plain_div(const plain_call *call);
void plain_scale(const plain_call *call);
#define SCALE_FACTOR 1.7f
#define SCALE_BIAS   -0.3f

/* One row after another, as f32, in the order's floating-point environment. */
void plain_each_row(const plain_call *call, void (*row_fn)(const plain_call *, const float *, int64_t));

/* spec/order.md, section dot. */
float plain_dot(const float *x, const float *w, int64_t k);
/* From the sum to the value that is rounded to the output's dtype. */
float plain_epilogue(const problem *p, int64_t col, float t);

/* FP control of this thread: whether subnormals are flushed, on entry and in results. */
void host_flush(int on);
int host_flushes(void);

#endif
