/* Order amx-1 where it comes from: products of bf16 on AMX's tiles, whose sums stay in tiles for all of k or a chunk.
 *
 * A panel lies in memory as the tiles want it, so that weights go from there into tiles. Up to 16 rows: four panels at
 * a time, far apart, since one stream does not fill the memory bus. More: two tiles of rows and two panels, where each
 * load serves two products. */
#include "base/simd.h"
#include "base/tiles.h"
#include "kernels/matmul/matmul.h"

enum { ROWS = SB_TILE_ROWS, MAX_PANELS = 4, CHUNK = 1024 /* of k */ };
enum { FEW_ROWS = 64, PREFETCH = 2048 /* bytes ahead */ };
enum { BLOCK_BYTES = ROWS * SB_TILE_BYTES, LINES = BLOCK_BYTES / 64 }; /* of a tile of 32 k: x or w */

/* x as [block][16 rows][32 k], filled up with zeros. */
void sb_pack_amx1(const void *const *x, int rows, int64_t k, void *out)
{
    for (int64_t begin = 0; begin < k; begin += SB_AMX1_BLOCK) {
        uint16_t(*block)[SB_AMX1_BLOCK] =
            (uint16_t(*)[SB_AMX1_BLOCK])((char *)out + begin / SB_AMX1_BLOCK * BLOCK_BYTES);
        const int64_t length = SB_MIN(SB_AMX1_BLOCK, k - begin);
        if (length < SB_AMX1_BLOCK || rows < ROWS) memset(block, 0, BLOCK_BYTES);
        for (int r = 0; r < rows; r++) {
            const uint16_t *in = (const uint16_t *)x[r] + begin;
            if (length == SB_AMX1_BLOCK)
                memcpy(block[r], in, sizeof *block);
            else
                memcpy(block[r], in, (size_t)length * sizeof *in);
        }
    }
}

/* Where the sums of a tile of rows are: bytes from row to row, floats from panel to panel. */
typedef struct {
    float *at;
    int64_t row_bytes, panel;
} place;

/* What a product of a chunk of k works on: up to two tiles of rows, up to four panels. */
typedef struct {
    const char *x[2];
    const uint8_t *w[MAX_PANELS];
    const uint8_t *tail; /* of each panel the block that k ends in, filled up with zeros; NULL: the chunk has none */
    place sums[2];
    int64_t blocks; /* whole ones */
    int first;      /* the sums begin here */
    /* What comes into cache meanwhile: of each block so far behind that in use, these lines. */
    int64_t ahead;
    int first_line, end_line;
} job;

/* Tiles 0 to 3 are the sums of [tile of rows][panel], 4 and 5 x, 6 and 7 w. */
static void configure(int64_t rows)
{
    sb_tile_config config = {0};
    for (int t = 0; t < 8; t++) sb_tile_shape(&config, t, t < 6 ? (int)SB_MIN(ROWS, rows) : ROWS, SB_TILE_BYTES);
    SB_TILE_CONFIGURE(&config);
}

/* Applies a macro of (tile, place, panel) to all tiles of sums. */
#define ALL_SUMS(DO)                                                                                                   \
    do {                                                                                                               \
        DO(0, j->sums[0], 0);                                                                                          \
        if (panels > 1) DO(1, j->sums[0], 1);                                                                          \
        if (panels > 2) DO(2, j->sums[0], 2);                                                                          \
        if (panels > 2) DO(3, j->sums[0], 3);                                                                          \
        if (tiles > 1) DO(2, j->sums[1], 0);                                                                           \
        if (tiles > 1 && panels > 1) DO(3, j->sums[1], 1);                                                             \
    } while (0)
#define ZERO(t, place, p)  SB_TILE_ZERO(t)
#define LOAD(t, place, p)  SB_TILE_LOAD(t, (place).at + p * (place).panel, (place).row_bytes)
#define STORE(t, place, p) SB_TILE_STORE(t, (place).at + p * (place).panel, (place).row_bytes)

/* 32 k: `x` bytes into the tiles of rows, `w` into the panels. */
SB_INLINE void block(int tiles, int panels, const job *j, int64_t x, const uint8_t *const *w, int64_t at)
{
    SB_TILE_LOAD(4, j->x[0] + x, SB_TILE_BYTES);
    if (tiles > 1) SB_TILE_LOAD(5, j->x[1] + x, SB_TILE_BYTES);
    SB_TILE_LOAD(6, w[0] + at, SB_TILE_BYTES);
    SB_TILE_DOT_BF16(0, 4, 6);
    if (tiles > 1) SB_TILE_DOT_BF16(2, 5, 6);
    if (panels > 1) {
        SB_TILE_LOAD(7, w[1] + at, SB_TILE_BYTES);
        SB_TILE_DOT_BF16(1, 4, 7);
        if (tiles > 1) SB_TILE_DOT_BF16(3, 5, 7);
    }
    if (panels > 2) {
        SB_TILE_LOAD(6, w[2] + at, SB_TILE_BYTES);
        SB_TILE_DOT_BF16(2, 4, 6);
        SB_TILE_LOAD(7, w[3] + at, SB_TILE_BYTES);
        SB_TILE_DOT_BF16(3, 4, 7);
    }
}

/* Tiles and panels are constants: 1 or 2 of each, or 1 and 4. */
SB_INLINE void product(int tiles, int panels, const job *j)
{
    if (j->first)
        ALL_SUMS(ZERO);
    else
        ALL_SUMS(LOAD);
    for (int64_t i = 0; i < j->blocks; i++) {
        for (int p = 0; p < panels; p++)
            for (int line = j->first_line; line < j->end_line; line++)
                v_prefetch(j->w[p] + i * BLOCK_BYTES + j->ahead + line * 64);
        block(tiles, panels, j, i * BLOCK_BYTES, j->w, i * BLOCK_BYTES);
    }
    if (j->tail) {
        const uint8_t *w[MAX_PANELS];
        for (int p = 0; p < panels; p++) w[p] = j->tail + p * BLOCK_BYTES;
        block(tiles, panels, j, j->blocks * BLOCK_BYTES, w, 0);
    }
    ALL_SUMS(STORE);
}

/* The last tile may have fewer rows than a tile of sums: it is lent the rest. */
static void product_of(int tiles, int panels, job *j, int64_t last_height, int64_t tile_rows)
{
    float lent[ROWS][MAX_PANELS * SB_PANEL] __attribute__((aligned(64)));
    const int is_low = last_height < tile_rows;
    const place own = j->sums[tiles - 1];
    if (is_low) {
        memset(lent, 0, sizeof lent);
        j->sums[tiles - 1] = (place){lent[0], sizeof *lent, SB_PANEL};
    }
#define COPY(to, from)                                                                                                 \
    for (int64_t r = 0; r < last_height; r++)                                                                          \
        for (int p = 0; p < panels; p++) {                                                                             \
            float *mine = lent[r] + p * SB_PANEL, *theirs = own.at + p * own.panel + r * own.row_bytes / 4;            \
            memcpy(to, from, SB_PANEL * sizeof *mine);                                                                 \
        }
    if (is_low && !j->first) COPY(mine, theirs)
    if (tiles == 2 && panels == 2)
        product(2, 2, j);
    else if (tiles == 2)
        product(2, 1, j);
    else if (panels == MAX_PANELS)
        product(1, MAX_PANELS, j);
    else if (panels == 2)
        product(1, 2, j);
    else
        product(1, 1, j);
    if (is_low) COPY(theirs, mine)
#undef COPY
}

/* One chunk of k of some panels, `apart` panels from one to the next, for all rows. */
static void chunk_panels(const sb_matmul_args *a, int64_t begin, int64_t length, int64_t panel, int panels,
                         int64_t apart)
{
    uint8_t tail[MAX_PANELS][BLOCK_BYTES] __attribute__((aligned(64)));
    const int64_t x_bytes = sb_ceil_div(a->k, SB_AMX1_BLOCK) * SB_TILE_BYTES, blocks = length / SB_AMX1_BLOCK;
    const size_t rest = (size_t)((length % SB_AMX1_BLOCK + 1) / 2 * SB_TILE_BYTES);
    const int passes = (int)sb_ceil_div(a->rows, 2 * ROWS);
    job j = {.blocks = blocks, .first = begin == 0, .tail = rest ? tail[0] : NULL};
    for (int p = 0; p < panels; p++) {
        j.w[p] = a->w + (panel + p * apart) * a->panel_size + begin / SB_AMX1_BLOCK * BLOCK_BYTES;
        if (!rest) continue;
        memset(tail[p], 0, BLOCK_BYTES);
        memcpy(tail[p], j.w[p] + blocks * BLOCK_BYTES, rest);
    }
    /* Few rows run ahead in their own panels. Others bring in the next ones, each pass its share of the lines. */
    j.ahead = passes == 1 ? PREFETCH : panels * a->panel_size;
    for (int64_t r = 0, pass = 0; r < a->rows; r += 2 * ROWS, pass++) {
        const int tiles = a->rows - r > ROWS ? 2 : 1;
        j.first_line = (int)pass * LINES / passes;
        j.end_line = (int)(pass + 1) * LINES / passes;
        for (int t = 0; t < tiles; t++) {
            const int64_t row = r + t * ROWS;
            j.x[t] = (const char *)a->x + row * x_bytes + begin / SB_AMX1_BLOCK * BLOCK_BYTES;
            j.sums[t] = (place){a->acc + row * a->acc_stride + panel * SB_PANEL, a->acc_stride * 4, apart * SB_PANEL};
        }
        product_of(tiles, panels, &j, SB_MIN(ROWS, a->rows - r - (tiles - 1) * ROWS), SB_MIN(ROWS, a->rows));
    }
}

/* All of k for rows of one or two tiles: the sums stay there. */
static void few_rows(const sb_matmul_args *a)
{
    const int panels = a->rows <= ROWS ? MAX_PANELS : 2;
    const int64_t apart = a->panels / panels;
    for (int64_t p = 0; p < apart; p++) chunk_panels(a, 0, a->k, p, panels, apart);
    for (int64_t p = apart * panels; p < a->panels; p++) chunk_panels(a, 0, a->k, p, 1, 0);
}

/* Some rows are bound by reading w: two panels from beginning to end. Many share a chunk of x. */
static void many_rows(const sb_matmul_args *a)
{
    const int64_t panels = a->rows <= FEW_ROWS ? 2 : a->panels;
    for (int64_t first = 0; first < a->panels; first += panels)
        for (int64_t begin = 0; begin < a->k; begin += CHUNK)
            for (int64_t p = first; p < SB_MIN(first + panels, a->panels); p += 2)
                chunk_panels(a, begin, SB_MIN(CHUNK, a->k - begin), p, (int)SB_MIN(2, a->panels - p), 1);
}

void sb_matmul_amx1_bf16_amx(const sb_matmul_args *a)
{
    if (!a->k)
        for (int64_t r = 0; r < a->rows; r++)
            memset(a->acc + r * a->acc_stride, 0, (size_t)a->panels * SB_PANEL * sizeof *a->acc);
    if (!a->k || !a->panels) return;
    configure(a->rows);
    if (a->rows <= 2 * ROWS)
        few_rows(a);
    else
        many_rows(a);
    SB_TILE_RELEASE();
}
