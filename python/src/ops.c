/* The functions of the module: arguments in, the call without the GIL, exceptions out. Each takes a context first and
 * writes into `out`; shapes, dtypes and errors are those of the C functions of the same names. */
#include "binding.h"
#include "torch.h"

/* Tensors of one call, released together. */
enum { MAX_TENSORS = 10 };

typedef struct call {
    sbp_tensor tensor[MAX_TENSORS];
    int count;
} call;

/* Imports the next argument; NULL in *out for None. */
static int take(call *c, PyObject *object, const char *name, int direction, DLTensor **out)
{
    sbp_tensor *t = &c->tensor[c->count];
    if (!sbp_import(object, name, direction, t)) return 0;
    c->count++;
    *out = t->tensor;
    return 1;
}

static PyObject *leave(call *c, PyObject *result)
{
    while (c->count) sbp_release(&c->tensor[--c->count]);
    return result;
}

#define CONTEXT(object) (((sbp_context *)(object))->context)
/* Runs a C call without the GIL. */
#define RUN(call_expression)                                                                                           \
    samebits_status status;                                                                                            \
    Py_BEGIN_ALLOW_THREADS status = call_expression;                                                                   \
    Py_END_ALLOW_THREADS return leave(&c, sbp_result(status))

/* What products share: c, bias, alpha, beta, activation. */
typedef struct epilogue_args {
    PyObject *c, *bias;
    double alpha, beta;
    const char *activation;
} epilogue_args;

#define EPILOGUE_ARGS                                                                                                  \
    {                                                                                                                  \
        Py_None, Py_None, 1.0, 0.0, "none"                                                                             \
    }

static int take_epilogue(call *c, const epilogue_args *args, samebits_epilogue *e)
{
    DLTensor *addend, *bias;
    samebits_epilogue_default(e);
    if (!take(c, args->c, "c", SBP_INPUT, &addend) || !take(c, args->bias, "bias", SBP_INPUT, &bias)) return 0;
    const int activation = sbp_activation(args->activation);
    if (activation < 0) return 0;
    e->c = addend;
    e->bias = bias;
    e->alpha = args->alpha;
    e->beta = args->beta;
    e->activation = (samebits_activation)activation;
    return 1;
}

typedef samebits_status product_fn(samebits_context *, const DLTensor *, const DLTensor *, const samebits_epilogue *,
                                   DLTensor *);

static PyObject *product(PyObject *args, PyObject *kwargs, const char *format, product_fn *fn)
{
    static char *keys[] = {"context", "a", "b", "out", "c", "bias", "alpha", "beta", "activation", NULL};
    PyObject *context, *a, *b, *out;
    epilogue_args e = EPILOGUE_ARGS;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, keys, sbp_context_type, &context, &a, &b, &out, &e.c,
                                     &e.bias, &e.alpha, &e.beta, &e.activation))
        return NULL;
    call c = {.count = 0};
    DLTensor *at, *bt, *ot;
    samebits_epilogue epilogue;
    if (!take(&c, a, "a", SBP_INPUT, &at) || !take(&c, b, "b", SBP_INPUT, &bt) ||
        !take(&c, out, "out", SBP_OUTPUT, &ot) || !take_epilogue(&c, &e, &epilogue))
        return leave(&c, NULL);
    RUN(fn(CONTEXT(context), at, bt, &epilogue, ot));
}

static PyObject *matmul(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    return product(args, kwargs, "O!OOO|OOdds:matmul", samebits_matmul);
}

static PyObject *linear(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    return product(args, kwargs, "O!OOO|OOdds:linear", samebits_linear);
}

static PyObject *linear_prepared(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *keys[] = {"context", "x", "weights", "out", "order", "c", "bias", "alpha", "beta", "activation", NULL};
    PyObject *context, *x, *weights, *out;
    const char *order_name = "portable-1";
    epilogue_args e = EPILOGUE_ARGS;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO!O|sOOdds:linear_prepared", keys, sbp_context_type, &context,
                                     &x, sbp_weights_type, &weights, &out, &order_name, &e.c, &e.bias, &e.alpha,
                                     &e.beta, &e.activation))
        return NULL;
    const int order = sbp_order(order_name);
    if (order < 0) return NULL;
    call c = {.count = 0};
    DLTensor *xt, *ot;
    samebits_epilogue epilogue;
    if (!take(&c, x, "x", SBP_INPUT, &xt) || !take(&c, out, "out", SBP_OUTPUT, &ot) ||
        !take_epilogue(&c, &e, &epilogue))
        return leave(&c, NULL);
    RUN(samebits_linear_prepared(CONTEXT(context), xt, ((sbp_weights *)weights)->weights, (samebits_order)order,
                                 &epilogue, ot));
}

static PyObject *attention(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *keys[] = {"context",   "q",          "k",        "v",        "out",    "scale",
                           "softcap",   "causal",     "window",   "mask",     "slopes", "sinks",
                           "key_index", "key_length", "k_format", "v_format", NULL};
    PyObject *context, *q, *k, *v, *out, *mask = Py_None, *slopes = Py_None, *sinks = Py_None, *index = Py_None,
                                         *length = Py_None;
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    long long window = 0;
    const char *k_name = samebits_format_name(p.k_format), *v_name = samebits_format_name(p.v_format);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOOO|ffpLOOOOOss:attention", keys, sbp_context_type, &context, &q,
                                     &k, &v, &out, &p.scale, &p.softcap, &p.causal, &window, &mask, &slopes, &sinks,
                                     &index, &length, &k_name, &v_name))
        return NULL;
    const int k_format = sbp_format(k_name), v_format = sbp_format(v_name);
    if (k_format < 0 || v_format < 0) return NULL;
    p.k_format = (samebits_format)k_format;
    p.v_format = (samebits_format)v_format;
    p.window = window;
    call c = {.count = 0};
    DLTensor *qt, *kt, *vt, *ot, *mt, *st, *nt, *it, *lt;
    if (!take(&c, q, "q", SBP_INPUT, &qt) || !take(&c, k, "k", SBP_INPUT, &kt) || !take(&c, v, "v", SBP_INPUT, &vt) ||
        !take(&c, out, "out", SBP_OUTPUT, &ot) || !take(&c, mask, "mask", SBP_INPUT, &mt) ||
        !take(&c, slopes, "slopes", SBP_INPUT, &st) || !take(&c, sinks, "sinks", SBP_INPUT, &nt) ||
        !take(&c, index, "key_index", SBP_INPUT, &it) || !take(&c, length, "key_length", SBP_INPUT, &lt))
        return leave(&c, NULL);
    p.mask = mt;
    p.slopes = st;
    p.sinks = nt;
    p.key_index = it;
    p.key_length = lt;
    RUN(samebits_attention(CONTEXT(context), qt, kt, vt, &p, ot));
}

static PyObject *softmax(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *keys[] = {"context", "x", "out", "scale", "mask", NULL};
    PyObject *context, *x, *out, *mask = Py_None;
    samebits_softmax_params p;
    samebits_softmax_params_default(&p);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO|fO:softmax", keys, sbp_context_type, &context, &x, &out,
                                     &p.scale, &mask))
        return NULL;
    call c = {.count = 0};
    DLTensor *xt, *ot, *mt;
    if (!take(&c, x, "x", SBP_INPUT, &xt) || !take(&c, out, "out", SBP_OUTPUT, &ot) ||
        !take(&c, mask, "mask", SBP_INPUT, &mt))
        return leave(&c, NULL);
    p.mask = mt;
    RUN(samebits_softmax(CONTEXT(context), xt, &p, ot));
}

typedef samebits_status row_fn(samebits_context *, const DLTensor *, DLTensor *);

static PyObject *row(PyObject *args, const char *format, row_fn *fn)
{
    PyObject *context, *x, *out;
    if (!PyArg_ParseTuple(args, format, sbp_context_type, &context, &x, &out)) return NULL;
    call c = {.count = 0};
    DLTensor *xt, *ot;
    if (!take(&c, x, "x", SBP_INPUT, &xt) || !take(&c, out, "out", SBP_OUTPUT, &ot)) return leave(&c, NULL);
    RUN(fn(CONTEXT(context), xt, ot));
}

static PyObject *log_softmax(PyObject *self, PyObject *args)
{
    (void)self;
    return row(args, "O!OO:log_softmax", samebits_log_softmax);
}

static PyObject *mean(PyObject *self, PyObject *args)
{
    (void)self;
    return row(args, "O!OO:mean", samebits_mean);
}

static PyObject *rms_norm(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *context, *x, *weight, *out;
    float eps;
    if (!PyArg_ParseTuple(args, "O!OOfO:rms_norm", sbp_context_type, &context, &x, &weight, &eps, &out)) return NULL;
    call c = {.count = 0};
    DLTensor *xt, *wt, *ot;
    if (!take(&c, x, "x", SBP_INPUT, &xt) || !take(&c, weight, "weight", SBP_INPUT, &wt) ||
        !take(&c, out, "out", SBP_OUTPUT, &ot))
        return leave(&c, NULL);
    RUN(samebits_rms_norm(CONTEXT(context), xt, wt, eps, ot));
}

static PyObject *layer_norm(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *context, *x, *weight, *bias, *out;
    float eps;
    if (!PyArg_ParseTuple(args, "O!OOOfO:layer_norm", sbp_context_type, &context, &x, &weight, &bias, &eps, &out))
        return NULL;
    call c = {.count = 0};
    DLTensor *xt, *wt, *bt, *ot;
    if (!take(&c, x, "x", SBP_INPUT, &xt) || !take(&c, weight, "weight", SBP_INPUT, &wt) ||
        !take(&c, bias, "bias", SBP_INPUT, &bt) || !take(&c, out, "out", SBP_OUTPUT, &ot))
        return leave(&c, NULL);
    RUN(samebits_layer_norm(CONTEXT(context), xt, wt, bt, eps, ot));
}

static PyObject *activate(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *context, *x, *out;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!OOs:activate", sbp_context_type, &context, &x, &out, &name)) return NULL;
    const int activation = sbp_activation(name);
    call c = {.count = 0};
    DLTensor *xt, *ot;
    if (activation < 0 || !take(&c, x, "x", SBP_INPUT, &xt) || !take(&c, out, "out", SBP_OUTPUT, &ot))
        return leave(&c, NULL);
    RUN(samebits_activate(CONTEXT(context), xt, (samebits_activation)activation, ot));
}

static PyObject *formats(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    PyObject *list = PyDict_New();
    for (int i = 0; list && i < SAMEBITS_FORMAT_COUNT; i++) {
        const samebits_format f = (samebits_format)i;
        size_t bytes = 0;
        const int64_t block = samebits_format_block(f);
        if (samebits_weights_size(f, 0, 0, &bytes)) continue; /* of several tensors: from_affine, from_scaled */
        samebits_format_row_size(f, block, &bytes);
        PyObject *sizes = Py_BuildValue("Ln", (long long)block, (Py_ssize_t)bytes);
        if (!sizes || PyDict_SetItemString(list, samebits_format_name(f), sizes)) Py_CLEAR(list);
        Py_XDECREF(sizes);
    }
    return list;
}

static PyObject *limit(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLongLong(samebits_limit());
}

static PyObject *set_limit(PyObject *self, PyObject *rows)
{
    (void)self;
    const long long number = PyLong_AsLongLong(rows);
    return PyErr_Occurred() ? NULL : sbp_result(samebits_limit_set(number));
}

#define KEYWORDS(fn)                                                                                                   \
    {                                                                                                                  \
#fn, (PyCFunction)(void (*)(void))fn, METH_VARARGS | METH_KEYWORDS, NULL                                       \
    }

PyMethodDef sbp_methods[] = {
    KEYWORDS(matmul),
    KEYWORDS(linear),
    KEYWORDS(linear_prepared),
    KEYWORDS(attention),
    KEYWORDS(softmax),
    {"log_softmax", log_softmax, METH_VARARGS, NULL},
    {"mean", mean, METH_VARARGS, NULL},
    {"rms_norm", rms_norm, METH_VARARGS, NULL},
    {"layer_norm", layer_norm, METH_VARARGS, NULL},
    {"activate", activate, METH_VARARGS, NULL},
    {"formats", formats, METH_NOARGS, NULL},
    {"weights_affine", sbp_weights_affine, METH_VARARGS, NULL},
    {"weights_scaled", sbp_weights_scaled, METH_VARARGS, NULL},
    {"limit", limit, METH_NOARGS, NULL},
    {"set_limit", set_limit, METH_O, NULL},
    {"torch_configure", (PyCFunction)(void (*)(void))sbp_torch_configure, METH_VARARGS | METH_KEYWORDS, NULL},
    {"torch_enter", sbp_torch_enter, METH_O, NULL},
    {"torch_default", sbp_torch_default, METH_O, NULL},
    {"torch_current", sbp_torch_current, METH_NOARGS, NULL},
    {"torch_packed", sbp_torch_packed, METH_VARARGS, NULL},
    {"torch_whole_length", sbp_torch_whole_length, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    if (!sbp_add_types(module) || !sbp_add_torch_type(module) ||
        PyModule_AddStringConstant(module, "version", samebits_version()))
        return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "samebits._core", .m_methods = sbp_methods,
                                 .m_slots = slots};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
