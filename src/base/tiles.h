/* Tiles of Intel's AMX: eight registers of up to 16 rows of 64 bytes (Intel's instruction set extensions reference,
 * chapter AMX). The numbers of tiles are literals 0..7.
 *
 * To the ABI all tiles and their configuration are scratch, so that a call may change them. A kernel configures them,
 * and releases them before it returns: the thread then has no tile state that the system would have to save.
 * With SB_EMULATE_AVX512 all of it is made of AVX2, for tests on machines without them. */
#ifndef SB_TILES_H
#define SB_TILES_H

#include "base/base.h"

enum { SB_TILE_ROWS = 16, SB_TILE_BYTES = 64 /* a row */ };

/* What LDTILECFG takes. */
typedef struct sb_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64))) sb_tile_config;

SB_INLINE void sb_tile_shape(sb_tile_config *config, int tile, int rows, int row_bytes)
{
    config->palette = 1;
    config->rows[tile] = (uint8_t)rows;
    config->row_bytes[tile] = (uint16_t)row_bytes;
}

#if defined(SB_EMULATE_AVX512)
#include "base/simd/emu_tiles.h"
#else
/* Written out, since gcc 12's intrinsics do not say that a load reads memory. */
#define SB_TILE_CONFIGURE(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(config)) : "memory")
#define SB_TILE_RELEASE()         __asm__ volatile("tilerelease" ::: "memory")
#define SB_TILE_ZERO(t)           __asm__ volatile("tilezero %%tmm" #t ::: "memory")
/* Rows lie `stride` bytes apart. */
#define SB_TILE_LOAD(t, at, stride)                                                                                    \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(at), "r"((int64_t)(stride)) : "memory")
#define SB_TILE_STORE(t, at, stride)                                                                                   \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(at), "r"((int64_t)(stride)) : "memory")
/* sums[i][n] += a[i] . b[][n]: int32 sums of signed bytes of a and signed, or unsigned, ones of b. Row j of b has
 * elements 4j .. 4j + 3 of each column side by side. */
#define SB_TILE_DOT_SIGNED(sums, a, b)   __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #sums ::: "memory")
#define SB_TILE_DOT_UNSIGNED(sums, a, b) __asm__ volatile("tdpbsud %%tmm" #b ", %%tmm" #a ", %%tmm" #sums ::: "memory")
/* The same of pairs of bf16, as spec/ops/matmul.md, section amx-1, says. */
#define SB_TILE_DOT_BF16(sums, a, b)     __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sums ::: "memory")
#endif

#endif
