#include "cache.h"

#include "quant.h"

static dtype dtype_of(samebits_format format)
{
    switch (format) {
    case SAMEBITS_FORMAT_F32: return T_F32;
    case SAMEBITS_FORMAT_F16: return T_F16;
    case SAMEBITS_FORMAT_BF16: return T_BF16;
    default: return T_U8;
    }
}

int64_t cache_columns(samebits_format format, int64_t columns)
{
    const int64_t block = samebits_format_block(format);
    return (columns + block - 1) / block * block;
}

void cache_make(tensor *t, samebits_format format, layout l, const int64_t shape[4])
{
    const dtype type = dtype_of(format);
    size_t bytes = 0;
    cli_check(samebits_format_row_size(format, shape[3], &bytes), "samebits_format_row_size");
    if (type == T_U8 && (l == LAYOUT_TRANSPOSED || l == LAYOUT_STEPPED)) l = LAYOUT_PADDED;
    tensor_make(t, type, l, 4, (int64_t[]){shape[0], shape[1], shape[2], (int64_t)(bytes / dtype_size(type))});
}

void cache_fill(tensor *t, samebits_format format, fill kind, rng *r)
{
    if (t->type == T_U8)
        quant_fill(format, t, kind, r);
    else
        tensor_fill(t, kind, r);
}

void cache_row(const tensor *t, samebits_format format, int64_t row, int64_t columns, float *out)
{
    if (t->type == T_U8)
        quant_row(format, tensor_at(t, row * t->shape[3]), columns, out);
    else
        tensor_row(t, row, out);
}
