#include "ggml.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct init_params {
    size_t size;
    void *memory;
    bool no_alloc;
} init_params;

struct ggml_library {
    char *name;
    void *base;
    void *(*init)(init_params params);
    void (*free)(void *context);
    void *(*new_2d)(void *context, int type, int64_t a, int64_t b);
    void *(*new_4d)(void *context, int type, int64_t a, int64_t b, int64_t c, int64_t d);
    void *(*mul_mat)(void *context, void *a, void *b);
    void *(*flash)(void *context, void *q, void *k, void *v, void *mask, float scale, float bias, float softcap);
    void *(*new_graph)(void *context);
    void (*expand)(void *graph, void *tensor);
    void *(*data)(const void *tensor);
    int (*compute)(void *context, void *graph, int threads);
};

struct ggml_op {
    const ggml_library *g;
    void *context, *graph, *result;
};

static void *need(void *library, const char *symbol)
{
    void *found = dlsym(library, symbol);
    if (!found) cli_die("--ggml: this ggml has no %s; versions 0.9 to 0.26 are known to have it", symbol);
    return found;
}

static void *open_file(const char *folder, const char *file)
{
    char *path = cli_text("%s/%s", folder, file);
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    free(path);
    return library;
}

/* The libggml-cpu*.so that rates itself highest on this machine. */
static void *open_cpu(const char *folder)
{
    DIR *dir = opendir(folder);
    void *best = NULL;
    int best_score = -1;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const size_t length = strlen(e->d_name);
        if (strncmp(e->d_name, "libggml-cpu", 11) || length < 3 || strcmp(e->d_name + length - 3, ".so")) continue;
        void *library = open_file(folder, e->d_name);
        if (!library) continue;
        int (*score)(void) = (int (*)(void))dlsym(library, "ggml_backend_score");
        const int mine = score ? score() : 1;
        if (mine > best_score) {
            best = library;
            best_score = mine;
        }
    }
    if (dir) closedir(dir);
    return best;
}

ggml_library *ggml_open(const char *folder)
{
    void *base = open_file(folder, "libggml-base.so");
    if (!base) cli_die("--ggml %s: %s; name the folder with libggml-base.so and libggml-cpu*.so", folder, dlerror());
    void *cpu = open_cpu(folder);
    if (!cpu) cli_die("--ggml %s: no libggml-cpu*.so that loads is there", folder);
    ggml_library *g = cli_alloc(sizeof *g);
    g->base = base;
    const char *(*version)(void) = (const char *(*)(void))dlsym(base, "ggml_version");
    g->name = cli_text("ggml%s%s", version ? " " : "", version ? version() : "");
    *(void **)&g->init = need(base, "ggml_init");
    *(void **)&g->free = need(base, "ggml_free");
    *(void **)&g->new_2d = need(base, "ggml_new_tensor_2d");
    *(void **)&g->new_4d = need(base, "ggml_new_tensor_4d");
    *(void **)&g->mul_mat = need(base, "ggml_mul_mat");
    *(void **)&g->flash = need(base, "ggml_flash_attn_ext");
    *(void **)&g->new_graph = need(base, "ggml_new_graph");
    *(void **)&g->expand = need(base, "ggml_build_forward_expand");
    *(void **)&g->data = need(base, "ggml_get_data");
    *(void **)&g->compute = need(cpu, "ggml_graph_compute_with_ctx");
    ((void (*)(void))need(cpu, "ggml_cpu_init"))();
    return g;
}

/* Every backend's description starts with the API version that it was built for. */
static int api_of(void *library)
{
    static const char *const entries[] = {"ggml_backend_init", "ggml_backend_cpu_reg"};
    for (size_t i = 0; library && i < CLI_COUNT(entries); i++) {
        const int *(*entry)(void) = (const int *(*)(void))dlsym(library, entries[i]);
        const int *reg = entry ? entry() : NULL;
        if (reg) return *reg;
    }
    return 0;
}

int ggml_api(const char *path, const char **version)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *base = library;
    if (!library) {
        /* A folder, or a library that needs its neighbours. */
        const char *slash = strrchr(path, '/');
        char *folder = cli_text("%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
        base = open_file(path, "libggml-base.so");
        library = base ? open_cpu(path) : (base = open_file(folder, "libggml-base.so")) ? dlopen(path, RTLD_NOW) : NULL;
        free(folder);
    }
    const char *(*text)(void) = base ? (const char *(*)(void))dlsym(base, "ggml_version") : NULL;
    *version = text ? text() : NULL;
    return api_of(library);
}

const char *ggml_name(const ggml_library *g) { return g->name; }

int ggml_type_of(samebits_format format)
{
    static const int types[] = {
        [SAMEBITS_FORMAT_F32] = 0,    [SAMEBITS_FORMAT_F16] = 1,   [SAMEBITS_FORMAT_BF16] = 30,
        [SAMEBITS_FORMAT_Q4_0] = 2,   [SAMEBITS_FORMAT_Q4_1] = 3,  [SAMEBITS_FORMAT_Q5_0] = 6,
        [SAMEBITS_FORMAT_Q5_1] = 7,   [SAMEBITS_FORMAT_Q8_0] = 8,  [SAMEBITS_FORMAT_IQ4_NL] = 20,
        [SAMEBITS_FORMAT_MXFP4] = 39, [SAMEBITS_FORMAT_Q2_K] = 10, [SAMEBITS_FORMAT_Q3_K] = 11,
        [SAMEBITS_FORMAT_Q4_K] = 12,  [SAMEBITS_FORMAT_Q5_K] = 13, [SAMEBITS_FORMAT_Q6_K] = 14,
        [SAMEBITS_FORMAT_NVFP4] = 40,
    };
    const size_t i = (size_t)format;
    return i < CLI_COUNT(types) && (types[i] || format == SAMEBITS_FORMAT_F32) ? types[i] : -1;
}

ggml_dequantiser *ggml_find_dequantiser(const ggml_library *g, samebits_format format)
{
    static const char *const names[] = {
        [SAMEBITS_FORMAT_Q4_0] = "q4_0",   [SAMEBITS_FORMAT_Q4_1] = "q4_1", [SAMEBITS_FORMAT_Q5_0] = "q5_0",
        [SAMEBITS_FORMAT_Q5_1] = "q5_1",   [SAMEBITS_FORMAT_Q8_0] = "q8_0", [SAMEBITS_FORMAT_IQ4_NL] = "iq4_nl",
        [SAMEBITS_FORMAT_MXFP4] = "mxfp4", [SAMEBITS_FORMAT_Q2_K] = "q2_K", [SAMEBITS_FORMAT_Q3_K] = "q3_K",
        [SAMEBITS_FORMAT_Q4_K] = "q4_K",   [SAMEBITS_FORMAT_Q5_K] = "q5_K", [SAMEBITS_FORMAT_Q6_K] = "q6_K",
        [SAMEBITS_FORMAT_NVFP4] = "nvfp4",
    };
    if ((size_t)format >= CLI_COUNT(names) || !names[format]) return NULL;
    char *symbol = cli_text("dequantize_row_%s", names[format]);
    ggml_dequantiser *found;
    *(void **)&found = dlsym(g->base, symbol);
    free(symbol);
    return found;
}

static ggml_op *begin(ggml_library *g, size_t bytes)
{
    ggml_op *op = cli_alloc(sizeof *op);
    op->g = g;
    op->context = g->init((init_params){bytes + ((size_t)64 << 20), NULL, false});
    if (!op->context) cli_die("--ggml: ggml_init failed: out of memory");
    return op;
}

static ggml_op *finish(ggml_op *op, void *result)
{
    op->result = result;
    op->graph = op->g->new_graph(op->context);
    op->g->expand(op->graph, result);
    return op;
}

static size_t bytes_of(const tensor *t) { return (size_t)tensor_count(t) * dtype_size(t->type); }

ggml_op *ggml_linear(ggml_library *g, samebits_format format, const tensor *w, int64_t k, const tensor *x)
{
    const int64_t n = w->shape[0], m = x->shape[0];
    ggml_op *op = begin(g, bytes_of(w) + 3 * bytes_of(x) + (size_t)(m * n) * sizeof(float));
    void *a = g->new_2d(op->context, ggml_type_of(format), k, n), *b = g->new_2d(op->context, 0, k, m);
    memcpy(g->data(a), tensor_at(w, 0), bytes_of(w));
    memcpy(g->data(b), tensor_at(x, 0), bytes_of(x));
    return finish(op, g->mul_mat(op->context, a, b));
}

static void *copy_4d(ggml_op *op, samebits_format format, const tensor *t, int64_t columns)
{
    void *to = op->g->new_4d(op->context, ggml_type_of(format), columns, t->shape[2], t->shape[1], t->shape[0]);
    memcpy(op->g->data(to), tensor_at(t, 0), bytes_of(t));
    return to;
}

ggml_op *ggml_attention(ggml_library *g, const attention_call *call)
{
    const int64_t depth = call->q->shape[3], width = call->out->shape[3];
    ggml_op *op = begin(g, bytes_of(call->q) * 2 + bytes_of(call->k) + bytes_of(call->v));
    void *q = copy_4d(op, SAMEBITS_FORMAT_F32, call->q, depth);
    void *k = copy_4d(op, call->k_format, call->k, depth), *v = copy_4d(op, call->v_format, call->v, width);
    return finish(op, g->flash(op->context, q, k, v, NULL, call->scale, 0.0f, 0.0f));
}

void ggml_compute(ggml_op *op, int threads)
{
    if (op->g->compute(op->context, op->graph, threads)) cli_die("--ggml: the graph failed");
}

const float *ggml_result(const ggml_op *op) { return op->g->data(op->result); }

void ggml_op_free(ggml_op *op)
{
    if (!op) return;
    op->g->free(op->context);
    free(op);
}
