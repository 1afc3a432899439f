#include "check/product.h"

#include "check/check.h"
#include "formats/elements.h"

static void pack_x(const sb_matmul_row *row, const float *x, int64_t rows, int64_t k, int64_t tile, char *out)
{
    memset(out, 0xA5, (size_t)(sb_matmul_packed_rows(row, rows) * sb_matmul_x_bytes(row, k)));
    for (int64_t r = 0; r < rows; r += tile) {
        const int64_t height = SB_MIN(tile, rows - r);
        const float *in[SB_MAX_TILE];
        for (int64_t i = 0; i < height; i++) in[i] = x + (r + i) * k;
        char *to = out + r * sb_matmul_x_bytes(row, k);
        if (row->pack) {
            row->pack(in, (int)height, k, to);
            continue;
        }
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < height; j++) ((float *)to)[i * height + j] = in[j][i];
    }
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
