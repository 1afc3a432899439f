#include "check/product.h"

#include "check/check.h"
#include "formats/elements.h"

/* A row of x as a table row's pack takes it: `narrow` has room for it. */
static const void *packable(const sb_matmul_row *row, const float *x, int64_t k, uint16_t *narrow)
{
    if (row->order != SAMEBITS_ORDER_AMX_1) return x;
    for (int64_t i = 0; i < k; i++) narrow[i] = sb_to_bf16(x[i]);
    return narrow;
}

static void pack_x(const sb_matmul_row *row, const float *x, int64_t rows, int64_t k, int64_t tile, char *out)
{
    uint16_t *narrow = check_alloc((size_t)(SB_MAX_TILE * k) * sizeof *narrow);
    memset(out, 0xA5, (size_t)(sb_matmul_packed_rows(row, rows) * sb_matmul_x_bytes(row, k)));
    for (int64_t r = 0; r < rows; r += tile) {
        const int64_t height = SB_MIN(tile, rows - r);
        const void *in[SB_MAX_TILE];
        for (int64_t i = 0; i < height; i++) in[i] = packable(row, x + (r + i) * k, k, narrow + i * k);
        char *to = out + r * sb_matmul_x_bytes(row, k);
        if (row->pack) {
            row->pack(in, (int)height, k, to);
            continue;
        }
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < height; j++) ((float *)to)[i * height + j] = x[(r + j) * k + i];
    }
    check_free(narrow);
}

void check_end_panels(samebits_format format, int64_t k, int64_t panels, void *w)
{
    const int64_t size = sb_panel_size(format, (sb_group){0}, k) / 2;
    if (!sb_format_is_paired(format) || k % 2 == 0) return;
    for (int64_t p = 0; p < panels; p++)
        for (int64_t c = 0; c < SB_PANEL; c++) ((uint16_t *)w)[p * size + sb_panel_index(format, k, c)] = 0;
}

void check_run_product(const sb_matmul_row *row, sb_matmul_args args)
{
    args.tile = sb_matmul_tile(row, args.rows);
    char *packed = check_alloc((size_t)(sb_matmul_packed_rows(row, args.rows) * sb_matmul_x_bytes(row, args.k)));
    pack_x(row, args.x, args.rows, args.k, args.tile, packed);
    args.x = (const float *)packed;
    row->fn(&args);
    check_free(packed);
    for (int64_t i = 0; i < args.rows * args.acc_stride; i++)
        if (sb_bits(args.acc[i]) != ~0u) args.acc[i] = sb_canonical(args.acc[i]);
}
