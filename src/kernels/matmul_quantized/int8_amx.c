/* int8-1 on AMX's tiles: for each step of 32 k, 16 rows of x meet the 16 columns of a panel in one product of bytes,
 * whose sums are the exact integers of the order.
 *
 * A chunk of a panel is decoded to signed bytes once for all rows (AFFINE_8's are unsigned). The integers go through
 * memory to vectors, where a lane is a column: each of the 16 rows has its acc in a register for the whole chunk. The
 * product of the next step is begun before the integers of this one are taken up, so that the two overlap.
 *
 * Formats with two scales a step are not here: two products of 16 k a step are no faster than VNNI. */
#include "base/tiles.h"
#include "kernels/matmul_quantized/int8.h"
#include "kernels/matmul_quantized/panel_simd.h"

enum {
    ROWS = SB_TILE_ROWS,
    CHUNK_STEPS = 16 /* decoded at once */,
    RECORD = SB_X_DWORDS * ROWS /* words of x a step */
};

/* A chunk of a panel, decoded, and what comes next. */
typedef struct {
    int8_t w[CHUNK_STEPS][8 * SB_PLANE];
    float d[CHUNK_STEPS][SB_PANEL], m[CHUNK_STEPS][SB_PANEL];
    int count;            /* steps */
    int first;            /* acc begins here */
    const uint8_t *ahead; /* the quants that come next, */
    int step_bytes;       /* and how much of them a step of this chunk brings into cache */
} __attribute__((aligned(64))) chunk;

/* The integers of a step. */
typedef struct {
    int32_t row[ROWS][SB_PANEL];
} __attribute__((aligned(64))) sums;

/* Decodes the chunk's steps, from `begin` of the panel on. */
SB_INLINE void decode(samebits_format f, const sb_matmul_args *a, const uint8_t *panel, int64_t begin, chunk *out)
{
    const uint8_t *scales = sb_quant_scales(f, panel, a->k);
    const vi offset = vi_set1((int32_t)(0x01010101u * (uint32_t)sb_quant_offset(f)));
    for (int s = 0; s < out->count; s++) {
        const uint8_t *step = panel + (begin + s) * sb_quant_step_bytes(f);
        SB_UNROLL
        for (int n = 0; n < 8; n++)
            vi_store(out->w[s] + n * SB_PLANE, vi_sub8(read_plane(f, step, n / 4, n % 4), offset));
        const step_scales r = read_scales(f, a->group, scales, begin + s, 0);
        vf_store(out->d[s], r.d);
        if (sb_quant_has_min(f)) vf_store(out->m[s], r.m);
    }
}

/* Tiles 0 and 1 are sums, 4 and 5 x, 6 and 7 w. */
SB_INLINE void configure(void)
{
    sb_tile_config config = {0};
    for (int t = 0; t < 2; t++) sb_tile_shape(&config, t, ROWS, 4 * SB_PANEL);
    for (int t = 4; t < 6; t++) sb_tile_shape(&config, t, ROWS, SB_STEP);
    for (int t = 6; t < 8; t++) sb_tile_shape(&config, t, SB_STEP / 4, SB_PLANE);
    SB_TILE_CONFIGURE(&config);
}

/* Begins a step's product in the tiles named. */
#define BEGIN(f, sums, x, w, record, weights)                                                                          \
    do {                                                                                                               \
        SB_TILE_LOAD(x, record, SB_STEP);                                                                              \
        SB_TILE_LOAD(w, weights, SB_PLANE);                                                                            \
        SB_TILE_ZERO(sums);                                                                                            \
        if (f == SAMEBITS_FORMAT_AFFINE_8)                                                                             \
            SB_TILE_DOT_UNSIGNED(sums, x, w);                                                                          \
        else                                                                                                           \
            SB_TILE_DOT_SIGNED(sums, x, w);                                                                            \
    } while (0)

/* acc of one step more, for all rows. */
SB_INLINE void add_step(samebits_format f, const chunk *w, int s, const float *record, const sums *isum, vf acc[ROWS])
{
    const vf d = vf_load(w->d[s]), m = vf_load(w->m[s]);
    SB_UNROLL
    for (int r = 0; r < ROWS; r++) {
        vf t = vi_to_f(vi_load(isum->row[r]));
        if (sb_quant_has_min(f))
            t = vf_fms(t, d, vf_mul(vf_set1(record[SB_X_SUM * ROWS + r]), m));
        else
            t = vf_mul(t, d);
        acc[r] = vf_fma(t, vf_set1(record[SB_X_SCALE * ROWS + r]), acc[r]);
    }
}

/* acc += the chunk's steps, for 16 rows; steps take turns with two sets of tiles. */
SB_INLINE void tile_chunk(samebits_format f, const chunk *w, int fetches, const float *x, float *acc,
                          int64_t acc_stride)
{
    sums even, odd;
    vf total[ROWS];
    SB_UNROLL
    for (int r = 0; r < ROWS; r++) total[r] = w->first ? vf_zero() : vf_load(acc + r * acc_stride);
    BEGIN(f, 0, 4, 6, x, w->w[0]);
    for (int s = 0; s < w->count; s += 2) {
        for (int i = 0; fetches && i < 2 * w->step_bytes; i += 64) v_prefetch(w->ahead + s * w->step_bytes + i);
        const float *record = x + s * RECORD, *next = record + RECORD;
        if (s + 1 < w->count) BEGIN(f, 1, 5, 7, next, w->w[s + 1]);
        SB_TILE_STORE(0, even.row, 4 * SB_PANEL);
        add_step(f, w, s, record, &even, total);
        if (s + 2 < w->count) BEGIN(f, 0, 4, 6, next + RECORD, w->w[s + 2]);
        if (s + 1 == w->count) break;
        SB_TILE_STORE(1, odd.row, 4 * SB_PANEL);
        add_step(f, w, s + 1, next, &odd, total);
    }
    SB_UNROLL
    for (int r = 0; r < ROWS; r++) vf_store(acc + r * acc_stride, total[r]);
}

/* The chunk for all rows. The last tile may have fewer: its acc is lent 16. */
SB_INLINE void tile_rows(samebits_format f, const sb_matmul_args *a, const chunk *w, int64_t panel, int64_t begin)
{
    for (int64_t r = 0; r < a->rows; r += ROWS) {
        const float *x = a->x + (r * (a->k / SB_STEP) + begin * ROWS) * SB_X_DWORDS;
        float *acc = a->acc + r * a->acc_stride + panel * SB_PANEL, lent[ROWS][SB_PANEL];
        const int64_t height = SB_MIN(ROWS, a->rows - r);
        if (height == ROWS) {
            tile_chunk(f, w, r == 0, x, acc, a->acc_stride);
            continue;
        }
        memset(lent, 0, sizeof lent);
        for (int64_t i = 0; i < height; i++) memcpy(lent[i], acc + i * a->acc_stride, sizeof lent[i]);
        tile_chunk(f, w, r == 0, x, lent[0], SB_PANEL);
        for (int64_t i = 0; i < height; i++) memcpy(acc + i * a->acc_stride, lent[i], sizeof lent[i]);
    }
}

/* Once decoded some formats are alike, so their tiles are compiled once. */
#define DEFINE_TILES(name, format)                                                                                     \
    static __attribute__((noinline)) void tile_rows_##name(const sb_matmul_args *a, const chunk *w, int64_t panel,     \
                                                           int64_t begin)                                              \
    {                                                                                                                  \
        tile_rows(format, a, w, panel, begin);                                                                         \
    }
DEFINE_TILES(plain, SAMEBITS_FORMAT_Q4_0)
DEFINE_TILES(min, SAMEBITS_FORMAT_Q4_K)
DEFINE_TILES(unsigned_min, SAMEBITS_FORMAT_AFFINE_8)

SB_INLINE void matmul_int8(samebits_format f, const sb_matmul_args *a)
{
    if (!a->k)
        for (int64_t r = 0; r < a->rows; r++)
            memset(a->acc + r * a->acc_stride, 0, (size_t)a->panels * SB_PANEL * sizeof *a->acc);
    const int64_t steps = a->k / SB_STEP;
    chunk w = {.step_bytes = sb_quant_step_bytes(f)};
    configure();
    for (int64_t begin = 0; begin < steps; begin += CHUNK_STEPS)
        for (int64_t p = 0; p < a->panels; p++) {
            const uint8_t *panel = a->w + p * a->panel_size;
            w.count = (int)SB_MIN(CHUNK_STEPS, steps - begin);
            w.first = begin == 0;
            w.ahead = panel + a->panel_size + begin * w.step_bytes;
            decode(f, a, panel, begin, &w);
            if (f == SAMEBITS_FORMAT_AFFINE_8)
                tile_rows_unsigned_min(a, &w, p, begin);
            else if (sb_quant_has_min(f))
                tile_rows_min(a, &w, p, begin);
            else
                tile_rows_plain(a, &w, p, begin);
        }
    SB_TILE_RELEASE();
}

void sb_matmul_int8_q4_0_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q4_0, a); }
void sb_matmul_int8_q4_1_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q4_1, a); }
void sb_matmul_int8_q5_0_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q5_0, a); }
void sb_matmul_int8_q5_1_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q5_1, a); }
void sb_matmul_int8_q8_0_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q8_0, a); }
void sb_matmul_int8_iq4_nl_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_IQ4_NL, a); }
void sb_matmul_int8_mxfp4_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_MXFP4, a); }
void sb_matmul_int8_q4_k_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q4_K, a); }
void sb_matmul_int8_q5_k_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q5_K, a); }
void sb_matmul_int8_affine_2_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_2, a); }
void sb_matmul_int8_affine_3_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_3, a); }
void sb_matmul_int8_affine_4_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_4, a); }
void sb_matmul_int8_affine_5_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_5, a); }
void sb_matmul_int8_affine_6_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_6, a); }
void sb_matmul_int8_affine_8_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_8, a); }
void sb_matmul_int8_mlx_mxfp4_amx(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_MLX_MXFP4, a); }
