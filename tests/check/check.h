/* The harness that compares kernels bit by bit with their references. A check is a function in
 * src/kernels/<op>/<op>_check.c; main.c lists them. */
#ifndef SB_CHECK_H
#define SB_CHECK_H

#include "base/base.h"
#include "formats/formats.h"

/* A reproducible stream of random numbers (splitmix64). */
typedef struct check_rng {
    uint64_t state;
} check_rng;

uint64_t check_next(check_rng *rng);
/* Uniform in [0, n). */
int64_t check_below(check_rng *rng, int64_t n);

/* Mixed signs, exponents spread over +-20, some zeros of both signs and subnormals: all-positive uniform
 * numbers hide faults. */
float check_float(check_rng *rng);
void check_floats(check_rng *rng, float *out, int64_t count);
/* The same of all 53 bits, and of subnormals of f64. */
void check_doubles(check_rng *rng, double *out, int64_t count);
void check_bytes(check_rng *rng, void *out, int64_t count);
/* A block of Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or IQ4_NL with these factors and random codes. */
void check_block(check_rng *rng, samebits_format format, float d, float m, uint8_t *block);

/* Memory filled with a NaN pattern, with guard bytes behind it that check_free verifies. Aligned to 64. */
void *check_alloc(size_t size);
void check_free(void *ptr);

/* Whether to run the next case: each of them, or one in N at random (samebits_check --one-in N). */
int check_takes(void);

/* CPU flags that the rows may use: the host's. */
unsigned check_cpu(void);

/* Counts one case; prints the first differing element of a failure. */
void check_same(const char *what, const void *want, const void *have, int64_t count, size_t element);
void check_true(const char *what, int ok);

/* The checks. */
void check_amx(void);
void check_matmul(void);
void check_matmul_amx1(void);
void check_matmul_quantized(void);
void check_norm(void);
void check_softmax(void);
void check_reduce(void);
void check_epilogue(void);
void check_elementwise(void);
void check_rope(void);
void check_attention(void);
void check_attention_op(void);

#endif
