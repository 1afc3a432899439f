#include "onednn.h"

#include <dlfcn.h>
#include <stdlib.h>

/* The values of oneDNN 3's dnnl_common_types.h and dnnl_types.h; its names. */
enum { DNNL_CPU = 1, DNNL_IN_ORDER = 1, DNNL_TAG_ANY = 1, DNNL_QUERY_WEIGHTS_MD = 131 };
enum { DNNL_F16 = 1, DNNL_BF16 = 2, DNNL_F32 = 3 };
enum { DNNL_ARG_SRC = 1, DNNL_ARG_DST = 17, DNNL_ARG_WEIGHTS = 33, DNNL_MAX_NDIMS = 12 };

typedef int64_t dims[DNNL_MAX_NDIMS];
typedef struct argument {
    int arg;
    void *memory;
} argument;

struct onednn {
    void *engine, *stream;
    int (*desc_any)(void **desc, int ndims, const dims shape, int type, int tag);
    int (*desc_strides)(void **desc, int ndims, const dims shape, int type, const dims strides);
    int (*desc_destroy)(void *desc);
    int (*matmul)(void **primitive_desc, void *engine, const void *x, const void *w, const void *bias, const void *out,
                  const void *attributes);
    int (*reorder)(void **primitive_desc, const void *from, void *from_engine, const void *to, void *to_engine,
                   const void *attributes);
    const void *(*query_md)(const void *primitive_desc, int what, int index);
    int (*primitive_desc_destroy)(void *primitive_desc);
    int (*primitive)(void **primitive, const void *primitive_desc);
    int (*primitive_destroy)(void *primitive);
    int (*execute)(const void *primitive, void *stream, int count, const argument *arguments);
    int (*wait)(void *stream);
    int (*memory)(void **memory, const void *desc, void *engine, void *data);
    int (*memory_destroy)(void *memory);
};

struct onednn_op {
    const onednn *library;
    void *primitive, *x, *w, *out;
};

onednn *onednn_open(void *library)
{
    int (*engine)(void **, int, size_t), (*stream)(void **, void *, unsigned);
    onednn d;
    const struct {
        const char *name;
        void *function;
    } wanted[] = {{"dnnl_engine_create", &engine},
                  {"dnnl_stream_create", &stream},
                  {"dnnl_memory_desc_create_with_tag", &d.desc_any},
                  {"dnnl_memory_desc_create_with_strides", &d.desc_strides},
                  {"dnnl_memory_desc_destroy", &d.desc_destroy},
                  {"dnnl_matmul_primitive_desc_create", &d.matmul},
                  {"dnnl_reorder_primitive_desc_create", &d.reorder},
                  {"dnnl_primitive_desc_query_md", &d.query_md},
                  {"dnnl_primitive_desc_destroy", &d.primitive_desc_destroy},
                  {"dnnl_primitive_create", &d.primitive},
                  {"dnnl_primitive_destroy", &d.primitive_destroy},
                  {"dnnl_primitive_execute", &d.execute},
                  {"dnnl_stream_wait", &d.wait},
                  {"dnnl_memory_create", &d.memory},
                  {"dnnl_memory_destroy", &d.memory_destroy}};
    for (size_t i = 0; i < CLI_COUNT(wanted); i++)
        if (!(*(void **)wanted[i].function = dlsym(library, wanted[i].name))) return NULL;
    if (engine(&d.engine, DNNL_CPU, 0) || stream(&d.stream, d.engine, DNNL_IN_ORDER)) return NULL;
    onednn *kept = cli_alloc(sizeof *kept);
    *kept = d;
    return kept;
}

static int type_of(dtype type)
{
    switch (type) {
    case T_F32: return DNNL_F32;
    case T_F16: return DNNL_F16;
    case T_BF16: return DNNL_BF16;
    default: return 0;
    }
}

/* A primitive of a description, which it frees. */
static void *made(const onednn *d, void *primitive_desc)
{
    void *primitive = NULL;
    d->primitive(&primitive, primitive_desc);
    d->primitive_desc_destroy(primitive_desc);
    return primitive;
}

/* Copies `from` into memory of the layout `to`. */
static void *laid_out(const onednn *d, const void *from, const void *to, void *data)
{
    void *source = NULL, *target = NULL, *description = NULL;
    void *const own = (void *)~(size_t)0; /* DNNL_MEMORY_ALLOCATE */
    if (d->memory(&source, from, d->engine, data) || d->memory(&target, to, d->engine, own) ||
        d->reorder(&description, from, d->engine, to, d->engine, NULL))
        cli_die("oneDNN cannot lay out weights");
    void *copy = made(d, description);
    const argument arguments[] = {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, target}};
    if (!copy || d->execute(copy, d->stream, 2, arguments) || d->wait(d->stream))
        cli_die("oneDNN cannot lay out weights");
    d->primitive_destroy(copy);
    d->memory_destroy(source);
    return target;
}

onednn_op *onednn_linear(const onednn *d, const tensor *x, const tensor *w, const tensor *out)
{
    const int64_t m = x->shape[0], k = x->shape[1], n = w->shape[0];
    void *x_desc = NULL, *w_plain = NULL, *w_any = NULL, *out_desc = NULL, *description = NULL;
    const int types[] = {type_of(x->type), type_of(w->type), type_of(out->type)};
    if (!d || !types[0] || !types[1] || !types[2]) return NULL;
    if (d->desc_strides(&x_desc, 2, (dims){m, k}, types[0], (dims){k, 1}) ||
        d->desc_strides(&w_plain, 2, (dims){k, n}, types[1], (dims){1, k}) ||
        d->desc_any(&w_any, 2, (dims){k, n}, types[1], DNNL_TAG_ANY) ||
        d->desc_strides(&out_desc, 2, (dims){m, n}, types[2], (dims){n, 1}))
        cli_die("oneDNN cannot describe a matrix");
    onednn_op *op = NULL;
    /* Refused: pairs of types that it does not multiply. */
    if (!d->matmul(&description, d->engine, x_desc, w_any, NULL, out_desc, NULL)) {
        op = cli_alloc(sizeof *op);
        op->library = d;
        op->w = laid_out(d, w_plain, d->query_md(description, DNNL_QUERY_WEIGHTS_MD, 0), tensor_at(w, 0));
        op->primitive = made(d, description);
        if (!op->primitive || d->memory(&op->x, x_desc, d->engine, tensor_at(x, 0)) ||
            d->memory(&op->out, out_desc, d->engine, tensor_at(out, 0)))
            cli_die("oneDNN cannot make a product");
    }
    d->desc_destroy(x_desc);
    d->desc_destroy(w_plain);
    d->desc_destroy(w_any);
    d->desc_destroy(out_desc);
    return op;
}

void onednn_run(void *op)
{
    const onednn_op *o = op;
    const argument arguments[] = {{DNNL_ARG_SRC, o->x}, {DNNL_ARG_WEIGHTS, o->w}, {DNNL_ARG_DST, o->out}};
    o->library->execute(o->primitive, o->library->stream, 3, arguments);
    o->library->wait(o->library->stream);
}

void onednn_free(onednn_op *op)
{
    if (!op) return;
    op->library->primitive_destroy(op->primitive);
    op->library->memory_destroy(op->x);
    op->library->memory_destroy(op->w);
    op->library->memory_destroy(op->out);
    free(op);
}
