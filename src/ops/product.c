/* The engine of all matrix products: pack x once, then run blocks of the output as independent tasks. */
#include "ops/product.h"

#include "device/cpu/parallel.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul_quantized/matmul_quantized.h"

/* Sizes of a run; a pure function of the product and the number of workers, which never moves a bit. */
typedef struct {
    const samebits_context *context;
    const sb_product *product;
    const sb_matmul_row *row;
    samebits_format format;                   /* of w */
    int64_t panel_columns, col_panels, steps; /* columns a panel, panels of w, steps of the kernel's chain */
    int64_t tile, packed_rows;                /* rows a tile of packed x, and of all tiles of a batch */
    int64_t task_rows, block_panels;          /* rows and panels a task */
    int64_t block_rows;                       /* rows of a task that a kernel takes at once */
    int64_t row_tasks, col_blocks;
    int64_t panel_size;
    int64_t x_bytes; /* a packed row of x */
    char *x;         /* packed, batch after batch */
    float *gathered; /* a tile of x as contiguous f32 for each worker, if the kernel packs and x is not that */
    float *acc;      /* block_rows x block_panels for each worker */
    uint8_t *panels; /* block_panels for each worker, if the weights are not prepared */
} plan;

/* Chunks of a block's x and its sums share L2. Quantised weights are decoded for each block of rows: rather more rows.
 */
enum {
    FLOAT_BLOCK_ROWS = 96,
    FLOAT_BLOCK_PANELS = 32,
    QUANTISED_BLOCK_ROWS = 192,
    QUANTISED_BLOCK_PANELS = 16,
    FEW_ROWS_PANELS = 128,
    MIN_BLOCK_PANELS = 4,
    PACKED_BYTES = 1 << 18
};

static void plan_blocks(plan *p)
{
    const sb_product *q = p->product;
    const int64_t workers = p->context->options.threads;
    p->tile = sb_matmul_tile(p->row, q->m);
    p->packed_rows = sb_matmul_packed_rows(p->row, q->m);
    const int is_float = sb_format_is_float(p->format) || sb_format_is_wide(p->format);
    const int64_t most_rows = is_float ? FLOAT_BLOCK_ROWS : QUANTISED_BLOCK_ROWS;
    p->block_rows = SB_MIN(q->m, SB_MAX(1, most_rows / p->tile) * p->tile);
    p->panel_columns = sb_panel_columns(p->format);
    p->col_panels = sb_ceil_div(q->n, p->panel_columns);
    p->steps = sb_steps(p->format, q->k);
    /* About four tasks a worker, so that a slow worker holds nobody up. Panels that are packed for a task are so for
     * all rows, if that leaves tasks enough. */
    const int64_t tasks = 4 * workers;
    p->task_rows = q->weights || p->col_panels * q->batches < tasks * MIN_BLOCK_PANELS ? p->block_rows : q->m;
    p->row_tasks = sb_ceil_div(q->m, p->task_rows);
    const int64_t share = sb_ceil_div(p->col_panels * p->row_tasks * q->batches, tasks);
    /* Few rows stream their panels: the longer, the better. */
    const int64_t most = q->weights && q->m <= 2 * p->tile ? FEW_ROWS_PANELS
                         : is_float                        ? FLOAT_BLOCK_PANELS
                                                           : QUANTISED_BLOCK_PANELS;
    p->block_panels = SB_MIN(SB_MAX(sb_round_up(share, MIN_BLOCK_PANELS), MIN_BLOCK_PANELS), most);
    p->block_panels = SB_MIN(p->block_panels, p->col_panels);
    p->panel_size = sb_panel_size(p->format, q->weights ? q->weights->group : q->rows.group, q->k);
    /* What is packed for few rows is read once: it should still be in cache then. */
    if (!q->weights && q->m <= p->block_rows)
        p->block_panels = SB_MIN(p->block_panels, SB_MAX(1, PACKED_BYTES / SB_MAX(1, p->panel_size)));
    p->col_blocks = sb_ceil_div(p->col_panels, p->block_panels);
    p->x_bytes = sb_matmul_x_bytes(p->row, p->steps);
}

/* Steps of k that go through a tile at a time: the scattered writes then stay in L1. */
enum { PACK_STEPS = 64 };

/* f32 tiles: [k][rows of the tile]. */
static void pack_floats(const sb_view *x, const int64_t *offset, int64_t height, int64_t k, float *out)
{
    const int64_t step = x->stride[x->ndim - 1];
    for (int64_t begin = 0; begin < k; begin += PACK_STEPS) {
        const int64_t end = SB_MIN(begin + PACK_STEPS, k);
        for (int64_t r = 0; r < height; r++) {
            const float *in = (const float *)x->data + offset[r];
            if (x->dtype == SB_F32)
                for (int64_t i = begin; i < end; i++) out[i * height + r] = in[i * step];
            else
                for (int64_t i = begin; i < end; i++) out[i * height + r] = sb_load(x, offset[r] + i * step);
        }
    }
}

/* f64 tiles: [k][rows of the tile]. complex64: f32 tiles of twice the depth. */
static void pack_wide(const sb_view *x, const int64_t *offset, int64_t height, int64_t k, char *out)
{
    const int64_t step = x->stride[x->ndim - 1];
    for (int64_t begin = 0; begin < k; begin += PACK_STEPS)
        for (int64_t r = 0; r < height; r++)
            for (int64_t i = begin; i < SB_MIN(begin + PACK_STEPS, k); i++) {
                const char *element = x->data + (offset[r] + i * step) * 8;
                if (x->dtype == SB_F64) {
                    memcpy(out + (i * height + r) * 8, element, 8);
                    continue;
                }
                memcpy(out + (2 * i * height + r) * 4, element, 4);
                memcpy(out + ((2 * i + 1) * height + r) * 4, element + 4, 4);
            }
}

/* The dtype of the rows that a table row's pack takes. */
static sb_dtype pack_dtype(const sb_product *q) { return q->order == SAMEBITS_ORDER_AMX_1 ? SB_BF16 : SB_F32; }

static int is_packable(const sb_product *q) { return q->x.dtype == pack_dtype(q) && q->x.stride[q->x.ndim - 1] == 1; }

/* A row of x as pack takes it. */
static void gather(const sb_product *q, int64_t offset, void *out)
{
    const sb_view *x = &q->x;
    const int64_t step = x->stride[x->ndim - 1];
    const uint16_t *in = (const uint16_t *)x->data + offset;
    float *wide = out;
    if (pack_dtype(q) == SB_BF16)
        for (int64_t i = 0; i < q->k; i++) ((uint16_t *)out)[i] = in[i * step];
    else if (x->dtype == SB_BF16 && step == 1)
        for (int64_t i = 0; i < q->k; i++) wide[i] = sb_from_bf16(in[i]);
    else
        for (int64_t i = 0; i < q->k; i++) wide[i] = sb_load(x, offset + i * step);
}

static void pack_x_task(void *arg, int64_t index, int worker)
{
    const plan *p = arg;
    const sb_product *q = p->product;
    const int64_t tiles = sb_ceil_div(q->m, p->tile), batch = index / tiles, row = index % tiles * p->tile;
    const int64_t height = SB_MIN(p->tile, q->m - row);
    char *out = p->x + (batch * p->packed_rows + row) * p->x_bytes;
    int64_t offset[SB_MAX_TILE];
    for (int64_t r = 0; r < height; r++) offset[r] = sb_row_offset(&q->x, 1, sb_product_row(q, batch, row + r));
    if (sb_dtype_is_wide(q->x.dtype)) {
        pack_wide(&q->x, offset, height, q->k, out);
        return;
    }
    if (!p->row->pack) {
        pack_floats(&q->x, offset, height, q->k, (float *)out);
        return;
    }
    const void *rows[SB_MAX_TILE];
    for (int64_t r = 0; r < height; r++) {
        rows[r] = (const char *)q->x.data + offset[r] * sb_dtype_size(q->x.dtype);
        if (is_packable(q)) continue;
        float *gathered = p->gathered + (worker * p->tile + r) * q->k;
        gather(q, offset[r], gathered);
        rows[r] = gathered;
    }
    p->row->pack(rows, (int)height, q->k, out);
}

/* The panels of a task: where the prepared weights lie, or packed now into the worker's own memory. */
static const uint8_t *task_panels(const plan *p, int64_t batch, int64_t panel, int64_t count, int worker)
{
    const sb_product *q = p->product;
    if (q->weights) return q->weights->panels + panel * p->panel_size;
    sb_rows rows = q->rows;
    const int64_t skip = sb_row_offset(&q->w, 2, batch);
    rows.data = (const char *)rows.data + skip * sb_dtype_size(q->w.dtype);
    uint8_t *out = p->panels + worker * p->block_panels * p->panel_size;
    for (int64_t i = 0; i < count; i++) sb_pack_panel(&rows, panel + i, out + i * p->panel_size);
    return out;
}

static void block_task(void *arg, int64_t index, int worker)
{
    const plan *p = arg;
    const sb_product *q = p->product;
    const int64_t task = index % p->row_tasks, rest = index / p->row_tasks;
    const int64_t batch = rest / p->col_blocks, panel = rest % p->col_blocks * p->block_panels;
    const int64_t panels = SB_MIN(p->block_panels, p->col_panels - panel);
    const int64_t end = SB_MIN((task + 1) * p->task_rows, q->m);
    const int64_t acc_stride = p->block_panels * SB_PANEL;
    float *acc = p->acc + worker * p->block_rows * acc_stride;
    sb_matmul_args args = {.k = p->steps,
                           .panels = panels,
                           .tile = p->tile,
                           .w = task_panels(p, batch, panel, panels, worker),
                           .panel_size = p->panel_size,
                           .group = q->weights ? q->weights->group : q->rows.group,
                           .acc = acc,
                           .acc_stride = acc_stride};
    const int64_t col = panel * p->panel_columns;
    for (int64_t row = task * p->task_rows; row < end; row += p->block_rows) {
        args.rows = SB_MIN(p->block_rows, end - row);
        args.x = (const float *)(p->x + (batch * p->packed_rows + row) * p->x_bytes);
        p->row->fn(&args);
        sb_epilogue_store(sb_epilogue_select(p->context->cpu), q, batch, row, args.rows, col,
                          SB_MIN(panels * p->panel_columns, q->n - col), acc, acc_stride);
    }
}

/* a * b * c * size, or -1 if that overflows. */
static int64_t bytes(int64_t a, int64_t b, int64_t c, int64_t size)
{
    int64_t total;
    if (__builtin_mul_overflow(a, b, &total) || __builtin_mul_overflow(total, c, &total) ||
        __builtin_mul_overflow(total, size, &total))
        return -1;
    return total;
}

static const sb_matmul_row *select_row(samebits_format format, samebits_order order, unsigned cpu, int64_t rows)
{
    if (format == SB_FORMAT_C64) format = SAMEBITS_FORMAT_F32;
    if (!sb_format_is_float(format) && !sb_format_is_wide(format))
        return sb_matmul_quantized_select(format, order, cpu, rows);
    return sb_matmul_select(format, order, cpu);
}

/* Working memory: one block, cut up here. With memory == NULL only its size is returned, -1 if that overflows. */
static int64_t cut(plan *p, int64_t tasks, char *memory)
{
    const sb_product *q = p->product;
    const int64_t workers = sb_workers(p->context, tasks), tiles = q->batches * sb_ceil_div(q->m, p->tile);
    const int64_t gather_rows = p->row->pack && !is_packable(q) ? sb_workers(p->context, tiles) * p->tile : 0;
    const int64_t sizes[] = {bytes(q->batches, p->packed_rows, p->x_bytes, 1),
                             bytes(gather_rows, q->k, 1, sizeof(float)),
                             bytes(workers, p->block_rows, p->block_panels * SB_PANEL, sizeof(float)),
                             q->weights ? 0 : bytes(workers, p->block_panels, p->panel_size, 1)};
    int64_t begin[4], size = 0;
    for (int i = 0; i < 4; i++) {
        begin[i] = size;
        if (sizes[i] < 0 || __builtin_add_overflow(size, sizes[i], &size) ||
            __builtin_add_overflow(size, -size & (SB_ALIGN - 1), &size))
            return -1;
    }
    if (!memory) return size;
    p->x = memory + begin[0];
    p->gathered = (float *)(memory + begin[1]);
    p->acc = (float *)(memory + begin[2]);
    p->panels = (uint8_t *)memory + begin[3];
    return size;
}

/* *tasks gets how many blocks there are, *size the bytes of working memory. */
static samebits_status make_plan(const samebits_context *context, const sb_product *q, plan *p, int64_t *tasks,
                                 int64_t *size)
{
    const samebits_format format = q->weights ? q->weights->format : q->rows.format;
    *p = (plan){
        .context = context, .product = q, .row = select_row(format, q->order, context->cpu, q->m), .format = format};
    if (!p->row)
        return sb_fail(SAMEBITS_ERR_ORDER, "order %d (%s) has no kernel for %s weights: want portable-1%s",
                       (int)q->order, samebits_order_name(q->order), samebits_format_name(format),
                       select_row(format, SAMEBITS_ORDER_INT8_1, context->cpu, q->m)  ? " or int8-1"
                       : select_row(format, SAMEBITS_ORDER_AMX_1, context->cpu, q->m) ? " or amx-1"
                                                                                      : "");
    if (q->order == SAMEBITS_ORDER_AMX_1 && q->x.dtype != SB_BF16)
        return sb_fail(SAMEBITS_ERR_DTYPE, "x is %s, want bf16 for order amx-1", sb_dtype_name(q->x.dtype));
    /* A view of stride 0 may be deeper than any memory: keeps the sizes of a panel and of a row in range. */
    if (q->k > INT64_MAX / 1024)
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "K is %lld, too large for the product's working memory", (long long)q->k);
    plan_blocks(p);
    *tasks = q->batches * p->row_tasks * p->col_blocks;
    *size = cut(p, *tasks, NULL);
    if (*size < 0) return sb_fail(SAMEBITS_ERR_OVERFLOW, "the product's working memory overflows the address space");
    return SAMEBITS_OK;
}

static void run_plan(plan *p, int64_t tasks, char *memory)
{
    cut(p, tasks, memory);
    sb_parallel(p->context, p->product->batches * sb_ceil_div(p->product->m, p->tile), pack_x_task, p);
    sb_parallel(p->context, tasks, block_task, p);
}

samebits_status sb_product_size(const samebits_context *context, const sb_product *q, int64_t *size)
{
    plan p;
    int64_t tasks;
    *size = 0;
    return q->out.count ? make_plan(context, q, &p, &tasks, size) : SAMEBITS_OK;
}

void sb_product_run_in(const samebits_context *context, const sb_product *q, char *memory)
{
    plan p;
    int64_t tasks, size;
    if (q->out.count == 0 || make_plan(context, q, &p, &tasks, &size)) return;
    run_plan(&p, tasks, memory);
}

samebits_status sb_product_run(const samebits_context *context, const sb_product *q)
{
    if (q->out.count == 0) return SAMEBITS_OK;
    plan p;
    int64_t tasks, size;
    const samebits_status status = make_plan(context, q, &p, &tasks, &size);
    if (status) return status;
    char *memory = sb_alloc(context, (size_t)size);
    if (!memory) return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a product needs %lld bytes", (long long)size);
    run_plan(&p, tasks, memory);
    sb_free(context, memory, (size_t)size);
    return SAMEBITS_OK;
}
