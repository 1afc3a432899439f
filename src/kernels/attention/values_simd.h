/* Weights and their exact sums with V, for the AVX2 and AVX-512 rows (spec/ops/attention.md, section sums).
 *
 * Weights (31 bits) and values (as i32) are multiplied into 64-bit lanes. Each row keeps a bound on its running
 * sums; before one could pass 2^63 the sums are carried into `high`. Values too large for that are cut in two. */
#ifndef SB_VALUES_SIMD_H
#define SB_VALUES_SIMD_H

#include "kernels/attention/dots_simd.h"
#include "order/exp_simd.h"

/* Rows a group: its sums, the values and a weight fit the registers. */
#if SB_VL == 16
#define GROUP_SUMS 16
#else
#define GROUP_SUMS 8
#endif
#define MAX_GROUP 4
#define GROUP_VECTORS(rows) (GROUP_SUMS / 2 / ((rows) == 3 ? 4 : (rows)))

#define LOW_MASK (((int64_t)1 << SB_SUM_SHIFT) - 1)
#define SUM_LIMIT (0x1p62 + 0x1p50) /* of |low| plus what is added: below 2^63 */
#define NARROW_LIMIT 128.0f         /* below it v * 2^24 fits 32 bits */
#define CUT 24                      /* larger values: V = far * 2^CUT + near */

/* A block of values as integers, slot after slot. */
typedef struct {
    int64_t used;                           /* slots */
    int64_t slot_key[SB_ATTENTION_BLOCK];   /* key of the list */
    int32_t *near, *far;                    /* [slot][stride]; far is NULL unless cut */
    int64_t stride;
    double largest;                         /* largest |V|, |near| if cut */
    int has_far;
} value_block;

/* The weights of a group of rows: keys where all are 0 are left out. */
typedef struct {
    int64_t count;
    int32_t slot[SB_ATTENTION_BLOCK];
    int32_t weight[SB_ATTENTION_BLOCK * MAX_GROUP];
    uint64_t sum[MAX_GROUP];
} group_weights;

typedef struct {
    const sb_attention_part *part;
    double bound[SB_ATTENTION_ROWS]; /* of |low| */
    value_block block;
    group_weights group;
    int64_t *spare; /* sums of far, MAX_GROUP rows */
} values_state;

/* Scores become weights, in place. */
SB_INLINE int64_t weigh_row(float *score, int64_t padded, float max)
{
    vl total = vl_zero();
    const vl low = vl_set1(0xFFFFFFFF);
    for (int64_t j = 0; j < padded; j += SB_VL) {
        const vi w = v_exp_weight(vf_sub(vf_load(score + j), vf_set1(max)));
        vi_store(score + j, w);
        total = vl_add(total, vl_add(vl_and((vl)w, low), vl_shr((vl)w, 32)));
    }
    int64_t lane[SB_VL / 2], sum = 0;
    vl_store(lane, total);
    for (int i = 0; i < SB_VL / 2; i++) sum += lane[i];
    return sum;
}

/* sum[r][column] += weight * value over the keys of a group. rows and vectors are constants. */
SB_INLINE void accumulate(int rows, int vectors, const group_weights *g, const int32_t *values, int64_t stride,
                          int64_t *const sum[MAX_GROUP], int64_t column)
{
    vl even[MAX_GROUP][GROUP_SUMS / 2], odd[MAX_GROUP][GROUP_SUMS / 2];
    SB_UNROLL for (int r = 0; r < rows; r++)
        SB_UNROLL for (int v = 0; v < vectors; v++) {
            even[r][v] = vl_load(sum[r] + column + v * SB_VL);
            odd[r][v] = vl_load(sum[r] + column + v * SB_VL + SB_VL / 2);
        }
    for (int64_t i = 0; i < g->count; i++) {
        const int32_t *row = values + g->slot[i] * stride + column;
        SB_UNROLL for (int v = 0; v < vectors; v++) {
            const vi x = vi_load(row + v * SB_VL), y = vi_odd(x);
            SB_UNROLL for (int r = 0; r < rows; r++) {
                const vi w = vi_set1(g->weight[i * rows + r]);
                even[r][v] = vl_add(even[r][v], vi_mul_even(w, x));
                odd[r][v] = vl_add(odd[r][v], vi_mul_even(w, y));
            }
        }
    }
    SB_UNROLL for (int r = 0; r < rows; r++)
        SB_UNROLL for (int v = 0; v < vectors; v++) {
            vl_store(sum[r] + column + v * SB_VL, even[r][v]);
            vl_store(sum[r] + column + v * SB_VL + SB_VL / 2, odd[r][v]);
        }
}

SB_INLINE void accumulate_rows(int rows, const group_weights *g, const int32_t *values, int64_t stride,
                               int64_t *const sum[MAX_GROUP])
{
    int64_t column = 0;
    for (; column + GROUP_VECTORS(rows) * SB_VL <= stride; column += GROUP_VECTORS(rows) * SB_VL)
        accumulate(rows, GROUP_VECTORS(rows), g, values, stride, sum, column);
    for (; column < stride; column += SB_VL) accumulate(rows, 1, g, values, stride, sum, column);
}

static void accumulate_any(int rows, const group_weights *g, const int32_t *values, int64_t stride,
                           int64_t *const sum[MAX_GROUP])
{
    switch (rows) {
    case 1: accumulate_rows(1, g, values, stride, sum); break;
    case 2: accumulate_rows(2, g, values, stride, sum); break;
    case 3: accumulate_rows(3, g, values, stride, sum); break;
    default: accumulate_rows(4, g, values, stride, sum); break;
    }
}

/* x >> SB_SUM_SHIFT, rounding down. */
SB_INLINE vl shift_sum(vl x)
{
    const int64_t sign = INT64_MIN;
    return vl_sub(vl_shr(vl_xor(x, vl_set1(sign)), SB_SUM_SHIFT), vl_set1((int64_t)1 << (63 - SB_SUM_SHIFT)));
}

static void carry(int64_t *high, int64_t *low, int64_t count)
{
    for (int64_t i = 0; i < count; i += SB_VL / 2) {
        const vl x = vl_load(low + i);
        vl_store(high + i, vl_add(vl_load(high + i), shift_sum(x)));
        vl_store(low + i, vl_and(x, vl_set1(LOW_MASK)));
    }
}

/* high:low += far * 2^CUT. */
static void add_far(int64_t *high, int64_t *low, const int64_t *far, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        high[i] += far[i] >> (SB_SUM_SHIFT - CUT);
        low[i] += (far[i] & (((int64_t)1 << (SB_SUM_SHIFT - CUT)) - 1)) * ((int64_t)1 << CUT);
    }
    carry(high, low, count);
}

/* Rows of `row`, whose weights are in the group, take the block. */
static void take_group(values_state *s, const int *row, int rows)
{
    const sb_attention_part *p = s->part;
    const value_block *b = &s->block;
    const int64_t stride = p->sum_stride;
    int64_t *low[MAX_GROUP] = {0}, *far[MAX_GROUP] = {0};
    for (int r = 0; r < rows; r++) {
        const double more = (double)s->group.sum[r] * b->largest;
        low[r] = p->low + row[r] * stride;
        if (s->bound[row[r]] + more > SUM_LIMIT) {
            carry(p->high + row[r] * stride, low[r], stride);
            s->bound[row[r]] = 0x1p48;
        }
        s->bound[row[r]] += more;
        far[r] = s->spare + r * stride;
    }
    accumulate_any(rows, &s->group, b->near, stride, low);
    if (!b->has_far) return;
    memset(s->spare, 0, (size_t)(rows * stride) * sizeof *s->spare);
    accumulate_any(rows, &s->group, b->far, stride, far);
    for (int r = 0; r < rows; r++) {
        add_far(p->high + row[r] * stride, low[r], far[r], stride);
        s->bound[row[r]] = 0x1p48;
    }
}

typedef const int32_t __attribute__((may_alias)) weights_in_score;

static void gather_group(values_state *s, const int *row, int rows)
{
    const value_block *b = &s->block;
    group_weights *g = &s->group;
    weights_in_score *w[MAX_GROUP];
    for (int r = 0; r < rows; r++) {
        w[r] = (weights_in_score *)(s->part->score + row[r] * s->part->score_stride);
        g->sum[r] = 0;
    }
    g->count = 0;
    for (int64_t u = 0; u < b->used; u++) {
        int32_t any = 0;
        for (int r = 0; r < rows; r++) {
            const int32_t x = w[r][b->slot_key[u]];
            g->weight[g->count * rows + r] = x;
            g->sum[r] += (uint64_t)x;
            any |= x;
        }
        g->slot[g->count] = (int32_t)u;
        g->count += any != 0;
    }
}

/* Widens the block's rows of V into `near`, as floats. Returns the bits of the largest |v|. */
static int32_t widen_block(const values_state *s)
{
    const value_block *b = &s->block;
    vi largest = vi_set1(0);
    for (int64_t u = 0; u < b->used; u++) {
        float *wide = (float *)(void *)(b->near + u * b->stride);
        widen_any(&s->part->v, s->part->key[b->slot_key[u]], wide);
        for (int64_t i = 0; i < b->stride; i += SB_VL)
            largest = vi_max(largest, vi_and(vf_bits(vf_load(wide + i)), vi_set1(INT32_MAX)));
    }
    int32_t lane[SB_VL], top = 0;
    vi_store(lane, largest);
    for (int i = 0; i < SB_VL; i++) top = SB_MAX(top, lane[i]);
    return top;
}

/* Non-finite values poison the columns that they reach with a weight other than 0, and count as 0 elsewhere. */
static void poison_block(values_state *s, const int *row, int rows)
{
    const sb_attention_part *p = s->part;
    const value_block *b = &s->block;
    for (int64_t u = 0; u < b->used; u++)
        for (int64_t c = 0; c < p->v.width; c++) {
            float *v = (float *)(void *)(b->near + u * b->stride) + c;
            if (sb_is_finite(*v)) continue;
            *v = 0.0f;
            for (int r = 0; r < rows; r++)
                if (sb_bits(p->score[row[r] * p->score_stride + b->slot_key[u]]))
                    p->poison[row[r] * p->sum_stride + c] = 1;
        }
}

/* The widened values become integers, in place: |v| * 2^grid < 2^31. */
static void to_integers(value_block *b, int grid)
{
    const vf first = vf_set1((float)sb_exp2i(grid > 64 ? 64 : 0)), second = vf_set1((float)sb_exp2i(grid > 64 ? grid - 64 : grid));
    for (int64_t i = 0; i < b->used * b->stride; i += SB_VL) {
        int32_t *v = b->near + i;
        vi_store(v, vf_round_i(vf_mul(vf_mul(vf_load((const float *)(const void *)v), first), second)));
    }
    b->has_far = 0;
}

/* v = far + near * 2^-24 with far an integer and |near| <= 2^23. */
static void to_two_integers(value_block *b)
{
    const vf scale = vf_set1((float)(1 << CUT));
    for (int64_t i = 0; i < b->used * b->stride; i += SB_VL) {
        const vf v = vf_load((const float *)(const void *)(b->near + i)), far = vf_round(v);
        vi_store(b->far + i, vf_round_i(far));
        vi_store(b->near + i, vf_round_i(vf_mul(vf_sub(v, far), scale)));
    }
    b->largest = 0x1p23;
    b->has_far = 1;
}

/* The largest sum of weights of a row in the block. */
static double heaviest(const values_state *s, const int *row, int rows)
{
    uint64_t top = 0;
    for (int r = 0; r < rows; r++) {
        uint64_t sum = 0;
        weights_in_score *w = (weights_in_score *)(s->part->score + row[r] * s->part->score_stride);
        for (int64_t u = 0; u < s->block.used; u++) sum += (uint64_t)w[s->block.slot_key[u]];
        top = SB_MAX(top, sum);
    }
    return (double)top;
}

/* Prepares the block's values for rows of one grid. */
static void prepare_block(values_state *s, const int *row, int rows, int grid)
{
    value_block *b = &s->block;
    int32_t top = widen_block(s);
    if (top >= 0x7F800000) {
        poison_block(s, row, rows);
        vi largest = vi_set1(0);
        for (int64_t i = 0; i < b->used * b->stride; i += SB_VL)
            largest = vi_max(largest, vi_and(vi_load(b->near + i), vi_set1(INT32_MAX)));
        int32_t lane[SB_VL];
        vi_store(lane, largest);
        top = 0;
        for (int i = 0; i < SB_VL; i++) top = SB_MAX(top, lane[i]);
    }
    if (!sb_value_is_fixed(s->part->v.format)) {
        b->largest = 0x1p26;
        to_integers(b, grid);
        return;
    }
    b->largest = (double)sb_float((uint32_t)top) * 0x1p24;
    if (sb_float((uint32_t)top) < NARROW_LIMIT && heaviest(s, row, rows) * b->largest <= 0x1p62)
        to_integers(b, grid);
    else
        to_two_integers(b);
}

/* The keys of [begin, end) that any row gives a weight. */
static void find_used(values_state *s, const int *row, int rows, int64_t begin, int64_t end)
{
    int32_t any[SB_ATTENTION_BLOCK];
    for (int64_t j = begin; j < end; j += SB_VL) {
        vi x = vi_set1(0);
        for (int r = 0; r < rows; r++) x = vi_or(x, vi_load(s->part->score + row[r] * s->part->score_stride + j));
        vi_store(any + (j - begin), x);
    }
    s->block.used = 0;
    for (int64_t j = begin; j < end; j++) {
        s->block.slot_key[s->block.used] = j;
        s->block.used += any[j - begin] != 0;
    }
}

/* All keys for the rows of one grid. */
static void take_rows(values_state *s, const int *row, int rows, int grid)
{
    for (int64_t j = 0; j < s->part->keys; j += SB_ATTENTION_BLOCK) {
        find_used(s, row, rows, j, SB_MIN(j + SB_ATTENTION_BLOCK, s->part->keys));
        if (!s->block.used) continue;
        prepare_block(s, row, rows, grid);
        for (int r = 0; r < rows; r += MAX_GROUP) {
            const int group = SB_MIN(MAX_GROUP, rows - r);
            gather_group(s, row + r, group);
            if (s->group.count) take_group(s, row + r, group);
        }
    }
}

static void part_values(const sb_attention_part *p)
{
    values_state s;
    int todo[SB_ATTENTION_ROWS], left = 0;
    s.part = p;
    s.block.stride = p->sum_stride;
    s.block.near = p->scratch;
    s.block.far = s.block.near + SB_ATTENTION_BLOCK * p->sum_stride;
    s.spare = (int64_t *)(void *)(s.block.far + SB_ATTENTION_BLOCK * p->sum_stride);
    memset(p->high, 0, (size_t)(p->rows * p->sum_stride) * sizeof *p->high);
    memset(p->low, 0, (size_t)(p->rows * p->sum_stride) * sizeof *p->low);
    memset(p->poison, 0, (size_t)(p->rows * p->sum_stride));
    for (int r = 0; r < p->rows; r++) {
        s.bound[r] = 0.0;
        p->total[r] = 0;
        if (!(p->max[r] > -INFINITY)) continue;
        p->total[r] = weigh_row(p->score + r * p->score_stride, sb_round_up(p->keys, SB_ATTENTION_PAD), p->max[r]);
        todo[left++] = r;
    }
    while (left) {
        int row[SB_ATTENTION_ROWS], rows = 0, rest = 0;
        const int grid = p->grid[todo[0]];
        for (int i = 0; i < left; i++) {
            if (p->grid[todo[i]] == grid)
                row[rows++] = todo[i];
            else
                todo[rest++] = todo[i];
        }
        left = rest;
        take_rows(&s, row, rows, grid);
    }
    for (int r = 0; r < p->rows; r++) carry(p->high + r * p->sum_stride, p->low + r * p->sum_stride, p->sum_stride);
}

/* Where the sums keep a column: even columns of a vector first, then the odd ones. */
SB_INLINE int64_t sum_index(int64_t column)
{
    return column / SB_VL * SB_VL + column % 2 * (SB_VL / 2) + column % SB_VL / 2;
}

static void finish(const sb_attention_sums *s)
{
    const double total = (double)s->total, unit = sb_exp2i(-s->grid);
    for (int64_t c = 0; c < s->width; c++) {
        const int64_t i = sum_index(c);
        const __int128 sum = (__int128)s->high[i] * ((int64_t)1 << SB_SUM_SHIFT) + s->low[i];
        s->out[c] = s->poison[c] ? sb_float(SB_NAN_F32) : s->total ? (float)((double)sum / total * unit) : 0.0f;
    }
}

#endif
