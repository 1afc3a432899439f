#include "formats.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlx.h"
#include "quant.h"
#include "table.h"

/* Rows of blocks; each block has another scale, so that with 16 bits all of them occur. */
enum { ROWS = 512, BLOCKS = 128, HEIGHT = 3 };

typedef struct line {
    const char *format;
    int present;
    int64_t weights, differing;  /* plain C beside the owner */
    int64_t products, different; /* our product beside samebits_linear of the owner's values */
} line;

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* NaN is NaN: which one a widened NaN becomes is the processor's choice. */
static int same(float a, float b) { return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b)); }

static int64_t differing(const float *a, const float *b, int64_t count)
{
    int64_t result = 0;
    for (int64_t i = 0; i < count; i++) result += !same(a[i], b[i]);
    return result;
}

/* Random bytes everywhere; with all_scales the blocks' scales are the numbers 0, 1, 2, ... */
static void fill_blocks(samebits_format format, int all_scales, tensor *w, rng *r)
{
    quant_fill(format, w, FILL_UNIT, r);
    const int64_t size = w->shape[1] / BLOCKS;
    for (int64_t i = 0; all_scales && i < ROWS * BLOCKS; i++) {
        const uint8_t bytes[2] = {(uint8_t)i, (uint8_t)(i >> 8)};
        if (format == SAMEBITS_FORMAT_NVFP4) { /* four scales of a byte */
            for (int part = 0; part < 4; part++) *(uint8_t *)tensor_at(w, i * size + part) = (uint8_t)(i + 64 * part);
            continue;
        }
        memcpy((uint8_t *)tensor_at(w, i * size) + quant_scale_offset(format), bytes,
               format == SAMEBITS_FORMAT_MXFP4 ? 1 : 2);
    }
}

static void compare_format(samebits_format format, ggml_dequantiser *owner, int all_scales, line *l)
{
    const int64_t k = BLOCKS * samebits_format_block(format);
    size_t row_size = 0;
    rng r = {19};
    tensor w, values, x, want, have;
    cli_check(samebits_format_row_size(format, k, &row_size), "samebits_format_row_size");
    tensor_make2(&w, T_U8, LAYOUT_PLAIN, ROWS, (int64_t)row_size);
    tensor_make2(&values, T_F32, LAYOUT_PLAIN, ROWS, k);
    tensor_make2(&x, T_F32, LAYOUT_PLAIN, HEIGHT, k);
    tensor_make2(&want, T_F32, LAYOUT_PLAIN, HEIGHT, ROWS);
    tensor_make2(&have, T_F32, LAYOUT_PLAIN, HEIGHT, ROWS);
    fill_blocks(format, all_scales, &w, &r);
    tensor_fill(&x, FILL_UNIT, &r);
    float *plain = cli_alloc((size_t)k * sizeof *plain);
    for (int64_t row = 0; row < ROWS; row++) {
        const uint8_t *bytes = tensor_at(&w, row * (int64_t)row_size);
        float *value = tensor_at(&values, row * k);
        owner(bytes, value, k);
        quant_row(format, bytes, k, plain);
        l->differing += differing(value, plain, k);
        l->weights += k;
    }
    samebits_context *context = cli_context(SAMEBITS_CPU_AUTO, 0, 0);
    cli_check(samebits_linear(context, &x.dl, &values.dl, NULL, &want.dl), "samebits_linear");
    cli_check(samebits_matmul_quantized(context, &x.dl, &w.dl, format, SAMEBITS_ORDER_PORTABLE_1, NULL, &have.dl),
              "samebits_matmul_quantized");
    l->different += differing(tensor_at(&want, 0), tensor_at(&have, 0), HEIGHT * ROWS);
    l->products += HEIGHT * ROWS;
    free(plain);
    tensor_free(&w);
    tensor_free(&values);
    tensor_free(&x);
    tensor_free(&want);
    tensor_free(&have);
}

static void print_human(const line *lines, int count, const ggml_library *g)
{
    table t;
    table_begin(&t, "format|>weights|>differ|>products|>differ|owner");
    for (int i = 0; i < count; i++) {
        const line *l = &lines[i];
        table_cell(&t, "%s", l->format);
        table_cell(&t, "%lld", (long long)l->weights);
        table_cell(&t, "%lld", (long long)l->differing);
        table_cell(&t, "%lld", (long long)l->products);
        table_cell(&t, "%lld", (long long)l->different);
        table_cell(&t, "%s", l->present ? ggml_name(g) : "has no such format");
    }
    table_end(&t, stdout);
    printf("\nWeights by the spec in plain C, and products by this library, beside the owner's function for the "
           "format.\n");
}

static void print_json(const line *lines, int count)
{
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "formats");
    cJSON_AddNumberToObject(root, "schema", CLI_JSON_SCHEMA);
    for (int i = 0; i < count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "format", lines[i].format);
        cJSON_AddBoolToObject(one, "present", lines[i].present);
        cJSON_AddNumberToObject(one, "weights", (double)lines[i].weights);
        cJSON_AddNumberToObject(one, "weights_differing", (double)lines[i].differing);
        cJSON_AddNumberToObject(one, "products", (double)lines[i].products);
        cJSON_AddNumberToObject(one, "products_differing", (double)lines[i].different);
        cJSON_AddItemToArray(list, one);
    }
    char *text = cJSON_Print(root);
    puts(text);
    free(text);
    cJSON_Delete(root);
}

int formats_verify(const ggml_library *g, int json)
{
    line lines[SAMEBITS_FORMAT_COUNT];
    int64_t moved = 0;
    int count = 0;
    for (int f = SAMEBITS_FORMAT_Q4_0; f < SAMEBITS_FORMAT_COUNT; f++) {
        const samebits_format format = (samebits_format)f;
        if (mlx_form_of(format)) continue;
        ggml_dequantiser *owner = ggml_find_dequantiser(g, format);
        line *l = &lines[count++];
        *l = (line){.format = samebits_format_name(format), .present = owner != NULL};
        for (int all_scales = 0; owner && all_scales < 2; all_scales++) compare_format(format, owner, all_scales, l);
        moved += l->differing + l->different;
    }
    if (json)
        print_json(lines, count);
    else
        print_human(lines, count, g);
    return moved ? CLI_MOVED : CLI_HOLDS;
}
