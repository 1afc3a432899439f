/* Panels of float weights: [k][16] in the weights' own dtype. */
#include "formats/formats.h"

/* A strip of k at a time, so that the lines written stay in L1 for all 16 columns. */
enum { STRIP = 128 };

#define PACK(type)                                                                                                     \
    do {                                                                                                               \
        const type *src = rows->data;                                                                                  \
        type *dst = out;                                                                                               \
        for (int64_t begin = 0; begin < rows->k; begin += STRIP) {                                                     \
            const int64_t end = SB_MIN(begin + STRIP, rows->k);                                                        \
            for (int64_t c = 0; c < SB_PANEL; c++) {                                                                   \
                const int64_t col = panel * SB_PANEL + c;                                                              \
                for (int64_t i = begin; i < end; i++)                                                                  \
                    dst[i * SB_PANEL + c] =                                                                            \
                        col < rows->n ? src[col * rows->row_stride + i * rows->col_stride] : (type)0;                  \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

void sb_pack_panel_float(const sb_rows *rows, int64_t panel, void *out)
{
    if (rows->format == SAMEBITS_FORMAT_F32)
        PACK(uint32_t);
    else
        PACK(uint16_t);
}

#define UNPACK(type)                                                                                                   \
    do {                                                                                                               \
        const type *src = in;                                                                                          \
        for (int c = 0; c < count; c++) {                                                                              \
            char *row = (char *)rows + c * row_stride_bytes;                                                           \
            for (int64_t i = 0; i < k; i++)                                                                            \
                memcpy(row + i * (int64_t)sizeof(type), &src[i * SB_PANEL + column + c], sizeof(type));                \
        }                                                                                                              \
    } while (0)

void sb_unpack_panel_float(samebits_format format, int64_t k, const void *in, int column, int count, void *rows,
                           int64_t row_stride_bytes)
{
    if (format == SAMEBITS_FORMAT_F32)
        UNPACK(uint32_t);
    else
        UNPACK(uint16_t);
}
