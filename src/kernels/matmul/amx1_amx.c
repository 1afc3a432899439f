/* Order amx-1 where it comes from: products of bf16 on AMX's tiles, whose sums stay in tiles for a chunk of k.
 *
 * A chunk of two panels becomes pairs of k once for all rows. Two tiles of rows and two panels at a time: each load
 * then serves two products. */
#include "base/simd.h"
#include "base/tiles.h"
#include "kernels/matmul/matmul.h"

enum { ROWS = SB_TILE_ROWS, PANELS = 2, CHUNK = 1024, PAIRS = CHUNK / 2 };
enum { FEW_ROWS = 64, PREFETCH = 1024 /* elements ahead */ };
enum { STEP_BYTES = ROWS * SB_TILE_BYTES, STEP_WORDS = STEP_BYTES / 4 }; /* of a tile of 32 k: x or w */

/* x as [step][16 rows][32 k] of bf16, filled up with zeros; its values are bf16 (see sb_product). */
void sb_pack_amx1(const float *const *x, int rows, int64_t k, void *out)
{
    for (int64_t begin = 0; begin < k; begin += SB_AMX1_BLOCK) {
        uint16_t(*step)[SB_AMX1_BLOCK] = (uint16_t(*)[SB_AMX1_BLOCK])((char *)out + begin / SB_AMX1_BLOCK * STEP_BYTES);
        const int length = (int)SB_MIN(SB_AMX1_BLOCK, k - begin);
        if (length < SB_AMX1_BLOCK || rows < ROWS) memset(step, 0, STEP_BYTES);
        for (int r = 0; r < rows; r++) {
            const float *in = x[r] + begin;
            int i = 0;
            for (; i + SB_VL <= length; i += SB_VL) vi_store_u16(step[r] + i, vi_shr(vf_bits(vf_load(in + i)), 16));
            for (; i < length; i++) step[r][i] = (uint16_t)(sb_bits(in[i]) >> 16);
        }
    }
}

/* A chunk of a panel as pairs [k / 2][16], the even k in the low half; whole blocks, filled up with zeros. */
static void pair_panel(const uint16_t *w, int64_t length, int32_t *out)
{
    int64_t i = 0;
    for (; i < length; i += 2) {
        v_prefetch(w + i * SB_PANEL + PREFETCH);
        vi pairs = vi_shr(vf_bits(vf_load_bf16(w + i * SB_PANEL)), 16);
        if (i + 1 < length) pairs = vi_or(pairs, vf_bits(vf_load_bf16(w + (i + 1) * SB_PANEL)));
        vi_store(out + i / 2 * SB_PANEL, pairs);
    }
    for (; i % SB_AMX1_BLOCK; i += 2) vi_store(out + i / 2 * SB_PANEL, vi_set1(0));
}

/* Tiles 0 to 3 are the sums of [tile of rows][panel], 4 and 5 x, 6 and 7 w. */
static void configure(int rows)
{
    sb_tile_config config = {0};
    for (int t = 0; t < 8; t++) sb_tile_shape(&config, t, t < 6 ? rows : ROWS, SB_TILE_BYTES);
    SB_TILE_CONFIGURE(&config);
}

/* What a product of a chunk works on. */
typedef struct {
    const char *x[2];
    const int32_t *w[PANELS];
    float *acc[2];
    int64_t acc_bytes; /* from row to row */
    int64_t steps;
    int tile_rows; /* rows of a tile of sums */
    int first;     /* the sums begin here */
} job;

SB_INLINE void begin_sums(int tiles, int panels, const job *j)
{
    if (j->first) {
        SB_TILE_ZERO(0);
        if (panels == 2) SB_TILE_ZERO(1);
        if (tiles == 2) SB_TILE_ZERO(2);
        if (tiles == 2 && panels == 2) SB_TILE_ZERO(3);
        return;
    }
    SB_TILE_LOAD(0, j->acc[0], j->acc_bytes);
    if (panels == 2) SB_TILE_LOAD(1, j->acc[0] + SB_PANEL, j->acc_bytes);
    if (tiles == 2) SB_TILE_LOAD(2, j->acc[1], j->acc_bytes);
    if (tiles == 2 && panels == 2) SB_TILE_LOAD(3, j->acc[1] + SB_PANEL, j->acc_bytes);
}

SB_INLINE void end_sums(int tiles, int panels, const job *j)
{
    SB_TILE_STORE(0, j->acc[0], j->acc_bytes);
    if (panels == 2) SB_TILE_STORE(1, j->acc[0] + SB_PANEL, j->acc_bytes);
    if (tiles == 2) SB_TILE_STORE(2, j->acc[1], j->acc_bytes);
    if (tiles == 2 && panels == 2) SB_TILE_STORE(3, j->acc[1] + SB_PANEL, j->acc_bytes);
}

SB_INLINE void chunk_tiles(int tiles, int panels, const job *j)
{
    begin_sums(tiles, panels, j);
    for (int64_t s = 0; s < j->steps; s++) {
        SB_TILE_LOAD(4, j->x[0] + s * STEP_BYTES, SB_TILE_BYTES);
        SB_TILE_LOAD(6, j->w[0] + s * STEP_WORDS, SB_TILE_BYTES);
        SB_TILE_DOT_BF16(0, 4, 6);
        if (panels == 2) {
            SB_TILE_LOAD(7, j->w[1] + s * STEP_WORDS, SB_TILE_BYTES);
            SB_TILE_DOT_BF16(1, 4, 7);
        }
        if (tiles == 2) {
            SB_TILE_LOAD(5, j->x[1] + s * STEP_BYTES, SB_TILE_BYTES);
            SB_TILE_DOT_BF16(2, 5, 6);
            if (panels == 2) SB_TILE_DOT_BF16(3, 5, 7);
        }
    }
    end_sums(tiles, panels, j);
}

/* The last tile may have fewer rows than there are in a tile of sums: these are lent the rest. */
static void chunk_rows(int tiles, int panels, const job *j, int64_t last_height)
{
    const int is_low = last_height < j->tile_rows;
    float lent[ROWS][PANELS * SB_PANEL] __attribute__((aligned(64))), *own = j->acc[tiles - 1];
    const size_t size = (size_t)panels * SB_PANEL * sizeof **lent;
    job mine = *j;
    if (is_low && tiles == 2) { /* one stride serves both tiles */
        mine.x[0] = j->x[1];
        mine.acc[0] = j->acc[1];
        chunk_rows(1, panels, j, ROWS);
        chunk_rows(1, panels, &mine, last_height);
        return;
    }
    if (is_low) {
        mine.acc[0] = lent[0];
        mine.acc_bytes = sizeof *lent;
        memset(lent, 0, sizeof lent);
        for (int64_t i = 0; i < last_height && !j->first; i++)
            memcpy(lent[i], (const char *)own + i * j->acc_bytes, size);
    }
    if (tiles == 2 && panels == 2)
        chunk_tiles(2, 2, &mine);
    else if (tiles == 2)
        chunk_tiles(2, 1, &mine);
    else if (panels == 2)
        chunk_tiles(1, 2, &mine);
    else
        chunk_tiles(1, 1, &mine);
    for (int64_t i = 0; i < last_height && is_low; i++) memcpy((char *)own + i * j->acc_bytes, lent[i], size);
}

/* One chunk of k of up to two panels, for all rows. */
static void chunk_panels(const sb_matmul_args *a, int64_t begin, int64_t panel, int panels)
{
    int32_t w[PANELS][PAIRS * SB_PANEL] __attribute__((aligned(64)));
    const int64_t length = SB_MIN(CHUNK, a->k - begin), x_bytes = sb_ceil_div(a->k, SB_AMX1_BLOCK) * SB_TILE_BYTES;
    job j = {.acc_bytes = a->acc_stride * (int64_t)sizeof *a->acc,
             .steps = sb_ceil_div(length, SB_AMX1_BLOCK),
             .tile_rows = (int)SB_MIN(ROWS, a->rows),
             .first = begin == 0};
    for (int p = 0; p < panels; p++) {
        pair_panel((const uint16_t *)(a->w + (panel + p) * a->panel_size) + begin * SB_PANEL, length, w[p]);
        j.w[p] = w[p];
    }
    for (int64_t r = 0; r < a->rows; r += 2 * ROWS) {
        const int tiles = a->rows - r > ROWS ? 2 : 1;
        for (int t = 0; t < tiles; t++) {
            j.x[t] = (const char *)a->x + (r + t * ROWS) * x_bytes + begin / SB_AMX1_BLOCK * STEP_BYTES;
            j.acc[t] = a->acc + (r + t * ROWS) * a->acc_stride + panel * SB_PANEL;
        }
        chunk_rows(tiles, panels, &j, SB_MIN(ROWS, a->rows - r - (tiles - 1) * ROWS));
    }
}

void sb_matmul_amx1_bf16_amx(const sb_matmul_args *a)
{
    if (!a->k)
        for (int64_t r = 0; r < a->rows; r++)
            memset(a->acc + r * a->acc_stride, 0, (size_t)a->panels * SB_PANEL * sizeof *a->acc);
    configure((int)SB_MIN(ROWS, a->rows));
    /* Few rows are bound by reading w: each panel from beginning to end. Many share a chunk of x. */
    const int64_t panels = a->rows <= FEW_ROWS ? PANELS : SB_MAX(1, a->panels);
    for (int64_t first = 0; first < a->panels; first += panels)
        for (int64_t begin = 0; begin < a->k; begin += CHUNK)
            for (int64_t p = first; p < SB_MIN(first + panels, a->panels); p += PANELS)
                chunk_panels(a, begin, p, (int)SB_MIN(PANELS, a->panels - p));
    SB_TILE_RELEASE();
}
