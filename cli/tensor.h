/* DLPack tensors with memory of their own, poisoned around their elements. */
#ifndef TENSOR_H
#define TENSOR_H

#include "cli.h"
#include "rng.h"

typedef enum dtype { T_F32, T_F16, T_BF16, T_U8, T_I32, T_BOOL, T_U32, T_F64, T_C64 } dtype;

enum { TENSOR_DIMS = 4 };

/* Not to be copied: dl points into it. */
typedef struct tensor {
    DLTensor dl;
    int64_t shape[TENSOR_DIMS], stride[TENSOR_DIMS];
    dtype type;
    unsigned char *memory; /* NULL in a view */
    size_t size;
} tensor;

/* How the elements lie in memory. Everything between them is poison: all bits set, a NaN in every float. */
typedef enum layout {
    LAYOUT_PLAIN,
    LAYOUT_PADDED,     /* rows 13 elements apart from each other */
    LAYOUT_TRANSPOSED, /* the last two dims change places in memory */
    LAYOUT_STEPPED,    /* every second element of a row */
    LAYOUT_OFFSET1,    /* that many elements past an aligned address */
    LAYOUT_OFFSET2,
    LAYOUT_OFFSET4,
    LAYOUT_OFFSET8,
    LAYOUT_COUNT
} layout;

const char *layout_name(layout l);
const char *dtype_name(dtype type);
size_t dtype_size(dtype type);

/* A tensor of the shape, all poison. Free it with tensor_free. */
void tensor_make(tensor *t, dtype type, layout l, int ndim, const int64_t *shape);
void tensor_make2(tensor *t, dtype type, layout l, int64_t rows, int64_t cols);
void tensor_free(tensor *t);
/* Rows [first, first + count) of dim `dim`, as a view. */
void tensor_slice(tensor *view, const tensor *t, int dim, int64_t first, int64_t count);
/* Bytes outside the elements that are poison no more. */
int64_t tensor_spilled(const tensor *t);

static inline int64_t tensor_count(const tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->dl.ndim; i++) count *= t->shape[i];
    return count;
}

/* The element with this row-major index. */
void *tensor_at(const tensor *t, int64_t index);
/* As f32: of f64 rounded, of complex64 the real part. */
float tensor_get(const tensor *t, int64_t index);
/* Row `row` (all dims but the last, row-major) as f32; not of f64 and complex64. */
void tensor_row(const tensor *t, int64_t row, float *out);
/* Rounds to the dtype; a NaN becomes the canonical one. Both parts of complex64 get the value. */
void tensor_set(tensor *t, int64_t index, float value);
/* Same shapes, any layouts. */
void tensor_copy(tensor *to, const tensor *from);
/* Elements whose bits differ; *first gets the index of the first one. Same shapes and dtypes. */
int64_t tensor_differing(const tensor *a, const tensor *b, int64_t *first);

typedef enum fill {
    FILL_SPREAD,    /* mixed signs, exponents over +-20 (f16: +-6), zeros */
    FILL_UNIT,      /* mixed signs, exponents over +-2 */
    FILL_SUBNORMAL, /* subnormals of the dtype */
    FILL_NAN,       /* NaN of both signs, quiet and signalling */
    FILL_INF,
    FILL_HUGE, /* near the dtype's largest number */
    FILL_ZERO,
    FILL_COUNT
} fill;

const char *fill_name(fill kind);
/* Bits of one element; of complex64 the real part's and then the imaginary part's. */
uint64_t fill_bits(dtype type, fill kind, rng *r);
void tensor_fill(tensor *t, fill kind, rng *r);
/* Row `row` of a matrix alone. */
void tensor_fill_row(tensor *t, int64_t row, fill kind, rng *r);

/* The bits of `type`, f32 or narrower, nearest to an f32, and back. */
uint32_t bits_from_f32(dtype type, float value);
float bits_to_f32(dtype type, uint32_t bits);

/* The dtypes of 8 bytes, which have products of their own. */
static inline int dtype_is_wide(dtype type) { return type == T_F64 || type == T_C64; }

#endif
