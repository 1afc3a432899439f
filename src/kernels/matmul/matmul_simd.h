/* The body of the SIMD rows, of f32 lanes, or with SB_MATMUL_F64 of f64 lanes: broadcast x, load a vector of w,
 * multiply and add into registers. Few rows: all of k with the sums in registers, several panels at once (several
 * streams fill the memory bus, one cannot). Many rows: a chunk of k at a time, sums kept in acc, so that x and the
 * chunk stay in cache. */
#ifndef SB_MATMUL_SIMD_H
#define SB_MATMUL_SIMD_H

#include "base/simd.h"
#include "formats/few_rows_simd.h"
#include "kernels/matmul/matmul.h"
#include "order/order.h"

/* A panel takes 64 bytes a step of either. */
#if defined(SB_MATMUL_F64)
typedef double number;
typedef vd vector;
#define V(operation) vd_##operation
#define LANES        (SB_VL / 2)
#else
typedef float number;
typedef vf vector;
#define V(operation) vf_##operation
#define LANES        SB_VL
#endif
#define COLUMNS       (64 / (int)sizeof(number)) /* of a panel */
#define PANEL_VECTORS (COLUMNS / LANES)
#define MAX_VECTORS   8 /* vectors of columns a tile */
#define MAX_ROWS      12
#define REGISTERS     (SB_VL == 16 ? 32 : 16) /* vectors */
#define PREFETCH      1024                    /* bytes ahead; measured best of 512, 1024, 2048, 4096 at K = N = 4096 */
#define STREAMS       4 /* panels far apart that are read at a time: one stream does not fill the memory bus */
#define STREAM_TILES  4 /* up to this many tiles of rows a product is bound by reading w */

/* steps_a_load: the steps of k whose weights lie side by side. load_weights: those of one of these steps. */
#if defined(SB_MATMUL_F64)
SB_INLINE int element_size(samebits_format format) { return (void)format, 8; }
SB_INLINE int steps_a_load(samebits_format format) { return (void)format, 1; }
SB_INLINE vd load_weights(samebits_format format, int step, const uint8_t *p)
{
    return (void)format, (void)step, vd_load((const double *)p);
}
#else
SB_INLINE int element_size(samebits_format format) { return format == SAMEBITS_FORMAT_F32 ? 4 : 2; }
SB_INLINE int steps_a_load(samebits_format format) { return sb_format_is_paired(format) ? 2 : 1; }
SB_INLINE vf load_weights(samebits_format format, int step, const uint8_t *p)
{
    if (format == SAMEBITS_FORMAT_F32) return vf_load((const float *)p);
    if (format == SAMEBITS_FORMAT_F16) return vf_load_f16((const uint16_t *)p);
    return vi_as_f(step ? vi_high_halves(vi_load(p)) : vi_shl(vi_load(p), 16));
}
#endif

/* Where a row's sums of a panel begin: 64 bytes of either. */
SB_INLINE number *acc_at(const sb_matmul_args *a, int64_t row, int64_t panel)
{
    return (number *)(a->acc + row * a->acc_stride + panel * SB_PANEL);
}

/* What a pass over a chunk brings into cache: its own streams PREFETCH bytes ahead, or its share of the chunks that
 * come next: every `every` steps a line of each of STREAMS streams, into L2, since L1 holds the chunk in use. */
typedef struct prefetch {
    enum { PREFETCH_STREAM, PREFETCH_NEXT } kind;
    int every; /* a power of two, a multiple of the steps of a load */
    const uint8_t *next;
    int64_t apart; /* bytes from one stream to the next */
} prefetch;

/* One step of k for vectors [first, end) of columns. */
SB_INLINE void chain_step(samebits_format format, int step, int rows, int first, int end, const number *x,
                          const uint8_t *w, int64_t apart, vector sum[MAX_ROWS][MAX_VECTORS])
{
    const int size = element_size(format) * steps_a_load(format);
    vector b[MAX_VECTORS];
    SB_UNROLL
    for (int v = first; v < end; v++)
        b[v] = load_weights(format, step, w + v / PANEL_VECTORS * apart + v % PANEL_VECTORS * LANES * size);
    SB_UNROLL
    for (int r = 0; r < rows; r++) {
        const vector a = V(set1)(x[r]);
        SB_UNROLL
        for (int v = first; v < end; v++) sum[r][v] = V(fma)(a, b[v], sum[r][v]);
    }
}

/* The steps of k that lie side by side. */
SB_INLINE void chain_steps(samebits_format format, int rows, int vectors, const number *x, const uint8_t *w,
                           int64_t apart, vector sum[MAX_ROWS][MAX_VECTORS])
{
    const int steps = steps_a_load(format);
    if (rows <= 2) { /* x of all steps fits registers: each pair is read once */
        SB_UNROLL
        for (int v = 0; v < vectors; v++) SB_UNROLL
        for (int s = 0; s < steps; s++) chain_step(format, s, rows, v, v + 1, x + s * rows, w, apart, sum);
        return;
    }
    SB_UNROLL
    for (int s = 0; s < steps; s++) {
        /* Pairs are read again where, kept, they would take the registers of sums. */
        if (s && (rows + 2) * vectors >= REGISTERS) __asm__ volatile("" ::: "memory");
        chain_step(format, s, rows, 0, vectors, x + s * rows, w, apart, sum);
    }
}

/* sum[row][vector] = the fma chain over `length` steps of k. Format, rows, panels and the kind of prefetch are
 * constants. */
SB_INLINE void chain(samebits_format format, int rows, int panels, prefetch fetch, int64_t length, const number *x,
                     const uint8_t *w, int64_t apart, vector sum[MAX_ROWS][MAX_VECTORS])
{
    const int steps = steps_a_load(format), size = COLUMNS * element_size(format), vectors = panels * PANEL_VECTORS;
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) sum[r][v] = V(zero)();
    int64_t i = 0;
    SB_UNROLL_2 for (; i + steps <= length; i += steps)
    {
        if (fetch.kind == PREFETCH_NEXT && !(i & (fetch.every - 1))) {
            SB_UNROLL
            for (int s = 0; s < STREAMS; s++) v_prefetch_l2(fetch.next + s * fetch.apart);
            fetch.next += 64;
        }
        if (fetch.kind == PREFETCH_STREAM) {
            SB_UNROLL
            for (int p = 0; p < panels; p++) v_prefetch(w + p * apart + i * size + PREFETCH);
        }
        chain_steps(format, rows, vectors, x + i * rows, w + i * size, apart, sum);
    }
    if (i < length) chain_step(format, 0, rows, 0, vectors, x + i * rows, w + i * size, apart, sum);
}

/* All of k for one tile of rows, of `panels` panels from `panel` on, `apart` panels from one to the next. */
SB_INLINE void few_rows(samebits_format format, int rows, int panels, int64_t apart, const sb_matmul_args *a,
                        int64_t panel)
{
    const int vectors = panels * PANEL_VECTORS;
    const uint8_t *w = a->w + panel * a->panel_size;
    vector sum[MAX_ROWS][MAX_VECTORS], total[MAX_ROWS][MAX_VECTORS];
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int v = 0; v < vectors; v++) total[r][v] = V(zero)();
    for (int64_t begin = 0; begin < a->k; begin += SB_CHUNK) {
        chain(format, rows, panels, (prefetch){.kind = PREFETCH_STREAM}, SB_MIN(SB_CHUNK, a->k - begin),
              (const number *)a->x + begin * rows, w + begin * COLUMNS * element_size(format), apart * a->panel_size,
              sum);
        SB_UNROLL
        for (int r = 0; r < rows; r++) SB_UNROLL
        for (int v = 0; v < vectors; v++) total[r][v] = begin ? V(add)(total[r][v], sum[r][v]) : sum[r][v];
    }
    SB_UNROLL
    for (int r = 0; r < rows; r++) {
        SB_UNROLL
        for (int v = 0; v < vectors; v++)
            V(store)(acc_at(a, r, panel + v / PANEL_VECTORS * apart) + v % PANEL_VECTORS * LANES, total[r][v]);
    }
}

/* A chunk of k of panels from `panel` on, `apart` panels from one to the next: its weights, and bytes from those of a
 * panel to the next one's. */
typedef struct chunk {
    int64_t begin, length, panel, apart;
    const uint8_t *w;
    int64_t w_apart;
} chunk;

/* A chunk for one tile of rows: acc (+)= chain. */
SB_INLINE void tile_chunk(samebits_format format, int rows, int panels, prefetch fetch, const sb_matmul_args *a,
                          const chunk *c, int64_t row)
{
    const number *x = (const number *)a->x + row * a->k + c->begin * rows;
    vector sum[MAX_ROWS][MAX_VECTORS];
    SB_UNROLL
    for (int r = 0; r < rows; r++) v_prefetch(acc_at(a, row + r, c->panel));
    chain(format, rows, panels, fetch, c->length, x, c->w, c->w_apart, sum);
    SB_UNROLL
    for (int r = 0; r < rows; r++) {
        SB_UNROLL
        for (int v = 0; v < panels * PANEL_VECTORS; v++) {
            number *out = acc_at(a, row + r, c->panel + v / PANEL_VECTORS * c->apart) + v % PANEL_VECTORS * LANES;
            V(store)(out, c->begin ? V(add)(V(load)(out), sum[r][v]) : sum[r][v]);
        }
    }
}

#define SB_CASES_6(X) X(1) X(2) X(3) X(4) X(5) X(6)
#if SB_VL == 16
#define SB_CASES(X)  SB_CASES_6(X) X(7) X(8) X(9) X(10) X(11) X(12)
#define FEW_CASES(X) SB_CASES(X)
/* Panels at once, so that sums and weights fit the 32 (here) or 16 registers. */
#define FEW_PANELS(rows) ((rows) <= 6 ? 4 : (rows) <= 8 ? 3 : 2)
#define TILE_PANELS      2
#else
#define SB_CASES(X)      SB_CASES_6(X)
#define FEW_CASES(X)     X(1) X(2)
#define FEW_PANELS(rows) ((rows) <= 1 ? 4 : 2)
#define TILE_PANELS      1
#endif

DEFINE_FEW_ROWS_ALL

SB_INLINE chunk chunk_of(samebits_format format, const sb_matmul_args *a, int64_t panel, int64_t apart, int64_t begin)
{
    return (chunk){begin,
                   SB_MIN(SB_CHUNK, a->k - begin),
                   panel,
                   apart,
                   a->w + panel * a->panel_size + begin * COLUMNS * element_size(format),
                   apart * a->panel_size};
}

/* A chunk of `panels` panels for all rows. The tiles share the prefetch. */
SB_INLINE void tile_rows(samebits_format format, int panels, prefetch fetch, const sb_matmul_args *a, const chunk *c)
{
    for (int64_t r = 0; r < a->rows; r += a->tile) {
        switch (SB_MIN(a->tile, a->rows - r)) {
#define CASE(rows)                                                                                                     \
    case rows: tile_chunk(format, rows, panels, fetch, a, c, r); break;
            SB_CASES(CASE)
#undef CASE
        }
        fetch.next += c->length / fetch.every * 64;
    }
}

/* How many steps a pass over a chunk takes for a line of each stream, if `passes` passes bring in STREAMS chunks. */
SB_INLINE int steps_a_line(samebits_format format, int64_t passes)
{
    int every = 1;
    while (2 * every * COLUMNS * element_size(format) <= passes * 64) every *= 2;
    return every;
}

/* What a chunk of adjacent panels brings into cache: the next ones', in quarters. */
SB_INLINE prefetch next_panels(samebits_format format, int panels, const sb_matmul_args *a, const chunk *c)
{
    return (prefetch){PREFETCH_NEXT, steps_a_line(format, sb_ceil_div(a->rows, a->tile) * STREAMS / panels),
                      c->w + panels * a->panel_size, SB_CHUNK / STREAMS * panels * COLUMNS * element_size(format)};
}

/* Some tiles of rows: a chunk of STREAMS panels that lie far apart, then their next chunk. */
SB_INLINE void some_rows(samebits_format format, const sb_matmul_args *a)
{
    const int64_t apart = a->panels / STREAMS, tiles = sb_ceil_div(a->rows, a->tile);
    const int every = steps_a_line(format, tiles * STREAMS / TILE_PANELS);
    for (int64_t p = 0; p < apart; p++)
        for (int64_t begin = 0; begin < a->k; begin += SB_CHUNK) {
            chunk c = chunk_of(format, a, p, apart, begin);
            prefetch fetch = {PREFETCH_NEXT, every, c.w + c.length * COLUMNS * element_size(format), c.w_apart};
            for (int s = 0; s < STREAMS; s += TILE_PANELS) {
                tile_rows(format, TILE_PANELS, fetch, a, &c);
                fetch.next += tiles * (c.length / every) * 64;
                c.panel += TILE_PANELS * apart;
                c.w += TILE_PANELS * c.w_apart;
            }
        }
    for (int64_t p = apart * STREAMS; p < a->panels; p++)
        for (int64_t begin = 0; begin < a->k; begin += SB_CHUNK) {
            const chunk c = chunk_of(format, a, p, 1, begin);
            tile_rows(format, 1, next_panels(format, 1, a, &c), a, &c);
        }
}

#if defined(SB_MATMUL_F64)
SB_INLINE int is_widened(samebits_format format) { return (void)format, 0; }
SB_INLINE void widen(samebits_format format, int64_t length, const uint8_t *w, number *out)
{
    (void)format, (void)length, (void)w, (void)out;
}
#else
/* Whether the chunks of many rows are widened before, where that would take the ports of fma again for each tile. */
SB_INLINE int is_widened(samebits_format format) { return SB_VL == 16 && format != SAMEBITS_FORMAT_F32; }

/* A panel's chunk as f32, [length][16]. */
SB_INLINE void widen(samebits_format format, int64_t length, const uint8_t *w, float *out)
{
    const int steps = steps_a_load(format), size = element_size(format) * steps;
    for (int64_t i = 0; i < length; i += steps) SB_UNROLL
    for (int s = 0; s < steps; s++) SB_UNROLL
    for (int v = 0; v < PANEL_VECTORS; v++) {
        if (i + s == length) return;
        const uint8_t *at = w + i * COLUMNS * element_size(format) + v * LANES * size;
        vf_store(out + (i + s) * COLUMNS + v * LANES, load_weights(format, s, at));
    }
}
#endif

/* A chunk of adjacent panels, of which the number is a constant, for many rows. */
SB_INLINE void chunk_rows(samebits_format format, int panels, const sb_matmul_args *a, int64_t p, int64_t begin)
{
    chunk c = chunk_of(format, a, p, 1, begin);
    const prefetch fetch = next_panels(format, panels, a, &c);
    if (!is_widened(format)) {
        tile_rows(format, panels, fetch, a, &c);
        return;
    }
    number wide[TILE_PANELS][SB_CHUNK * COLUMNS] __attribute__((aligned(64)));
    SB_UNROLL
    for (int i = 0; i < panels; i++) widen(format, c.length, c.w + i * c.w_apart, wide[i]);
    c.w = (const uint8_t *)wide;
    c.w_apart = sizeof *wide;
    tile_rows(SAMEBITS_FORMAT_F32, panels, fetch, a, &c);
}

/* The same of TILE_PANELS panels, or of one. */
SB_INLINE void panel_rows(samebits_format format, int64_t panels, const sb_matmul_args *a, int64_t p, int64_t begin)
{
    if (panels == 1)
        chunk_rows(format, 1, a, p, begin);
    else
        chunk_rows(format, TILE_PANELS, a, p, begin);
}

/* Many rows: chunk after chunk, so that a chunk of x is used by all panels. */
SB_INLINE void many_rows(samebits_format format, const sb_matmul_args *a)
{
    for (int64_t begin = 0; begin < a->k; begin += SB_CHUNK)
        for (int64_t p = 0, panels; p < a->panels; p += panels) {
            panels = p + TILE_PANELS <= a->panels ? TILE_PANELS : 1;
            panel_rows(format, panels, a, p, begin);
        }
}

SB_INLINE void matmul(samebits_format format, const sb_matmul_args *a)
{
    if (a->rows <= a->tile && few_rows_all(format, a)) return;
    if (!a->k)
        for (int64_t r = 0; r < a->rows; r++)
            memset(a->acc + r * a->acc_stride, 0, (size_t)a->panels * SB_PANEL * sizeof *a->acc);
    if (a->rows <= STREAM_TILES * a->tile)
        some_rows(format, a);
    else
        many_rows(format, a);
}

#endif
