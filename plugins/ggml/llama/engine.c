#include "engine.h"

#include "error.h"
#include "ggml-backend.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { BATCH_TOKENS = 2048 };

/* ggml's log callback has one user pointer per process, and there is one engine per process. */
static struct {
    char complaint[512]; /* the first error since it was cleared: later ones only say that something failed */
    char banner[512];
    char *trace;
    size_t trace_length, trace_size;
    bool tracing;
} logged;

static void copy_line(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text);
    for (size_t n = strlen(to); n > 0 && isspace((unsigned char)to[n - 1]); n--) to[n - 1] = 0;
}

static void append_trace(const char *text)
{
    const size_t length = strlen(text);
    if (logged.trace_length + length + 1 > logged.trace_size) {
        const size_t size = 2 * (logged.trace_size + length) + 4096;
        char *grown = realloc(logged.trace, size);
        if (!grown) return;
        logged.trace = grown;
        logged.trace_size = size;
    }
    memcpy(logged.trace + logged.trace_length, text, length + 1);
    logged.trace_length += length;
}

static void on_log(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR && !logged.complaint[0] && strlen(text) > 1)
        copy_line(logged.complaint, sizeof logged.complaint, text);
    /* The first line that the plugin signs is its banner; ggml's own "loaded ... backend from" is not. */
    if (!logged.banner[0] && strncasecmp(text, "samebits", 8) == 0)
        copy_line(logged.banner, sizeof logged.banner, text);
    if (logged.tracing) append_trace(text);
}

const char *engine_assignments(void) { return logged.trace ? logged.trace : ""; }

void engine_forget_assignments(void)
{
    logged.trace_length = 0;
    if (logged.trace) logged.trace[0] = 0;
}

/* The release layout keeps the backend modules beside libggml, wherever this program is. */
static void load_backends(const char *folder)
{
    char beside[4096];
    Dl_info library;
    if (!folder && dladdr((void *)(uintptr_t)ggml_backend_load_all, &library) && library.dli_fname) {
        snprintf(beside, sizeof beside, "%s", library.dli_fname);
        char *slash = strrchr(beside, '/');
        if (slash) {
            *slash = 0;
            folder = beside;
        }
    }
    ggml_backend_load_all_from_path(folder);
}

static ggml_backend_dev_t find_samebits(void)
{
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        if (strcasestr(ggml_backend_dev_name(device), "samebits")) return device;
    }
    return NULL;
}

static void list_devices(char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < ggml_backend_dev_count() && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
                                 ggml_backend_dev_name(ggml_backend_dev_get(i)));
}

static int open_backends(const struct engine_options *options, bool *plain_weights)
{
    /* dlopen looks for a bare file name elsewhere than in the working folder. */
    char *plugin = options->plugin ? realpath(options->plugin, NULL) : NULL;
    if (options->plugin && !plugin)
        return fail("cannot read the plugin %s: %s; build it or pass --plugin libggml-samebits.so", options->plugin,
                    strerror(errno));
    if (plugin)
        setenv("GGML_BACKEND_PATH", plugin, 1);
    else
        unsetenv("GGML_BACKEND_PATH");
    free(plugin);
    if (options->trace) setenv("GGML_SCHED_DEBUG", "2", 1);
    logged.tracing = options->trace;
    llama_log_set(on_log, NULL);
    load_backends(options->backend_dir);
    llama_backend_init();
    if (!ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU))
        return fail("ggml found no CPU backend; pass --backends with the folder that holds libggml-cpu*.so");
    ggml_backend_dev_t device = find_samebits();
    if (options->plugin && !device)
        return fail(
            "%s was not loaded: %s; build the plugin for this libggml (samebits info --ggml names the right one)",
            options->plugin, logged.complaint[0] ? logged.complaint : "it registered no device of that name");
    if (!options->plugin && device)
        return fail("the stock process has a samebits device: unset GGML_BACKEND_PATH, use an unmodified llama.cpp");
    /* Repacked weights stay with stock's kernels, unless the plugin's own buffer type comes first and takes them. */
    *plain_weights =
        options->no_repack || (device && ggml_backend_dev_buffer_type(device) == ggml_backend_cpu_buffer_type());
    return 0;
}

int engine_open(struct engine *engine, const struct engine_options *options)
{
    *engine = (struct engine){0};
    FILE *file = fopen(options->model, "rb");
    char magic[4] = "";
    const bool is_gguf = file && fread(magic, 1, sizeof magic, file) == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
    const int reason = errno;
    if (file) fclose(file);
    if (!file)
        return fail("cannot read the model %s: %s; pass the path of a GGUF file", options->model, strerror(reason));
    if (!is_gguf) return fail("%s is not a GGUF file; pass the path of one", options->model);

    bool plain_weights = false;
    if (open_backends(options, &plain_weights)) return -1;
    ggml_backend_dev_t no_gpus[] = {NULL};
    struct llama_model_params params = llama_model_default_params();
    params.devices = no_gpus;
    params.n_gpu_layers = 0;
    params.use_extra_bufts = !plain_weights;
    logged.complaint[0] = 0;
    engine->model = llama_model_load_from_file(options->model, params);
    if (!engine->model) return fail("llama.cpp cannot load %s: %s", options->model, logged.complaint);
    engine->vocab = llama_model_get_vocab(engine->model);
    engine->n_vocab = llama_vocab_n_tokens(engine->vocab);
    engine->window = llama_model_n_swa(engine->model);
    llama_model_desc(engine->model, engine->description, sizeof engine->description);
    list_devices(engine->devices, sizeof engine->devices);
    memcpy(engine->banner, logged.banner, sizeof engine->banner);
    return 0;
}

void engine_close(struct engine *engine)
{
    llama_model_free(engine->model);
    llama_backend_free();
    free(logged.trace);
    logged.trace = NULL;
    logged.trace_length = logged.trace_size = 0;
}

struct llama_context_params engine_params(int n_ctx, int slots, int ubatch, int threads, bool flash)
{
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(n_ctx * slots);
    params.n_batch = BATCH_TOKENS;
    params.n_ubatch = (uint32_t)ubatch;
    params.n_seq_max = (uint32_t)slots;
    params.n_threads = params.n_threads_batch = threads;
    params.flash_attn_type = flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.swa_full = true;
    return params;
}

struct llama_context *engine_context(const struct engine *engine, struct llama_context_params params)
{
    logged.complaint[0] = 0;
    struct llama_context *context = llama_init_from_model(engine->model, params);
    if (!context)
        fail("llama.cpp refuses this context: %s", logged.complaint[0] ? logged.complaint : "it gives no reason");
    return context;
}
