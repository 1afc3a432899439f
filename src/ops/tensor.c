#include "ops/tensor.h"

#include <stdio.h>

static const struct {
    const char *name;
    int size;
} dtypes[] = {[SB_F32] = {"f32", 4},        [SB_F16] = {"f16", 2},         [SB_BF16] = {"bf16", 2},
              [SB_U8] = {"u8", 1},          [SB_I32] = {"i32", 4},         [SB_U32] = {"u32", 4},
              [SB_BOOL] = {"bool", 1},      [SB_F64] = {"f64", 8},         [SB_C64] = {"complex64", 8},
              [SB_OTHER_8] = {"other", 1},  [SB_OTHER_16] = {"other", 2},  [SB_OTHER_32] = {"other", 4},
              [SB_OTHER_64] = {"other", 8}, [SB_OTHER_128] = {"other", 16}};

int sb_dtype_size(sb_dtype dtype) { return dtypes[dtype].size; }
const char *sb_dtype_name(sb_dtype dtype) { return dtypes[dtype].name; }

/* DLPack's kDLBool; the header of version 0.6 does not name it yet. */
enum { DL_BOOL = 6 };

static int find_dtype(DLDataType t, sb_dtype *dtype)
{
    if (t.lanes != 1) return 0;
    const int key = t.code * 256 + t.bits;
    switch (key) {
    case kDLFloat * 256 + 32: *dtype = SB_F32; return 1;
    case kDLFloat * 256 + 16: *dtype = SB_F16; return 1;
    case kDLBfloat * 256 + 16: *dtype = SB_BF16; return 1;
    case kDLUInt * 256 + 8: *dtype = SB_U8; return 1;
    case kDLInt * 256 + 32: *dtype = SB_I32; return 1;
    case kDLUInt * 256 + 32: *dtype = SB_U32; return 1;
    case DL_BOOL * 256 + 8: *dtype = SB_BOOL; return 1;
    case kDLFloat * 256 + 64: *dtype = SB_F64; return 1;
    case kDLComplex * 256 + 64: *dtype = SB_C64; return 1;
    }
    return 0;
}

/* A number of a size that the checks can reckon with, whatever its dtype. */
static int find_other(DLDataType t, sb_dtype *dtype)
{
    if (t.lanes != 1 || t.code > kDLComplex || t.code == kDLOpaqueHandle) return 0;
    switch (t.bits) {
    case 8: *dtype = SB_OTHER_8; return 1;
    case 16: *dtype = SB_OTHER_16; return 1;
    case 32: *dtype = SB_OTHER_32; return 1;
    case 64: *dtype = SB_OTHER_64; return 1;
    case 128: *dtype = SB_OTHER_128; return 1;
    }
    return 0;
}

static const char *set_text(unsigned set, char text[static 64])
{
    int n = 0;
    text[0] = 0;
    for (unsigned i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (set >> i & 1) n += snprintf(text + n, 64 - (size_t)n, "%s%s", n ? ", " : "", dtypes[i].name);
    return text;
}

static samebits_status wrong_dtype(DLDataType t, const char *name, unsigned set)
{
    sb_dtype known;
    char want[64];
    set_text(set & ~(unsigned)SB_SET_OTHER, want);
    if (find_dtype(t, &known)) return sb_fail(SAMEBITS_ERR_DTYPE, "%s is %s; want %s", name, dtypes[known].name, want);
    return sb_fail(SAMEBITS_ERR_DTYPE, "%s has DLPack dtype code %d, %d bits, %d lanes; want %s", name, t.code, t.bits,
                   t.lanes, want);
}

samebits_status sb_check_dtype(const sb_view *view, const char *name, unsigned set)
{
    return set >> view->dtype & 1 ? SAMEBITS_OK : wrong_dtype(view->type, name, set);
}

const char *sb_shape_text(const sb_view *view, char text[static 128])
{
    int n = snprintf(text, 128, "[");
    for (int i = 0; i < view->ndim && n < 110; i++)
        n += snprintf(text + n, 128 - (size_t)n, "%s%lld", i ? ", " : "", (long long)view->shape[i]);
    snprintf(text + n, 128 - (size_t)n, "]");
    return text;
}

static samebits_status check_kind(const DLTensor *t, const char *name, unsigned set, int min_dims, int max_dims,
                                  sb_view *v)
{
    if (!t) return sb_fail(SAMEBITS_ERR_NULL, "%s is NULL: pass a DLTensor", name);
    if (t->ndim < min_dims || t->ndim > max_dims)
        return sb_fail(SAMEBITS_ERR_RANK, "%s has %d dimensions, want %d to %d", name, t->ndim, min_dims, max_dims);
    if (t->ndim && !t->shape) return sb_fail(SAMEBITS_ERR_NULL, "%s.shape is NULL", name);
    if (t->device.device_type != kDLCPU && t->device.device_type != kDLCUDAHost)
        return sb_fail(SAMEBITS_ERR_DEVICE,
                       "%s is on DLPack device type %d; this build takes CPU memory (1): copy it first", name,
                       (int)t->device.device_type);
    v->type = t->dtype;
    if (find_dtype(t->dtype, &v->dtype) && set >> v->dtype & 1) return SAMEBITS_OK;
    if (set & SB_SET_OTHER && find_other(t->dtype, &v->dtype)) return SAMEBITS_OK;
    return wrong_dtype(t->dtype, name, set);
}

/* Row-major strides for a tensor that brings none. */
static samebits_status fill_strides(const DLTensor *t, const char *name, sb_view *v)
{
    int64_t next = 1;
    for (int i = v->ndim - 1; i >= 0; i--) {
        v->stride[i] = next;
        if (__builtin_mul_overflow(next, SB_MAX(v->shape[i], 1), &next))
            return sb_fail(SAMEBITS_ERR_OVERFLOW, "%s: the product of its sizes overflows", name);
    }
    if (!t->strides) return SAMEBITS_OK;
    for (int i = 0; i < v->ndim; i++) {
        if (t->strides[i] < 0)
            return sb_fail(SAMEBITS_ERR_STRIDE,
                           "%s has stride %lld in dimension %d; want 0 or more (copy reversed views)", name,
                           (long long)t->strides[i], i);
        /* A dimension of one element is never stepped over, so its stride means nothing. */
        v->stride[i] = v->shape[i] > 1 ? t->strides[i] : 0;
    }
    return SAMEBITS_OK;
}

static samebits_status measure(const char *name, int strided, sb_view *v)
{
    int64_t last = 0, bytes;
    v->count = 1;
    for (int i = 0; i < v->ndim; i++) {
        int64_t step;
        if (__builtin_mul_overflow(v->count, v->shape[i], &v->count))
            return sb_fail(SAMEBITS_ERR_OVERFLOW, "%s: the product of its sizes overflows", name);
        if (v->shape[i] > 1 &&
            (__builtin_mul_overflow(v->shape[i] - 1, v->stride[i], &step) || __builtin_add_overflow(last, step, &last)))
            return sb_fail(SAMEBITS_ERR_STRIDE, "%s: the stride of dimension %d overflows", name, i);
    }
    if (__builtin_mul_overflow(last, dtypes[v->dtype].size, &bytes) || bytes > INT64_MAX / 4)
        return sb_fail(strided ? SAMEBITS_ERR_STRIDE : SAMEBITS_ERR_OVERFLOW,
                       "%s spans too many bytes for the address space%s", name, strided ? ": check its strides" : "");
    v->extent = v->count ? (size_t)bytes + (size_t)dtypes[v->dtype].size : 0;
    return SAMEBITS_OK;
}

samebits_status sb_view_of(const DLTensor *t, const char *name, unsigned set, int min_dims, int max_dims, sb_view *v)
{
    samebits_status status = check_kind(t, name, set, min_dims, SB_MIN(max_dims, SB_MAX_DIMS), v);
    if (status) return status;
    v->ndim = t->ndim;
    for (int i = 0; i < v->ndim; i++) {
        v->shape[i] = t->shape[i];
        if (v->shape[i] < 0)
            return sb_fail(SAMEBITS_ERR_SHAPE, "%s has size %lld in dimension %d; want 0 or more", name,
                           (long long)v->shape[i], i);
    }
    if ((status = fill_strides(t, name, v)) || (status = measure(name, t->strides != NULL, v))) return status;
    if (v->count && !t->data) return sb_fail(SAMEBITS_ERR_NULL, "%s.data is NULL", name);
    v->data = t->data ? (char *)t->data + t->byte_offset : NULL;
    const int is_complex = v->type.code == kDLComplex; /* a pair of floats */
    const int align = dtypes[v->dtype].size >> is_complex;
    if (v->count && (uintptr_t)v->data % (uintptr_t)align)
        return sb_fail(SAMEBITS_ERR_STRIDE, "%s.data is not aligned to its %d-byte %s", name, align,
                       is_complex ? "parts" : "elements");
    return SAMEBITS_OK;
}

samebits_status sb_check_side_by_side(const sb_view *view, const char *name, const char *what)
{
    const int last = view->ndim - 1;
    /* A tensor without elements may have any strides. */
    if (!view->count || view->shape[last] < 2 || view->stride[last] == 1) return SAMEBITS_OK;
    return sb_fail(SAMEBITS_ERR_STRIDE, "%s has stride %lld between %s of a row, want 1", name,
                   (long long)view->stride[last], what);
}

samebits_status sb_check_output_named(const sb_view *out, const char *name)
{
    if (out->count < 2) return SAMEBITS_OK;
    /* Sorted by stride, each dimension must step over all that the smaller ones reach. */
    int order[SB_MAX_DIMS];
    for (int i = 0; i < out->ndim; i++) {
        int j = i;
        for (; j > 0 && out->stride[order[j - 1]] > out->stride[i]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    int64_t reach = 0;
    for (int i = 0; i < out->ndim; i++) {
        const int d = order[i];
        if (out->shape[d] < 2) continue;
        if (out->stride[d] <= reach)
            return sb_fail(SAMEBITS_ERR_OVERLAP,
                           "%s overlaps itself: stride %lld in dimension %d reaches the same memory twice", name,
                           (long long)out->stride[d], d);
        reach += (out->shape[d] - 1) * out->stride[d];
    }
    return SAMEBITS_OK;
}

static int same_layout(const sb_view *a, const sb_view *b)
{
    if (a->data != b->data || a->dtype != b->dtype || a->ndim != b->ndim) return 0;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->stride[i] != b->stride[i])) return 0;
    return 1;
}

/* Bytes that a view spans within a period, when all its strides of whole periods are left out. */
static int64_t span_in(const sb_view *v, int64_t period)
{
    const int64_t size = dtypes[v->dtype].size;
    int64_t span = size;
    for (int i = 0; i < v->ndim; i++)
        if (v->shape[i] > 1 && v->stride[i] * size % period) span += (v->shape[i] - 1) * v->stride[i] * size;
    return span;
}

/* Whether the views are slices of one buffer side by side, such as columns of the same rows: with a stride of
 * out as the period, both stay in parts of it that do not meet. */
static int interleaved(const sb_view *out, const sb_view *in)
{
    for (int i = 0; i < out->ndim; i++) {
        const int64_t period = out->stride[i] * dtypes[out->dtype].size;
        if (out->shape[i] < 2 || period < 1) continue;
        const int64_t a = span_in(out, period), b = span_in(in, period);
        if (a > period || b > period) continue;
        int64_t between = (int64_t)((uintptr_t)in->data - (uintptr_t)out->data) % period;
        if (between < 0) between += period;
        if (between >= a && between + b <= period) return 1;
    }
    return 0;
}

samebits_status sb_check_overlap(const sb_view *out, const sb_view *in, const char *name, int same_ok)
{
    const uintptr_t o = (uintptr_t)out->data, i = (uintptr_t)in->data;
    if (!out->extent || !in->extent || o >= i + in->extent || i >= o + out->extent) return SAMEBITS_OK;
    if (interleaved(out, in)) return SAMEBITS_OK;
    if (same_ok && same_layout(out, in)) return SAMEBITS_OK;
    return sb_fail(SAMEBITS_ERR_OVERLAP, "out shares memory with %s: give it memory of its own", name);
}

samebits_status sb_broadcast(sb_view *view, const char *name, int ndim, const int64_t *shape)
{
    sb_view wide = *view;
    const int missing = ndim - view->ndim;
    char text[128];
    if (missing < 0)
        return sb_fail(SAMEBITS_ERR_SHAPE, "%s %s has more dimensions (%d) than the result (%d)", name,
                       sb_shape_text(view, text), view->ndim, ndim);
    for (int i = 0; i < ndim; i++) {
        const int64_t size = i < missing ? 1 : view->shape[i - missing];
        if (size != 1 && size != shape[i])
            return sb_fail(SAMEBITS_ERR_SHAPE, "%s %s does not broadcast: dimension %d must be 1 or %lld", name,
                           sb_shape_text(view, text), i - missing, (long long)shape[i]);
        wide.shape[i] = shape[i];
        wide.stride[i] = size == 1 ? 0 : view->stride[i - missing];
    }
    wide.ndim = ndim;
    *view = wide;
    return SAMEBITS_OK;
}

int sb_same_sizes(const sb_view *a, const sb_view *b, int count)
{
    for (int i = 0; i < count; i++)
        if (a->shape[i] != b->shape[i]) return 0;
    return 1;
}

void sb_swap_dims(sb_view *v, int a, int b)
{
    const int64_t shape = v->shape[a], stride = v->stride[a];
    v->shape[a] = v->shape[b];
    v->stride[a] = v->stride[b];
    v->shape[b] = shape;
    v->stride[b] = stride;
}

int64_t sb_row_offset(const sb_view *view, int keep, int64_t index)
{
    int64_t offset = 0;
    for (int i = view->ndim - keep - 1; i >= 0; i--) {
        offset += index % view->shape[i] * view->stride[i];
        index /= view->shape[i];
    }
    return offset;
}
