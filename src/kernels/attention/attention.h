/* Kernels of attention.
 *
 * Shapes: a part is `rows` query rows of one KV head (a row is a query and a head) against a list of keys.
 * Order:  portable-1, spec/ops/attention.md. Sums over keys are exact, so the parts of one row merge by adding
 *         their sums, and neither the list's order nor its cuts move a bit.
 * Memory: the caller's, aligned to 64 bytes; kernels allocate nothing.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders.
 *
 * Steps: dots for the part; score for each of its rows; then, with the maximum of all parts of a row in
 * `max`, values; then finish once the sums of all parts are added. */
#ifndef SB_ATTENTION_H
#define SB_ATTENTION_H

#include "base/kernel_table.h"
#include "formats/formats.h"
#include "order/attention.h"

/* Scores and sums are padded to a multiple of this. */
#define SB_ATTENTION_PAD   32
#define SB_ATTENTION_BLOCK 32 /* keys that SIMD rows take at once: with the next ones they fit the L1 cache */
#define SB_ATTENTION_ROWS  64 /* the most query rows a part has */
/* A sum is high * 2^48 + low, 0 <= low < 2^48: exact for any number of keys below 2^31. */
#define SB_SUM_SHIFT 48

/* K or V of one KV head: row `key` is at data + key * row_stride. Strides in bytes; a row of blocks is contiguous. */
typedef struct sb_kv {
    const char *data;
    samebits_format format; /* F32, F16, BF16, or blocks of 32 with a scale of f16 */
    int64_t row_stride, col_stride;
    int64_t width; /* columns */
} sb_kv;

typedef struct sb_attention_part {
    int64_t rows, keys;
    sb_kv k, v;
    const float *q;       /* [rows][k.width] */
    const int32_t *key;   /* [keys]: the K and V row of each; only these are read */
    float *score;         /* [rows][score_stride]: dots, then scores, then weights as integers */
    int64_t score_stride; /* at least keys, a multiple of SB_ATTENTION_PAD */
    float *largest;       /* [padded keys]: largest finite |v| of each key; NULL for fixed grids */
    const float *max;     /* [rows]: maximum over all parts; -inf: the row's sums are 0 */
    const int *grid;      /* [rows]: g of the values */
    int64_t *total;       /* [rows]: sum of the weights, written by values */
    int64_t *high, *low;  /* [rows][sum_stride]: sums of weight * value, written by values, columns in the
                             kernel's own order */
    int64_t sum_stride;   /* v.width rounded up to SB_ATTENTION_PAD */
    uint8_t *poison;      /* [rows][sum_stride]: columns that a non-finite value reached */
    void *scratch;        /* sb_attention_scratch bytes */
} sb_attention_part;

/* One row of a part, from dots to scores. */
typedef struct sb_attention_line {
    int64_t keys;
    float *score;       /* in: dots; out: scores, -inf for hidden keys and for the padding */
    const float *bias;  /* NULL, or [keys]: -inf hides, else added times slope */
    int64_t begin, end; /* keys of the list outside [begin, end) are hidden */
    float scale, softcap, slope;
    const float *largest; /* as in the part */
    float max;            /* in: -inf; out: maximum score */
    float top;            /* in: 0; out: maximum of `largest` over visible keys */
    int bad;              /* out: a visible score is NaN or +inf */
} sb_attention_line;

/* Final sums of one row. */
typedef struct sb_attention_sums {
    const int64_t *high, *low;
    const uint8_t *poison;
    int64_t total, width;
    int grid;
    float *out; /* [width] */
} sb_attention_sums;

typedef struct sb_attention_row {
    const char *name;
    samebits_order order;
    unsigned cpu; /* SB_CPU_* flags it needs */
    void (*dots)(const sb_attention_part *part);
    void (*score)(sb_attention_line *line);
    void (*values)(const sb_attention_part *part);
    void (*finish)(const sb_attention_sums *sums);
} sb_attention_row;

#define SB_ATTENTION_ROW(isa, order, cpu)                                                                              \
    void sb_attention_dots_##isa(const sb_attention_part *part);                                                       \
    void sb_attention_score_##isa(sb_attention_line *line);                                                            \
    void sb_attention_values_##isa(const sb_attention_part *part);                                                     \
    void sb_attention_finish_##isa(const sb_attention_sums *sums);
#include "kernels/attention/attention.inc"
#undef SB_ATTENTION_ROW

SB_KERNEL_TABLE(attention);
/* Bytes of scratch that a part with these widths needs. */
size_t sb_attention_scratch(int64_t k_width, int64_t v_width);

#endif
