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
#define MAX_DIRECT 1 /* rows that take 16-bit values where they lie; 2 and 4 gain nothing */
#define GROUP_VECTORS(rows) (GROUP_SUMS / 2 / ((rows) == 3 ? 4 : (rows)))

#define LOW_MASK (((int64_t)1 << SB_SUM_SHIFT) - 1)
#define SUM_LIMIT (0x1p62 + 0x1p50) /* of |low| plus what is added: below 2^63 */
#define NARROW_LIMIT 128.0f         /* below it v * 2^24 fits 32 bits */
#define FIRST_NOT_FINITE 0x7F800000 /* bits of +inf */
#define CUT 24                      /* larger values: V = far * 2^CUT + near */

/* A block of values as integers, slot after slot. */
typedef struct {
    int64_t begin, keys;                    /* of the list */
    int64_t used;                           /* slots */
    int32_t slot_key[SB_ATTENTION_BLOCK];   /* key of the block */
    int32_t slot_of[SB_ATTENTION_BLOCK];    /* the reverse, for keys that have a slot */
    int32_t *near, *far;                    /* see value_at; not written if direct */
    float *wide;                            /* one row */
    const char *row[SB_ATTENTION_BLOCK];    /* of each slot, in V */
    int direct;                             /* 16-bit values become integers where they are used */
    vf first, second;                       /* the grid, see to_integer */
    int64_t width, stride;
    double largest;                         /* largest |V|, |near| if cut */
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
    double bound[SB_ATTENTION_ROWS];     /* of |low| */
    int64_t block_sum[SB_ATTENTION_ROWS]; /* of a row's weights in the block */
    value_block block;
    group_weights group;
    int64_t *spare; /* sums of far, MAX_GROUP rows */
} values_state;

/* The block's scores become weights, in place; `any` gathers their bits. Returns their sum. */
SB_INLINE int64_t weigh_row(float *score, int64_t vectors, float max, vi any[SB_ATTENTION_BLOCK / SB_VL])
{
    vl total = vl_zero();
    for (int64_t v = 0; v < vectors; v++) {
        const vi w = v_exp_weight(vf_sub(vf_load(score + v * SB_VL), vf_set1(max)));
        vi_store(score + v * SB_VL, w);
        any[v] = vi_or(any[v], w);
        /* Up to 2^30 each: two of them fit 32 bits. */
        total = vl_add(total, vl_and((vl)vi_add(w, vi_odd(w)), vl_set1(0xFFFFFFFF)));
    }
    int64_t lane[SB_VL / 2], sum = 0;
    vl_store(lane, total);
    for (int i = 0; i < SB_VL / 2; i++) sum += lane[i];
    return sum;
}

/* RNE(v * first * second): two powers of two, since their product may pass f32's range. */
SB_INLINE vi to_integer(vf v, vf first, vf second) { return vf_round_i(vf_mul(vf_mul(v, first), second)); }

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
    SB_UNROLL for (int r = 0; r < rows; r++)
        SB_UNROLL for (int v = 0; v < vectors; v++) {
            even[r][v] = vl_load(sum[r] + column + v * SB_VL);
            odd[r][v] = vl_load(sum[r] + column + v * SB_VL + SB_VL / 2);
        }
    for (int64_t i = 0; i < g->count; i++) {
        SB_UNROLL for (int v = 0; v < vectors; v++) {
            const vi x = load_values(source, b, values, g->slot[i], column + v * SB_VL), y = vi_odd(x);
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

SB_INLINE void accumulate_rows(samebits_format source, int rows, const group_weights *g, const value_block *b,
                               const int32_t *values, int64_t *const sum[MAX_GROUP])
{
    const int64_t width = source == SAMEBITS_FORMAT_F32 ? b->stride : b->width, step = GROUP_VECTORS(rows) * SB_VL;
    int64_t column = 0;
    for (; column + step <= width; column += step)
        accumulate(source, rows, GROUP_VECTORS(rows), g, b, values, sum, column);
    for (; column < width; column += SB_VL) accumulate(source, rows, 1, g, b, values, sum, column);
}

#define ACCUMULATE(source)                                                  \
    switch (rows) {                                                         \
    case 1: accumulate_rows(source, 1, g, b, values, sum); break;           \
    case 2: accumulate_rows(source, 2, g, b, values, sum); break;           \
    case 3: accumulate_rows(source, 3, g, b, values, sum); break;           \
    default: accumulate_rows(source, 4, g, b, values, sum); break;          \
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

typedef const int32_t __attribute__((may_alias)) weights_in_score;

SB_INLINE const float *block_score(const values_state *s, int row)
{
    return s->part->score + row * s->part->score_stride + s->block.begin;
}

/* Four rows by four keys at a time. The last store may be of a key without weights; the next one, or nobody,
 * takes its place. */
static void gather_four(values_state *s, const int *row)
{
    const value_block *b = &s->block;
    group_weights *g = &s->group;
    const float *w[4] = {block_score(s, row[0]), block_score(s, row[1]), block_score(s, row[2]), block_score(s, row[3])};
    int64_t count = 0;
    for (int64_t j = 0; j < b->keys; j += 4) {
        __m128 key[4];
        for (int i = 0; i < 4; i++) key[i] = _mm_loadu_ps(w[i] + j);
        _MM_TRANSPOSE4_PS(key[0], key[1], key[2], key[3]);
        for (int i = 0; i < 4; i++) {
            const __m128i x = _mm_castps_si128(key[i]);
            _mm_storeu_si128((__m128i *)(void *)(g->weight + 4 * count), x);
            g->slot[count] = b->slot_of[j + i];
            count += !_mm_testz_si128(x, x);
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
            vi_store(b->near + value_at(u, i), fixed ? vf_round_i(vf_mul(x, b->second)) : to_integer(x, b->first, b->second));
        }
        for (; i < b->stride; i += SB_VL) vi_store(b->near + value_at(u, i), vi_set1(0));
    }
    return largest_lane(largest);
}

/* The bits of the largest |v| of 16-bit rows, as f32. */
static int32_t largest_of_rows(const values_state *s)
{
    const value_block *b = &s->block;
    const __m256i magnitude = _mm256_set1_epi16(INT16_MAX);
    __m256i largest = _mm256_setzero_si256();
    uint16_t lane[16], top = 0;
    for (int64_t u = 0; u < b->used; u++) {
        int64_t i = 0;
        for (; i + 16 <= b->width; i += 16) {
            const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(b->row[u] + 2 * i));
            largest = _mm256_max_epu16(largest, _mm256_and_si256(x, magnitude));
        }
        if (i < b->width) { /* widths are multiples of 8 here */
            const __m256i x = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(b->row[u] + 2 * i)));
            largest = _mm256_max_epu16(largest, _mm256_and_si256(_mm256_zextsi128_si256(_mm256_castsi256_si128(x)), magnitude));
        }
    }
    _mm256_storeu_si256((__m256i *)(void *)lane, largest);
    for (int i = 0; i < 16; i++) top = SB_MAX(top, lane[i]);
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

static void finish(const sb_attention_sums *s)
{
    const double total = (double)s->total, unit = sb_exp2i(-s->grid);
    for (int64_t c = 0; c < s->width; c++) {
        const int64_t i = sum_index(c), high = s->high[i], low = s->low[i];
        /* Below 2^53 both parts are doubles, and their sum rounds once. */
        double sum = (double)high * 0x1p48 + (double)low;
        if (high >= (int64_t)1 << 53 || high <= -((int64_t)1 << 53))
            sum = (double)((__int128)high * ((int64_t)1 << SB_SUM_SHIFT) + low);
        s->out[c] = s->poison[c] ? sb_float(SB_NAN_F32) : s->total ? (float)(sum / total * unit) : 0.0f;
    }
}

#endif
