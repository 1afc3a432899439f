/* Weights and their exact sums with V, for the SIMD rows (spec/ops/attention.md, section sums).
 *
 * Weights (31 bits) and values (as i32) are multiplied into 64-bit lanes. Each row keeps a bound on its running
 * sums; before one could pass 2^63 the sums are carried into `high`. Values too large for that are cut in two. */
#ifndef SB_VALUES_SIMD_H
#define SB_VALUES_SIMD_H

#include "kernels/attention/block_simd.h"
#include "order/exp_simd.h"

/* The block's scores become weights, in place; `any` gathers their bits. Returns their sum. */
SB_INLINE int64_t weigh_row(float *score, int64_t vectors, float max, vi any[SB_ATTENTION_BLOCK / SB_VL])
{
    vl total = vl_zero();
    for (int64_t v = 0; v < vectors; v++) {
        const vi w = v_exp_weight(vf_sub(vf_load(score + v * SB_VL), vf_set1(max)));
        vi_store(score + v * SB_VL, w);
        any[v] = vi_or(any[v], w);
        /* Up to 2^30 each: two of them fit 32 bits. */
        total = vl_add(total, vl_and(vi_as_l(vi_add(w, vi_odd(w))), vl_set1(0xFFFFFFFF)));
    }
    int64_t lane[SB_VL / 2], sum = 0;
    vl_store(lane, total);
    for (int i = 0; i < SB_VL / 2; i++) sum += lane[i];
    return sum;
}

/* The integers at a column of a slot. The source is F16 or BF16 for values where they lie, F32 for those of
 * `values`. */
SB_INLINE vi load_values(samebits_format source, const value_block *b, const int32_t *values, int32_t slot,
                         int64_t column)
{
    if (source == SAMEBITS_FORMAT_F32) return vi_load(values + value_at(slot, column));
    const vf v = load_vector(source, b->row[slot] + 2 * column);
    return source == SAMEBITS_FORMAT_F16 ? vf_round_i(vf_mul(v, b->second)) : to_integer(v, b->first, b->second);
}

/* sum[r][column] += weight * value over the keys of a group. source, rows and vectors are constants. */
SB_INLINE void accumulate(samebits_format source, int rows, int vectors, const group_weights *g, const value_block *b,
                          const int32_t *values, int64_t *const sum[MAX_GROUP], int64_t column)
{
    vl even[MAX_GROUP][GROUP_SUMS / 2], odd[MAX_GROUP][GROUP_SUMS / 2];
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) {
        even[r][v] = vl_load(sum[r] + column + v * SB_VL);
        odd[r][v] = vl_load(sum[r] + column + v * SB_VL + SB_VL / 2);
    }
    for (int64_t i = 0; i < g->count; i++) {
        /* What the next block wants, if it lies where most do. A wrong address does no harm. */
        if (source != SAMEBITS_FORMAT_F32 && 2 * column % 64 == 0)
            v_prefetch(b->row[g->slot[i]] + 2 * column + SB_ATTENTION_BLOCK * b->row_stride);
        SB_UNROLL
        for (int v = 0; v < vectors; v++) {
            const vi x = load_values(source, b, values, g->slot[i], column + v * SB_VL), y = vi_odd(x);
            SB_UNROLL
            for (int r = 0; r < rows; r++) {
                const vi w = vi_set1(g->weight[i * rows + r]);
                even[r][v] = vl_add(even[r][v], vi_mul_even(w, x));
                odd[r][v] = vl_add(odd[r][v], vi_mul_even(w, y));
            }
        }
    }
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) {
        vl_store(sum[r] + column + v * SB_VL, even[r][v]);
        vl_store(sum[r] + column + v * SB_VL + SB_VL / 2, odd[r][v]);
    }
}

SB_INLINE void accumulate_rows(samebits_format source, int rows, const group_weights *g, const value_block *b,
                               const int32_t *values, int64_t *const sum[MAX_GROUP])
{
    const int64_t width = source == SAMEBITS_FORMAT_F32 ? b->stride : b->width, step = GROUP_VECTORS(rows) * SB_VL;
    int64_t column = 0;
    for (; column + step <= width; column += step)
        accumulate(source, rows, GROUP_VECTORS(rows), g, b, values, sum, column);
    for (; column < width; column += SB_VL) accumulate(source, rows, 1, g, b, values, sum, column);
}

#define ACCUMULATE(source)                                                                                             \
    switch (rows) {                                                                                                    \
    case 1: accumulate_rows(source, 1, g, b, values, sum); break;                                                      \
    case 2: accumulate_rows(source, 2, g, b, values, sum); break;                                                      \
    case 3: accumulate_rows(source, 3, g, b, values, sum); break;                                                      \
    default: accumulate_rows(source, 4, g, b, values, sum); break;                                                     \
    }

static void accumulate_any(int rows, const group_weights *g, const value_block *b, samebits_format source,
                           const int32_t *values, int64_t *const sum[MAX_GROUP])
{
    if (source == SAMEBITS_FORMAT_F16) {
        ACCUMULATE(SAMEBITS_FORMAT_F16)
    } else if (source == SAMEBITS_FORMAT_BF16) {
        ACCUMULATE(SAMEBITS_FORMAT_BF16)
    } else {
        ACCUMULATE(SAMEBITS_FORMAT_F32)
    }
}
#undef ACCUMULATE

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
        const double more = (double)s->block_sum[row[r]] * b->largest;
        low[r] = p->low + row[r] * stride;
        if (s->bound[row[r]] + more > SUM_LIMIT) {
            carry(p->high + row[r] * stride, low[r], stride);
            s->bound[row[r]] = 0x1p48;
        }
        s->bound[row[r]] += more;
        far[r] = s->spare + r * stride;
    }
    accumulate_any(rows, &s->group, b, b->direct ? p->v.format : SAMEBITS_FORMAT_F32, b->near, low);
    if (!b->has_far) return;
    memset(s->spare, 0, (size_t)(rows * stride) * sizeof *s->spare);
    accumulate_any(rows, &s->group, b, SAMEBITS_FORMAT_F32, b->far, far);
    for (int r = 0; r < rows; r++) {
        add_far(p->high + row[r] * stride, low[r], far[r], stride);
        s->bound[row[r]] = 0x1p48;
    }
}

/* Four rows by four keys at a time. The last store may be of a key without weights; the next one, or nobody,
 * takes its place. */
static void gather_four(values_state *s, const int *row)
{
    const value_block *b = &s->block;
    group_weights *g = &s->group;
    const float *w[4] = {block_score(s, row[0]), block_score(s, row[1]), block_score(s, row[2]),
                         block_score(s, row[3])};
    int64_t count = 0;
    for (int64_t j = 0; j < b->keys; j += 4) {
        vq key[4];
        for (int i = 0; i < 4; i++) key[i] = vq_load(w[i] + j);
        vq_transpose(key);
        for (int i = 0; i < 4; i++) {
            vq_store((float *)(void *)(g->weight + 4 * count), key[i]);
            g->slot[count] = b->slot_of[j + i];
            count += vq_has_bits(key[i]);
        }
    }
    g->count = count;
}

static void gather_group(values_state *s, const int *row, int rows)
{
    const value_block *b = &s->block;
    group_weights *g = &s->group;
    if (rows == 4) {
        gather_four(s, row);
        return;
    }
    weights_in_score *w[MAX_GROUP];
    for (int r = 0; r < rows; r++) w[r] = (weights_in_score *)block_score(s, row[r]);
    g->count = 0;
    for (int64_t u = 0; u < b->used; u++) {
        int32_t any = 0;
        for (int r = 0; r < rows; r++) {
            const int32_t x = w[r][b->slot_key[u]];
            g->weight[g->count * rows + r] = x;
            any |= x;
        }
        g->slot[g->count] = (int32_t)u;
        g->count += any != 0;
    }
}

/* Weights of the block's keys for rows of one grid, and the keys that any row gives a weight. */
static void weigh_block(values_state *s, const int *row, int rows)
{
    value_block *b = &s->block;
    const int64_t vectors = sb_ceil_div(b->keys, SB_VL);
    vi any[SB_ATTENTION_BLOCK / SB_VL];
    int32_t bits[SB_ATTENTION_BLOCK];
    for (int64_t v = 0; v < vectors; v++) any[v] = vi_set1(0);
    for (int r = 0; r < rows; r++) {
        float *score = s->part->score + row[r] * s->part->score_stride + b->begin;
        s->block_sum[row[r]] = weigh_row(score, vectors, s->part->max[row[r]], any);
        s->part->total[row[r]] += s->block_sum[row[r]];
    }
    for (int64_t v = 0; v < vectors; v++) vi_store(bits + v * SB_VL, any[v]);
    b->used = 0;
    for (int64_t j = 0; j < b->keys; j++) {
        b->slot_key[b->used] = (int32_t)j;
        b->slot_of[j] = (int32_t)b->used;
        b->used += bits[j] != 0;
    }
}

/* All keys for the rows of one grid. */
static void take_rows(values_state *s, const int *row, int rows, int grid)
{
    for (int64_t j = 0; j < s->part->keys; j += SB_ATTENTION_BLOCK) {
        s->block.begin = j;
        s->block.keys = SB_MIN(SB_ATTENTION_BLOCK, s->part->keys - j);
        weigh_block(s, row, rows);
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
    s.block.width = p->v.width;
    s.block.row_stride = p->v.row_stride;
    s.block.stride = p->sum_stride;
    s.block.near = p->scratch;
    s.block.far = s.block.near + p->sum_stride / SB_VL * STRIP;
    s.spare = (int64_t *)(void *)(s.block.far + p->sum_stride / SB_VL * STRIP);
    s.block.wide = (float *)(void *)(s.spare + MAX_GROUP * p->sum_stride);
    memset(p->high, 0, (size_t)(p->rows * p->sum_stride) * sizeof *p->high);
    memset(p->low, 0, (size_t)(p->rows * p->sum_stride) * sizeof *p->low);
    memset(p->poison, 0, (size_t)(p->rows * p->sum_stride));
    for (int r = 0; r < p->rows; r++) {
        s.bound[r] = 0.0;
        p->total[r] = 0;
        if (p->max[r] > -INFINITY) todo[left++] = r;
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

static float finish_column(const sb_attention_sums *s, int64_t column, double total, double unit)
{
    const int64_t i = sum_index(column), high = s->high[i], low = s->low[i];
    if (s->poison[column]) return sb_float(SB_NAN_F32);
    if (!s->total) return 0.0f;
    /* Below 2^53 both parts are doubles, and their sum rounds once. */
    double sum = (double)high * 0x1p48 + (double)low;
    if (high >= (int64_t)1 << 53 || high <= -((int64_t)1 << 53))
        sum = (double)((__int128)high * ((int64_t)1 << SB_SUM_SHIFT) + low);
    return (float)(sum / total * unit);
}

/* For -2^51 <= x < 2^51: added to the bits of 1.5 * 2^52, whose last bit stands for 1. */
SB_INLINE vd to_double(vl x)
{
    const double base = 0x1.8p52;
    int64_t bits;
    memcpy(&bits, &base, sizeof bits);
    return vd_add(vl_as_d(vl_add(x, vl_set1(bits))), vd_set1(-base));
}

/* Whether to_double takes all sums: `low` has 48 bits and those that parts of the keys add to it. */
static int is_double(const sb_attention_sums *s)
{
    const int64_t half = (int64_t)1 << 51;
    vl wide = vl_zero();
    for (int64_t i = 0; i < s->width; i += SB_VL / 2) {
        wide = vl_or(wide, vl_add(vl_load(s->high + i), vl_set1(half)));
        wide = vl_or(wide, vl_add(vl_load(s->low + i), vl_set1(half)));
    }
    int64_t lane[SB_VL / 2], all = 0;
    vl_store(lane, wide);
    for (int i = 0; i < SB_VL / 2; i++) all |= lane[i];
    return all >= 0 && all < 2 * half;
}

SB_INLINE vd finish_half(const sb_attention_sums *s, int64_t i, double total, double unit)
{
    const vd sum = vd_fma(to_double(vl_load(s->high + i)), vd_set1(0x1p48), to_double(vl_load(s->low + i)));
    return vd_mul(vd_div(sum, vd_set1(total)), vd_set1(unit));
}

static void finish(const sb_attention_sums *s)
{
    const double total = (double)s->total, unit = sb_exp2i(-s->grid);
    int64_t c = 0;
    if (s->total && !memchr(s->poison, 1, (size_t)s->width) && is_double(s))
        for (; c + SB_VL <= s->width; c += SB_VL)
            vf_store(s->out + c,
                     vd_interleave(finish_half(s, c, total, unit), finish_half(s, c + SB_VL / 2, total, unit)));
    for (; c < s->width; c++) s->out[c] = finish_column(s, c, total, unit);
}

#endif
