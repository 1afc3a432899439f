/* A block of V as integers, for the SIMD rows (spec/ops/attention.md, section values). */
#ifndef SB_BLOCK_SIMD_H
#define SB_BLOCK_SIMD_H

#include "kernels/attention/dots_simd.h"

/* Rows a group: its sums, the values and a weight fit the registers. */
#if SB_VL == 16
#define GROUP_SUMS 16
#else
#define GROUP_SUMS 8
#endif
#define MAX_GROUP           4
#define MAX_DIRECT          1 /* rows that take 16-bit values where they lie; 2 and 4 gain nothing */
#define GROUP_VECTORS(rows) (GROUP_SUMS / 2 / ((rows) == 3 ? 4 : (rows)))

#define LOW_MASK         (((int64_t)1 << SB_SUM_SHIFT) - 1)
#define SUM_LIMIT        (0x1p62 + 0x1p50) /* of |low| plus what is added: below 2^63 */
#define NARROW_LIMIT     128.0f            /* below it v * 2^24 fits 32 bits */
#define FIRST_NOT_FINITE 0x7F800000        /* bits of +inf */
#define CUT              24                /* larger values: V = far * 2^CUT + near */

/* A block of values as integers, slot after slot. */
typedef struct {
    int64_t begin, keys;                  /* of the list */
    int64_t used;                         /* slots */
    int32_t slot_key[SB_ATTENTION_BLOCK]; /* key of the block */
    int32_t slot_of[SB_ATTENTION_BLOCK];  /* the reverse, for keys that have a slot */
    int32_t *near, *far;                  /* see value_at; not written if direct */
    float *wide;                          /* one row */
    const char *row[SB_ATTENTION_BLOCK];  /* of each slot, in V */
    int direct;                           /* 16-bit values become integers where they are used */
    vf first, second;                     /* the grid, see to_integer */
    int64_t width, stride, row_stride;
    double largest; /* largest |V|, |near| if cut */
    int has_far;
} value_block;

/* A block lies in strips of SB_VL columns, [strip][slot][SB_VL], so that one pass over the slots reads memory in
 * line. The extra line keeps the strips' starts apart in the cache. */
#define STRIP (SB_ATTENTION_BLOCK * SB_VL + 16)

SB_INLINE int64_t value_at(int64_t slot, int64_t column)
{
    return column / SB_VL * STRIP + slot * SB_VL + column % SB_VL;
}

/* The weights of a group of rows: keys where all are 0 are left out. */
typedef struct {
    int64_t count;
    int32_t slot[SB_ATTENTION_BLOCK];
    int32_t weight[SB_ATTENTION_BLOCK * MAX_GROUP];
} group_weights;

typedef struct {
    const sb_attention_part *part;
    double bound[SB_ATTENTION_ROWS];      /* of |low| */
    int64_t block_sum[SB_ATTENTION_ROWS]; /* of a row's weights in the block */
    value_block block;
    group_weights group;
    int64_t *spare; /* sums of far, MAX_GROUP rows */
} values_state;

typedef const int32_t __attribute__((may_alias)) weights_in_score;

SB_INLINE const float *block_score(const values_state *s, int row)
{
    return s->part->score + row * s->part->score_stride + s->block.begin;
}

/* RNE(v * first * second): two powers of two, since their product may pass f32's range. */
SB_INLINE vi to_integer(vf v, vf first, vf second) { return vf_round_i(vf_mul(vf_mul(v, first), second)); }

SB_INLINE int32_t largest_lane(vi x)
{
    int32_t lane[SB_VL], top = 0;
    vi_store(lane, x);
    for (int i = 0; i < SB_VL; i++) top = SB_MAX(top, lane[i]);
    return top;
}

/* Rows of V that need no rearranging become integers at once. Returns the bits of the largest |v|: whether the
 * integers are right is for the caller to see. The format is a constant. */
SB_INLINE int32_t convert_rows(samebits_format f, const values_state *s)
{
    const value_block *b = &s->block;
    const sb_kv *v = &s->part->v;
    const int fixed = f == SAMEBITS_FORMAT_F16;
    vi largest = vi_set1(0);
    for (int64_t u = 0; u < b->used; u++) {
        int64_t i = 0;
        for (; i < v->width; i += SB_VL) {
            const vf x = load_vector(f, b->row[u] + i * element_size(f));
            largest = vi_max(largest, vi_and(vf_bits(x), vi_set1(INT32_MAX)));
            vi_store(b->near + value_at(u, i),
                     fixed ? vf_round_i(vf_mul(x, b->second)) : to_integer(x, b->first, b->second));
        }
        for (; i < b->stride; i += SB_VL) vi_store(b->near + value_at(u, i), vi_set1(0));
    }
    return largest_lane(largest);
}

SB_INLINE vh magnitudes(vh x) { return vh_and(x, vh_set1(INT16_MAX)); }

/* The bits of the largest |v| of 16-bit rows, as f32. Widths are multiples of 8. */
static int32_t largest_of_rows(const values_state *s)
{
    const value_block *b = &s->block;
    vh first = vh_set1(0), second = first;
    for (int64_t u = 0; u < b->used; u++) {
        const char *row = b->row[u], *end = row + 2 * b->width;
        for (; row + 128 <= end; row += 128) {
            first = vh_max(first, vh_max(magnitudes(vh_load(row)), magnitudes(vh_load(row + 32))));
            second = vh_max(second, vh_max(magnitudes(vh_load(row + 64)), magnitudes(vh_load(row + 96))));
        }
        for (; row + 32 <= end; row += 32) first = vh_max(first, magnitudes(vh_load(row)));
        if (row < end) second = vh_max(second, magnitudes(vh_load_half(row)));
    }
    const uint16_t top = vh_largest(vh_max(first, second));
    return (int32_t)sb_bits(s->part->v.format == SAMEBITS_FORMAT_F16 ? sb_from_f16(top) : sb_from_bf16(top));
}

/* Widens the block's rows of V into `near`, as floats. Returns the bits of the largest |v|. */
static int32_t widen_block(const values_state *s)
{
    const value_block *b = &s->block;
    vi largest = vi_set1(0);
    for (int64_t u = 0; u < b->used; u++) {
        widen_any(&s->part->v, s->part->key[b->begin + b->slot_key[u]], b->wide);
        for (int64_t i = 0; i < b->stride; i += SB_VL) {
            const vf x = vf_load(b->wide + i);
            largest = vi_max(largest, vi_and(vf_bits(x), vi_set1(INT32_MAX)));
            vf_store((float *)(void *)(b->near + value_at(u, i)), x);
        }
    }
    return largest_lane(largest);
}

/* Non-finite values poison the columns that they reach with a weight other than 0, and count as 0 elsewhere.
 * Returns the bits of the largest |v| of the others. */
static int32_t poison_block(values_state *s, const int *row, int rows)
{
    const sb_attention_part *p = s->part;
    const value_block *b = &s->block;
    float largest = 0.0f;
    for (int64_t u = 0; u < b->used; u++)
        for (int64_t c = 0; c < p->v.width; c++) {
            float *v = (float *)(void *)(b->near + value_at(u, c));
            if (sb_is_finite(*v)) {
                largest = SB_MAX(largest, fabsf(*v));
                continue;
            }
            *v = 0.0f;
            for (int r = 0; r < rows; r++)
                if (sb_bits(block_score(s, row[r])[b->slot_key[u]])) p->poison[row[r] * p->sum_stride + c] = 1;
        }
    return (int32_t)sb_bits(largest);
}

/* The widened values become integers, in place: |v| * 2^grid < 2^31. */
static void to_integers(value_block *b)
{
    for (int64_t c = 0; c < b->stride; c += SB_VL)
        for (int64_t u = 0; u < b->used; u++) {
            int32_t *at = b->near + value_at(u, c);
            vi_store(at, to_integer(vf_load((const float *)(const void *)at), b->first, b->second));
        }
}

/* v = far + near * 2^-24 with far an integer and |near| <= 2^23. */
static void to_two_integers(value_block *b)
{
    const vf scale = vf_set1((float)(1 << CUT));
    for (int64_t c = 0; c < b->stride; c += SB_VL)
        for (int64_t u = 0; u < b->used; u++) {
            int32_t *at = b->near + value_at(u, c);
            const vf v = vf_load((const float *)(const void *)at), far = vf_round(v);
            vi_store(b->far + value_at(u, c), vf_round_i(far));
            vi_store(at, vf_round_i(vf_mul(vf_sub(v, far), scale)));
        }
    b->largest = 0x1p23;
    b->has_far = 1;
}

/* Whether values up to `largest` on the fixed grid fit 32 bits, and their sums with the block's weights 62. */
static int is_narrow(values_state *s, const int *row, int rows, int32_t largest)
{
    int64_t sum = 0;
    for (int r = 0; r < rows; r++) sum = SB_MAX(sum, s->block_sum[row[r]]);
    s->block.largest = (double)sb_float((uint32_t)largest) * 0x1p24;
    return sb_float((uint32_t)largest) < NARROW_LIMIT && (double)sum * s->block.largest <= 0x1p62;
}

/* Prepares the block's values for rows of one grid. A few rows take 16-bit values where they lie. */
static void prepare_block(values_state *s, const int *row, int rows, int grid)
{
    value_block *b = &s->block;
    const sb_kv *v = &s->part->v;
    const int fixed = sb_value_is_fixed(v->format), plain = is_contiguous(v) && v->width % SB_VL == 0;
    b->first = vf_set1((float)sb_exp2i(grid > 64 ? 64 : 0));
    b->second = vf_set1((float)sb_exp2i(grid > 64 ? grid - 64 : grid));
    b->has_far = 0;
    b->largest = 0x1p26;
    b->direct = plain && rows <= MAX_DIRECT && v->format != SAMEBITS_FORMAT_F32;
    for (int64_t u = 0; u < b->used; u++) b->row[u] = v->data + s->part->key[b->begin + b->slot_key[u]] * v->row_stride;
    int32_t largest = INT32_MAX;
    if (b->direct)
        largest = largest_of_rows(s);
    else if (plain && v->format == SAMEBITS_FORMAT_F16)
        largest = convert_rows(SAMEBITS_FORMAT_F16, s);
    else if (plain && v->format == SAMEBITS_FORMAT_BF16)
        largest = convert_rows(SAMEBITS_FORMAT_BF16, s);
    else if (plain)
        largest = convert_rows(SAMEBITS_FORMAT_F32, s);
    if (fixed ? is_narrow(s, row, rows, largest) : largest < FIRST_NOT_FINITE) return;
    b->direct = 0;
    largest = widen_block(s);
    if (largest >= FIRST_NOT_FINITE) largest = poison_block(s, row, rows);
    if (!fixed || is_narrow(s, row, rows, largest))
        to_integers(b);
    else
        to_two_integers(b);
}

#endif
