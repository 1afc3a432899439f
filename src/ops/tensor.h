/* DLPack tensors, checked and filled in. */
#ifndef SB_TENSOR_H
#define SB_TENSOR_H

#include <dlpack/dlpack.h>

#include "base/base.h"
#include "base/error.h"

#define SB_MAX_DIMS 8

typedef enum sb_dtype {
    SB_F32,
    SB_F16,
    SB_BF16,
    SB_U8,
    SB_I32,
    SB_U32,
    SB_BOOL,
    SB_F64,
    SB_C64,
    SB_OTHER_8, /* numbers of so many bits that no kernel takes */
    SB_OTHER_16,
    SB_OTHER_32,
    SB_OTHER_64,
    SB_OTHER_128
} sb_dtype;

/* A tensor whose shape, strides (elements) and extent are known to be sane. */
typedef struct sb_view {
    char *data; /* byte_offset included */
    sb_dtype dtype;
    DLDataType type; /* as the tensor has it */
    int ndim;
    int64_t shape[SB_MAX_DIMS], stride[SB_MAX_DIMS];
    int64_t count; /* elements */
    size_t extent; /* bytes from data to the end of the last element; 0 if there is none */
} sb_view;

enum { /* dtypes that a tensor may have, as a set */
       SB_SET_F32 = 1 << SB_F32,
       SB_SET_FLOATS = 1 << SB_F32 | 1 << SB_F16 | 1 << SB_BF16,
       SB_SET_WIDE = 1 << SB_F64 | 1 << SB_C64,
       SB_SET_U8 = 1 << SB_U8,
       SB_SET_I32 = 1 << SB_I32,
       SB_SET_U32 = 1 << SB_U32,
       SB_SET_BOOL = 1 << SB_BOOL,
       /* Numbers of any other dtype: for a caller that looks at them itself (sb_check_dtype). */
       SB_SET_OTHER = 1 << SB_OTHER_8 | 1 << SB_OTHER_16 | 1 << SB_OTHER_32 | 1 << SB_OTHER_64 | 1 << SB_OTHER_128
};

/* Checks a tensor and describes it. `name` is the argument's name, for messages.
 * Errors: NULL, RANK (outside [min_dims, max_dims]), DTYPE (not in the set), DEVICE, SHAPE (negative size),
 * STRIDE (negative), OVERFLOW. */
samebits_status sb_view_of(const DLTensor *tensor, const char *name, unsigned dtypes, int min_dims, int max_dims,
                           sb_view *view);

/* Errors: DTYPE (not in the set), with the message of sb_view_of. */
samebits_status sb_check_dtype(const sb_view *view, const char *name, unsigned dtypes);

int sb_dtype_size(sb_dtype dtype);
/* The dtypes that only products of their own have. */
SB_INLINE int sb_dtype_is_wide(sb_dtype dtype) { return SB_SET_WIDE >> dtype & 1; }
const char *sb_dtype_name(sb_dtype dtype);
/* "[2, 3, 4]" into text. Returns text. */
const char *sb_shape_text(const sb_view *view, char text[static 128]);

/* Errors: OVERLAP if two different elements of out may share memory. */
samebits_status sb_check_output_named(const sb_view *out, const char *name);
SB_INLINE samebits_status sb_check_output(const sb_view *out) { return sb_check_output_named(out, "out"); }
/* Errors: OVERLAP if out shares memory with the input called `name`. With same_ok, an input that is out
 * itself (same memory, shape, strides and dtype) is allowed. */
samebits_status sb_check_overlap(const sb_view *out, const sb_view *in, const char *name, int same_ok);
/* Makes `view` look as if it had out's shape, with stride 0 where it broadcasts. Errors: SHAPE. */
samebits_status sb_broadcast(sb_view *view, const char *name, int ndim, const int64_t *shape);

/* Errors: STRIDE if the elements of a row, `what`, do not lie side by side. */
samebits_status sb_check_side_by_side(const sb_view *view, const char *name, const char *what);

/* Whether the first `count` sizes are the same; both have as many. */
int sb_same_sizes(const sb_view *a, const sb_view *b, int count);
void sb_swap_dims(sb_view *view, int a, int b);

/* Element offset of row `index` when the dims [0, ndim - keep) are counted row-major. */
int64_t sb_row_offset(const sb_view *view, int keep, int64_t index);

SB_INLINE float sb_load(const sb_view *view, int64_t offset);
SB_INLINE void sb_store(const sb_view *view, int64_t offset, float value);

#include "base/float16.h"

SB_INLINE float sb_load(const sb_view *view, int64_t offset)
{
    switch (view->dtype) {
    case SB_F16: return sb_from_f16(((const uint16_t *)view->data)[offset]);
    case SB_BF16: return sb_from_bf16(((const uint16_t *)view->data)[offset]);
    default: return ((const float *)view->data)[offset];
    }
}

/* The one rounding; NaN becomes canonical. */
SB_INLINE void sb_store(const sb_view *view, int64_t offset, float value)
{
    switch (view->dtype) {
    case SB_F16: ((uint16_t *)view->data)[offset] = sb_to_f16(value); break;
    case SB_BF16: ((uint16_t *)view->data)[offset] = sb_to_bf16(value); break;
    default: ((float *)view->data)[offset] = sb_canonical(value);
    }
}

#endif
