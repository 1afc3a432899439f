/* Registration, the device and its backends. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

static struct {
    sbg_options options;
    samebits_context *packer;
    char description[128];
} plugin;

static const char *device_name(ggml_backend_dev_t device)
{
    (void)device;
    return "samebits";
}

static const char *device_description(ggml_backend_dev_t device)
{
    (void)device;
    return plugin.description;
}

static void device_memory(ggml_backend_dev_t device, size_t *free, size_t *total)
{
    (void)device;
    *free = *total = 0; /* the CPU's, which the CPU device reports */
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t device)
{
    (void)device;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

static void device_props(ggml_backend_dev_t device, struct ggml_backend_dev_props *props)
{
    *props = (struct ggml_backend_dev_props){
        .name = device_name(device), .description = plugin.description, .type = GGML_BACKEND_DEVICE_TYPE_ACCEL};
}

static bool device_supports_buft(ggml_backend_dev_t device, ggml_backend_buffer_type_t type)
{
    (void)device;
    return sbg_is_our_type(type) || (type->iface.is_host && type->iface.is_host(type));
}

/* Whether a weight lies where we cannot read it, such as the CPU's repacked layout. */
static bool has_foreign_source(const struct ggml_tensor *op)
{
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor *src = op->src[i];
        const ggml_backend_buffer_t buffer = !src ? NULL : src->view_src ? src->view_src->buffer : src->buffer;
        if (buffer && !device_supports_buft(NULL, buffer->buft)) return true;
    }
    return false;
}

/* With `-fa auto`, its default, llama.cpp plans one graph to see where flash attention would run, and turns it
 * off unless that is the layer's own device, here the CPU. Without flash attention the sums over keys follow
 * the cells of the cache, which other slots move. So the first plan of a llama.cpp context (which sets its abort
 * callback before it plans) leaves that op to the CPU. It is never run: every context plans again before it
 * computes, and backend_compute fails if one did not. */
static bool declines_probe(ggml_backend_dev_t device, const struct ggml_tensor *op)
{
    sbg_backend *b = device->context;
    if (!b || op->op != GGML_OP_FLASH_ATTN_EXT) return false;
    b->declined = b->probed;
    return b->probed;
}

/* Strict mode. ggml tells no backend what it gives to others. But a plan asks each backend about every op that a
 * backend of lower priority would compute, and then shows it the part of the graph that it got: what was asked between
 * one plan and the next, and is not taken, is of the graph in the next. Questions to the registered device, which
 * llama.cpp asks while it places weights and samplers, are of no graph. */
static void note_question(sbg_backend *b, const struct ggml_tensor *op, bool taken)
{
    b->asked = true;
    if (taken || b->refused.op || !sbg_stock_moves(op->op)) return;
    b->refused.op = sbg_ggml.op_name(op->op);
    b->refused.type = sbg_ggml.type_name(op->src[0] ? op->src[0]->type : op->type);
    snprintf(b->refused.name, sizeof b->refused.name, "%s", op->name);
}

static bool device_supports_op(ggml_backend_dev_t device, const struct ggml_tensor *op)
{
    const bool supported = sbg_supports(op);
    if (supported && declines_probe(device, op)) return false;
    if (plugin.options.strict && device->context)
        note_question(device->context, op, supported && !has_foreign_source(op));
    return supported;
}

/* Called at the end of each plan, for each part of the graph that is this backend's. */
#if GGML_BACKEND_API_VERSION >= 3
static void backend_planned(ggml_backend_t backend, struct ggml_cgraph *graph,
                            struct ggml_backend_graph_optimize_params *params)
{
    (void)params;
#else
static void backend_planned(ggml_backend_t backend, struct ggml_cgraph *graph)
{
#endif
    (void)graph;
    sbg_backend *b = backend->context;
    b->planned = true;
    b->probed = false;
    if (!b->asked) return;
    b->asked = false;
    b->stock = b->refused;
    b->refused = (sbg_left){0};
}

static const char *backend_name(ggml_backend_t backend)
{
    (void)backend;
    return "samebits";
}

static void backend_free(ggml_backend_t backend)
{
    sbg_backend *b = backend->context;
    samebits_destroy(&b->samebits);
    sbg_arena_clear(&b->arena);
    free(b);
    free(backend);
}

static enum ggml_status backend_compute(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    sbg_backend *b = backend->context;
    if (b->stock.op) {
        sbg_error("strict: stopped, because %s (%s) of type %s is left to a stock kernel, whose bits may move\n",
                  b->stock.op, b->stock.name, b->stock.type);
        return GGML_STATUS_FAILED;
    }
    if (b->declined) {
        sbg_error("stopped: flash attention was planned for a stock kernel; set it on or off, not to auto\n");
        return GGML_STATUS_FAILED;
    }
    const int nodes = sbg_ggml.graph_n_nodes(graph);
    for (int i = 0; i < nodes; i++) {
        struct ggml_tensor *node = sbg_ggml.graph_node(graph, i);
        if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE)) continue; /* its inputs are not set in this run */
        if (b->abort && b->abort(b->abort_data)) return GGML_STATUS_ABORTED;
        if (!sbg_compute(b, node)) continue;
        sbg_error("%s (%s): %s\n", sbg_ggml.op_name(node->op), node->name, samebits_last_error());
        return GGML_STATUS_FAILED;
    }
    return GGML_STATUS_SUCCESS;
}

static ggml_backend_t device_init(ggml_backend_dev_t device, const char *params);

static ggml_backend_buffer_type_t weights_type(ggml_backend_dev_t device)
{
    return sbg_buffer_type(device, plugin.packer);
}

static ggml_backend_buffer_type_t compute_type(ggml_backend_dev_t device)
{
    (void)device;
    return sbg_ggml.cpu_buffer_type();
}

/* Two faces of one device. The registered one offers the buffer type for weights. Each backend has its own,
 * whose buffer type is the CPU's: the scheduler hands an op without weights to an accelerator only when both
 * have the same, and nothing is copied between them. */
#define DEVICE(buffer_type)                                                                                            \
    {                                                                                                                  \
        .iface = {                                                                                                     \
            .get_name = device_name,                                                                                   \
            .get_description = device_description,                                                                     \
            .get_memory = device_memory,                                                                               \
            .get_type = device_type,                                                                                   \
            .get_props = device_props,                                                                                 \
            .init_backend = device_init,                                                                               \
            .get_buffer_type = buffer_type,                                                                            \
            .supports_op = device_supports_op,                                                                         \
            .supports_buft = device_supports_buft                                                                      \
        }                                                                                                              \
    }
static struct ggml_backend_device weights_device = DEVICE(weights_type);
static const struct ggml_backend_device compute_device = DEVICE(compute_type);

static ggml_backend_t device_init(ggml_backend_dev_t device, const char *params)
{
    static ggml_guid guid = {0x73, 0x61, 0x6d, 0x65, 0x62, 0x69, 0x74, 0x73,
                             0x2d, 0x67, 0x67, 0x6d, 0x6c, 0x2d, 0x30, 0x31};
    (void)device;
    (void)params;
    sbg_backend *b = calloc(1, sizeof *b);
    ggml_backend_t backend = calloc(1, sizeof *backend);
    samebits_options options;
    samebits_options_default(&options);
    options.cpu = plugin.options.cpu;
    options.threads = plugin.options.threads;
    if (b) options.allocator = sbg_arena_allocator(&b->arena);
    if (!b || !backend || samebits_create(&b->samebits, &options)) {
        sbg_error("no backend: %s\n", b && backend ? samebits_last_error() : "out of memory");
        if (b) sbg_arena_clear(&b->arena);
        free(b);
        free(backend);
        return NULL;
    }
    b->options = &plugin.options;
    b->device = compute_device;
    b->device.reg = weights_device.reg;
    b->device.context = b;
    *backend = (struct ggml_backend){.guid = &guid,
                                     .device = &b->device,
                                     .context = b,
                                     .iface = {.get_name = backend_name,
                                               .free = backend_free,
                                               .graph_compute = backend_compute,
                                               .graph_optimize = backend_planned}};
    return backend;
}

static void set_n_threads(ggml_backend_t backend, int threads)
{
    sbg_backend *b = backend->context;
    if (!b->options->threads && threads > 0) samebits_context_set_threads(b->samebits, threads);
}

static void set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void *data)
{
    sbg_backend *b = backend->context;
    b->probed = !b->planned;
    b->abort = callback;
    b->abort_data = data;
}

static const char *reg_name(ggml_backend_reg_t reg)
{
    (void)reg;
    return "samebits";
}

static size_t reg_count(ggml_backend_reg_t reg)
{
    (void)reg;
    return 1;
}

static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t index)
{
    (void)reg;
    return index == 0 ? &weights_device : NULL;
}

static void *reg_proc_address(ggml_backend_reg_t reg, const char *name)
{
    (void)reg;
    if (!strcmp(name, "ggml_backend_set_n_threads")) return (void *)set_n_threads;
    if (!strcmp(name, "ggml_backend_set_abort_callback")) return (void *)set_abort_callback;
    return NULL;
}

static struct ggml_backend_reg registration = {
    .api_version = GGML_BACKEND_API_VERSION,
    .iface = {.get_name = reg_name,
              .get_device_count = reg_count,
              .get_device = reg_device,
              .get_proc_address = reg_proc_address},
};

static bool start(const void *caller)
{
    if (plugin.packer) return true;
    if (!sbg_host_find(caller) || !sbg_options_read(&plugin.options)) return false;
    samebits_options options;
    samebits_options_default(&options);
    options.cpu = plugin.options.cpu;
    options.threads = plugin.options.threads;
    if (samebits_create(&plugin.packer, &options)) {
        sbg_error("not loaded: %s\n", samebits_last_error());
        return false;
    }
    weights_device.reg = &registration;
    const char *extras = samebits_cpu_extras(plugin.packer);
    snprintf(plugin.description, sizeof plugin.description,
             "samebits %s (quantised weights %s, floats %s, cpu %s%s%s%s)", samebits_version(),
             samebits_order_name(plugin.options.order), samebits_order_name(SAMEBITS_ORDER_PORTABLE_1),
             samebits_cpu_name(samebits_context_cpu(plugin.packer)), *extras ? " " : "", extras,
             plugin.options.strict ? ", strict" : "");
    /* A warning, because llama-server hides ggml's infos unless it is asked to be verbose, and who runs samebits must
     * see that it runs. */
    sbg_ggml.log(GGML_LOG_LEVEL_WARN, "samebits is active: %s\n", plugin.description);
    return true;
}

__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void);

/* The one exported symbol. NULL, with a line that says why, when the plugin cannot work here. */
ggml_backend_reg_t ggml_backend_init(void) { return start(__builtin_return_address(0)) ? &registration : NULL; }
