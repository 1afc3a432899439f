/* The limit, the modes of a thread, and the products that they leave to stock (samebits/mode.h). */
#include "ops/mode.h"

#include <stdatomic.h>
#include <stdio.h>

#include <samebits/mode.h>

#include "base/cancel.h"
#include "device/cpu/parallel.h"

static _Atomic int64_t process_limit;
static _Atomic int64_t above_limit, without_row, refused;

/* Nothing is allocated, so that a thread may end inside a mode. */
static _Thread_local struct {
    samebits_mode_params stack[SAMEBITS_MODE_DEPTH];
    int depth;
} modes;

static samebits_status check_limit(int64_t rows)
{
    if (rows >= 0) return SAMEBITS_OK;
    return sb_fail(SAMEBITS_ERR_PARAM, "limit is %lld, want a number of rows, or 0 for off", (long long)rows);
}

samebits_status samebits_limit_set(int64_t rows)
{
    const samebits_status status = check_limit(rows);
    if (!status) atomic_store(&process_limit, rows);
    return status;
}

int64_t samebits_limit(void) { return atomic_load(&process_limit); }

void samebits_mode_params_default(samebits_mode_params *params)
{
    if (params) *params = (samebits_mode_params){.struct_size = sizeof *params};
}

samebits_status samebits_mode_begin(const samebits_mode_params *params)
{
    samebits_mode_params mode;
    samebits_mode_params_default(&mode);
    if (params) mode = *params;
    if (mode.struct_size != sizeof mode)
        return sb_fail(SAMEBITS_ERR_PARAM,
                       "params.struct_size is %zu, want %zu: call samebits_mode_params_default first", mode.struct_size,
                       sizeof mode);
    const samebits_status status = check_limit(mode.limit);
    if (status) return status;
    if (modes.depth == SAMEBITS_MODE_DEPTH)
        return sb_fail(SAMEBITS_ERR_PARAM, "this thread is in %d modes, want fewer: is a samebits_mode_end missing?",
                       modes.depth);
    modes.stack[modes.depth++] = mode;
    return SAMEBITS_OK;
}

samebits_status samebits_mode_end(void)
{
    if (!modes.depth) return sb_fail(SAMEBITS_ERR_PARAM, "this thread is in no mode: call samebits_mode_begin first");
    modes.depth--;
    return SAMEBITS_OK;
}

int samebits_mode_depth(void) { return modes.depth; }

static const samebits_mode_params *current(void) { return modes.depth ? &modes.stack[modes.depth - 1] : NULL; }

/* The limit in force, unlimited if it is off. */
static int64_t limit(void)
{
    const samebits_mode_params *mode = current();
    const int64_t rows = mode && mode->limit ? mode->limit : samebits_limit();
    return rows ? rows : SAMEBITS_UNLIMITED;
}

static void count(_Atomic int64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

samebits_status samebits_mode_route(const char *op, int64_t rows, int has_row, samebits_route *route)
{
    if (!op || !route) return sb_fail(SAMEBITS_ERR_NULL, "%s is NULL", op ? "route" : "op");
    if (rows < 0) return sb_fail(SAMEBITS_ERR_PARAM, "rows is %lld, want 0 or more", (long long)rows);
    const samebits_mode_params *mode = current();
    const int off = !mode && !samebits_limit(), above = rows > limit();
    if (!off && !above && !has_row && mode && mode->strict) {
        count(&refused);
        return sb_fail(SAMEBITS_ERR_UNSUPPORTED, "%s has no row here, and the mode is strict", op);
    }
    *route = off || above || !has_row ? SAMEBITS_ROUTE_STOCK : SAMEBITS_ROUTE_ORDER;
    if (!off && above) count(&above_limit);
    if (!off && !above && !has_row) count(&without_row);
    return SAMEBITS_OK;
}

samebits_status samebits_mode_counts(samebits_mode_report *report)
{
    if (!report) return sb_fail(SAMEBITS_ERR_NULL, "report is NULL: pass the address of a samebits_mode_report");
    *report = (samebits_mode_report){atomic_load(&above_limit), atomic_load(&without_row), atomic_load(&refused)};
    return SAMEBITS_OK;
}

void samebits_mode_counts_reset(void)
{
    atomic_store(&above_limit, 0);
    atomic_store(&without_row, 0);
    atomic_store(&refused, 0);
}

static DLTensor tensor_of(sb_view *view)
{
    return (DLTensor){.data = view->data,
                      .device = {kDLCPU, 0},
                      .ndim = view->ndim,
                      .dtype = view->type,
                      .shape = view->shape,
                      .strides = view->stride};
}

static int is_plain(const sb_epilogue *e)
{
    return e->alpha == 1.0 && !e->has_c && !e->has_bias && e->activation == SAMEBITS_ACTIVATION_NONE;
}

typedef struct {
    const sb_product *product;
    const sb_epilogue_row *row;
    const char *acc; /* (batches, M, N) */
    int size;        /* bytes of one of them */
} finish;

static void finish_row(void *arg, int64_t index, int worker)
{
    (void)worker;
    const finish *f = arg;
    const sb_product *p = f->product;
    const char *acc = f->acc + index * p->n * f->size;
    sb_epilogue_store(f->row, p, index / p->m, index % p->m, 1, 0, p->n, (const float *)acc, 0);
}

/* Whether stock has taken the product, whose x, w and out have been checked. */
static int call_stock(const samebits_context *context, const sb_product *p, sb_view *to)
{
    sb_view x = p->x, w = p->w;
    sb_swap_dims(&w, w.ndim - 2, w.ndim - 1);
    const DLTensor a = tensor_of(&x), b = tensor_of(&w);
    DLTensor out = tensor_of(to);
    const int caller = sb_cancel_wait(); /* who calls has memory to give back */
    const int taken = context->options.stock(context->options.stock_user, &a, &b, &out) == SAMEBITS_OK;
    sb_cancel_resume(caller);
    return taken;
}

/* Stock's product goes to out, or to memory of its own from which the epilogue makes out. */
static int compute(const samebits_context *context, const sb_product *p)
{
    sb_view view = p->out;
    if (is_plain(&p->epilogue)) return call_stock(context, p, &view);
    if (!sb_dtype_is_wide(view.dtype)) {
        view.dtype = SB_F32;
        view.type = (DLDataType){kDLFloat, 32, 1};
    }
    /* Cannot overflow: out spans as many elements. */
    const size_t size = (size_t)p->out.count * (size_t)sb_dtype_size(view.dtype);
    char *memory = sb_alloc(context, size);
    if (!memory) return 0;
    view.data = memory;
    int64_t step = 1;
    for (int i = view.ndim - 1; i >= 0; step *= view.shape[i--]) view.stride[i] = step;
    const int taken = call_stock(context, p, &view);
    finish f = {p, sb_epilogue_select(context->cpu), memory, sb_dtype_size(view.dtype)};
    if (taken) sb_parallel(context, p->batches * p->m, finish_row, &f);
    sb_free(context, memory, size);
    return taken;
}

int sb_mode_offer(const samebits_context *context, const sb_product *product)
{
    if (!context->options.stock || product->out.count == 0 || product->m <= limit()) return 0;
    if (!compute(context, product)) return 0;
    count(&above_limit);
    return 1;
}

int sb_mode_is_on(void) { return current() != NULL; }

samebits_status sb_mode_without_row(const samebits_context *context, samebits_status status, const sb_product *product,
                                    int has_epilogue)
{
    if (current()->strict) {
        char why[256];
        snprintf(why, sizeof why, "%s", samebits_last_error());
        count(&refused);
        return sb_fail(SAMEBITS_ERR_UNSUPPORTED, "the mode is strict, and this product has no row: %s", why);
    }
    sb_view out = product->out;
    if (!context->options.stock || has_epilogue || !call_stock(context, product, &out)) return status;
    count(&without_row);
    return SAMEBITS_OK;
}
