/* tiles.h for tests. What a CPU answers with #UD traps here too: no configuration, or shapes that do not fit. */
#ifndef SB_SIMD_EMU_TILES_H
#define SB_SIMD_EMU_TILES_H

#include "base/fpenv.h"
#include "base/simd/emu512.h"

typedef struct {
    sb_tile_config config;
    uint8_t data[8][SB_TILE_ROWS][SB_TILE_BYTES];
} sb_tiles;
static _Thread_local sb_tiles sb_tiles_here;

SB_INLINE void sb_tile_need(int holds)
{
    if (!holds) __builtin_trap();
}
SB_INLINE void sb_tile_exists(const sb_tiles *all, int t)
{
    sb_tile_need(all->config.palette == 1 && all->config.rows[t] && all->config.row_bytes[t]);
}

static void sb_tile_configure(const sb_tile_config *config)
{
    memset(&sb_tiles_here, 0, sizeof sb_tiles_here);
    sb_tiles_here.config = *config;
    for (int t = 0; t < 8; t++) sb_tile_need(config->rows[t] <= SB_TILE_ROWS && config->row_bytes[t] <= SB_TILE_BYTES);
}
static void sb_tile_zero(int t)
{
    sb_tile_exists(&sb_tiles_here, t);
    memset(sb_tiles_here.data[t], 0, sizeof sb_tiles_here.data[t]);
}
static void sb_tile_load(int t, const void *at, int64_t stride)
{
    sb_tile_zero(t);
    for (int r = 0; r < sb_tiles_here.config.rows[t]; r++)
        memcpy(sb_tiles_here.data[t][r], (const char *)at + r * stride, sb_tiles_here.config.row_bytes[t]);
}
static void sb_tile_store(int t, void *at, int64_t stride)
{
    sb_tile_exists(&sb_tiles_here, t);
    for (int r = 0; r < sb_tiles_here.config.rows[t]; r++)
        memcpy((char *)at + r * stride, sb_tiles_here.data[t][r], sb_tiles_here.config.row_bytes[t]);
}

static sb_tiles *sb_tile_operands(int sums, int a, int b)
{
    sb_tiles *all = &sb_tiles_here;
    const sb_tile_config *c = &all->config;
    sb_tile_exists(all, sums);
    sb_tile_exists(all, a);
    sb_tile_exists(all, b);
    sb_tile_need(c->rows[sums] == c->rows[a] && c->row_bytes[sums] == c->row_bytes[b] &&
                 c->row_bytes[a] == 4 * c->rows[b]);
    return all;
}

SB_INLINE int32_t sb_tile_word(const sb_tiles *all, int t, int row, int index)
{
    int32_t word;
    memcpy(&word, all->data[t][row] + 4 * index, sizeof word);
    return word;
}

static __attribute__((unused)) void sb_tile_dot_bytes(int is_signed, int sums, int a, int b)
{
    sb_tiles *all = sb_tile_operands(sums, a, b);
    const vi flip = vi_set1(is_signed ? (int32_t)0x80808080 : 0);
    for (int r = 0; r < all->config.rows[sums]; r++) {
        vi sum = vi_load(all->data[sums][r]);
        for (int j = 0; j < all->config.rows[b]; j++) {
            const vi x = vi_set1(sb_tile_word(all, a, r, j));
            sum = vi_sub(vi_dot4(sum, vi_xor(vi_load(all->data[b][j]), flip), x), vi_dot4(vi_set1(0), flip, x));
        }
        vi_store(all->data[sums][r], sum);
    }
}

/* Not inlined: its operations stay in the environment that flushes. */
static __attribute__((noinline, unused)) void sb_tile_dot_pairs(sb_tiles *all, int sums, int a, int b)
{
    const vi high = vi_set1((int32_t)0xFFFF0000);
    for (int r = 0; r < all->config.rows[sums]; r++) {
        vf even = vf_zero(), odd = vf_zero();
        for (int j = 0; j < all->config.rows[b]; j++) {
            const vi x = vi_set1(sb_tile_word(all, a, r, j)), w = vi_load(all->data[b][j]);
            even = vf_fma(vi_as_f(vi_shl(x, 16)), vi_as_f(vi_shl(w, 16)), even);
            odd = vf_fma(vi_as_f(vi_and(x, high)), vi_as_f(vi_and(w, high)), odd);
        }
        vf_store((float *)all->data[sums][r], vf_add(vf_load((float *)all->data[sums][r]), vf_add(even, odd)));
    }
}
static __attribute__((unused)) void sb_tile_dot_bf16(int sums, int a, int b)
{
    sb_tiles *all = sb_tile_operands(sums, a, b);
    const sb_fpenv caller = sb_fpenv_enter_flushing();
    sb_tile_dot_pairs(all, sums, a, b);
    sb_fpenv_leave(caller);
}

#define SB_TILE_CONFIGURE(config)        sb_tile_configure(config)
#define SB_TILE_RELEASE()                sb_tile_configure(&(sb_tile_config){0})
#define SB_TILE_ZERO(t)                  sb_tile_zero(t)
#define SB_TILE_LOAD(t, at, stride)      sb_tile_load(t, at, stride)
#define SB_TILE_STORE(t, at, stride)     sb_tile_store(t, at, stride)
#define SB_TILE_DOT_SIGNED(sums, a, b)   sb_tile_dot_bytes(1, sums, a, b)
#define SB_TILE_DOT_UNSIGNED(sums, a, b) sb_tile_dot_bytes(0, sums, a, b)
#define SB_TILE_DOT_BF16(sums, a, b)     sb_tile_dot_bf16(sums, a, b)

#endif
