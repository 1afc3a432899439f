/* What packing writes for one row and step of int8-1 (int8.h). */
#ifndef SB_INT8_PACK_H
#define SB_INT8_PACK_H

#include "kernels/matmul_quantized/int8.h"

/* What the sums of a kernel start from (int8_simd.h): words of int32, or of two int16. */
typedef enum { WORDS, PAIRS } lanes;

/* Sums of the quants 0, 1 and of the quants 2, 3 of several words. */
typedef struct {
    int low, high;
} sums;

SB_INLINE int32_t start_word(lanes kind, sums s, int factor)
{
    const int low = s.low * factor, high = s.high * factor;
    return kind == WORDS ? low + high : (int32_t)(((uint32_t)low & 0xFFFFu) | (uint32_t)high << 16);
}

/* The two words from which a step's sums start: minus the format's offset. Some formats have none, but their sums
 * need one to stay in range (sb_centre); the second word adds it again. For Q2_K the first word is not a start: it has
 * the sums of both halves of the step, as int16. */
SB_INLINE void starts(samebits_format f, lanes kind, sums first, sums second, int32_t start[2])
{
    const int centre = sb_centre(f), offset = centre ? centre : sb_quant_offset(f);
    if (f == SAMEBITS_FORMAT_Q2_K) {
        const int low = first.low + first.high, high = second.low + second.high;
        start[0] = (int32_t)(((uint32_t)low & 0xFFFFu) | (uint32_t)high << 16);
        start[1] = 0;
        return;
    }
    if (sb_quant_parts(f) == 2) {
        start[0] = start_word(kind, first, -offset);
        start[1] = start_word(kind, second, -offset);
        return;
    }
    const sums both = {first.low + second.low, first.high + second.high};
    start[0] = start_word(kind, both, -offset);
    start[1] = start_word(WORDS, both, offset);
}

/* `record` is the row's first word. */
SB_INLINE void put_record(samebits_format f, lanes kind, const int32_t words[8], float scale, sums first, sums second,
                          int rows, char *record)
{
    const float sum = (float)(first.low + first.high + second.low + second.high);
    int32_t start[2];
    starts(f, kind, first, second, start);
    for (int z = 0; z < 8; z++) memcpy(record + 4 * z * rows, &words[z], 4);
    memcpy(record + 4 * SB_X_SCALE * rows, &scale, 4);
    memcpy(record + 4 * SB_X_SUM * rows, &sum, 4);
    for (int i = 0; i < 2; i++) memcpy(record + 4 * (SB_X_START + i) * rows, &start[i], 4);
}

#endif
