/* Context, Weights, exceptions and names. */
#include <string.h>

#include "binding.h"

PyTypeObject *sbp_context_type, *sbp_weights_type;

PyObject *sbp_result(samebits_status status)
{
    PyObject *kind = PyExc_ValueError;
    switch (status) {
    case SAMEBITS_OK: Py_RETURN_NONE;
    case SAMEBITS_ERR_DTYPE: kind = PyExc_TypeError; break;
    case SAMEBITS_ERR_DEVICE:
    case SAMEBITS_ERR_STRIDE:
    case SAMEBITS_ERR_OVERLAP: kind = PyExc_BufferError; break;
    case SAMEBITS_ERR_MEMORY: kind = PyExc_MemoryError; break;
    case SAMEBITS_ERR_CPU:
    case SAMEBITS_ERR_UNSUPPORTED: kind = PyExc_NotImplementedError; break;
    default: break;
    }
    PyErr_SetString(kind, samebits_last_error());
    return NULL;
}

int sbp_order(const char *name)
{
    static const samebits_order orders[] = {SAMEBITS_ORDER_PORTABLE_1, SAMEBITS_ORDER_INT8_1, SAMEBITS_ORDER_AMX_1};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(samebits_order_name(orders[i]), name) == 0) return (int)orders[i];
    PyErr_Format(PyExc_ValueError, "there is no order '%s'; want 'portable-1', 'int8-1' or 'amx-1'", name);
    return -1;
}

int sbp_format(const char *name)
{
    for (int i = 0; i < SAMEBITS_FORMAT_COUNT; i++)
        if (strcmp(samebits_format_name((samebits_format)i), name) == 0) return i;
    PyErr_Format(PyExc_ValueError, "there is no weight format '%s'; samebits.formats() lists them", name);
    return -1;
}

int sbp_activation(const char *name)
{
    static const struct {
        const char *name;
        samebits_activation activation;
    } names[] = {{"none", SAMEBITS_ACTIVATION_NONE},
                 {"relu", SAMEBITS_ACTIVATION_RELU},
                 {"silu", SAMEBITS_ACTIVATION_SILU},
                 {"gelu", SAMEBITS_ACTIVATION_GELU},
                 {"gelu_tanh", SAMEBITS_ACTIVATION_GELU_TANH},
                 {"gelu_quick", SAMEBITS_ACTIVATION_GELU_QUICK},
                 {"sigmoid", SAMEBITS_ACTIVATION_SIGMOID},
                 {"tanh", SAMEBITS_ACTIVATION_TANH},
                 {"exp", SAMEBITS_ACTIVATION_EXP}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0) return (int)names[i].activation;
    PyErr_Format(
        PyExc_ValueError,
        "there is no activation '%s'; want none, relu, silu, gelu, gelu_tanh, gelu_quick, sigmoid, tanh or exp", name);
    return -1;
}

/* --- Context --- */

static int level_of(const char *name)
{
    for (int level = SAMEBITS_CPU_AUTO; level < SAMEBITS_CPU_COUNT; level++)
        if (strcmp(samebits_cpu_name((samebits_cpu)level), name) == 0) return level;
    PyErr_Format(PyExc_ValueError, "there is no CPU level '%s'; want auto, scalar, avx2, avx512, amx or neon", name);
    return -1;
}

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"threads", "cpu", NULL};
    const char *cpu = "auto";
    samebits_options options;
    samebits_options_default(&options);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|is:Context", keys, &options.threads, &cpu)) return NULL;
    const int level = level_of(cpu);
    if (level < 0) return NULL;
    options.cpu = (samebits_cpu)level;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    sbp_context *self = (sbp_context *)alloc(type, 0);
    if (!self) return NULL;
    const samebits_status status = samebits_create(&self->context, &options);
    if (!status) return (PyObject *)self;
    Py_DECREF(self);
    return sbp_result(status);
}

static void context_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    samebits_destroy(&((sbp_context *)object)->context);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *context_cpu(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(samebits_cpu_name(samebits_context_cpu(((sbp_context *)self)->context)));
}

static PyObject *context_threads(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(samebits_context_threads(((sbp_context *)self)->context));
}

static PyGetSetDef context_attributes[] = {
    {"cpu", context_cpu, NULL, "The CPU level in use.", NULL},
    {"threads", context_threads, NULL, "How many threads a call may use.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot context_slots[] = {
    {Py_tp_doc, "Context(threads=0, cpu='auto')\n--\n\nThreads (0: one per CPU) and CPU level of calls."},
    {Py_tp_new, context_new},
    {Py_tp_dealloc, context_dealloc},
    {Py_tp_getset, context_attributes},
    {0, NULL},
};

static PyType_Spec context_spec = {"samebits._core.Context", sizeof(sbp_context), 0, Py_TPFLAGS_DEFAULT, context_slots};

/* --- Weights --- */

/* Takes the weights of a call that gave `status`. */
static PyObject *weights_object(PyTypeObject *type, samebits_status status, samebits_weights *weights)
{
    if (status) return sbp_result(status);
    sbp_weights *self = (sbp_weights *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) {
        samebits_weights_destroy(&weights);
        return NULL;
    }
    self->weights = weights;
    return (PyObject *)self;
}

static PyObject *weights_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"context", "w", "format", NULL};
    PyObject *context, *w;
    const char *name;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!Os:Weights", keys, sbp_context_type, &context, &w, &name))
        return NULL;
    const int format = sbp_format(name);
    sbp_tensor tensor;
    if (format < 0 || !sbp_import(w, "w", SBP_INPUT, &tensor)) return NULL;
    samebits_weights *weights = NULL;
    samebits_status status;
    Py_BEGIN_ALLOW_THREADS status = samebits_weights_prepare(((sbp_context *)context)->context, tensor.tensor,
                                                             (samebits_format)format, NULL, &weights);
    Py_END_ALLOW_THREADS sbp_release(&tensor);
    return weights_object(type, status, weights);
}

PyObject *sbp_weights_affine(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *context, *w, *scales, *biases;
    int bits, group;
    sbp_tensor tensors[3] = {{0}};
    if (!PyArg_ParseTuple(args, "O!OOOii:weights_affine", sbp_context_type, &context, &w, &scales, &biases, &bits,
                          &group))
        return NULL;
    PyObject *result = NULL;
    if (sbp_import(w, "w", SBP_INPUT, &tensors[0]) && sbp_import(scales, "scales", SBP_INPUT, &tensors[1]) &&
        sbp_import(biases, "biases", SBP_INPUT, &tensors[2])) {
        samebits_weights *weights = NULL;
        samebits_status status;
        Py_BEGIN_ALLOW_THREADS status =
            samebits_weights_prepare_affine(((sbp_context *)context)->context, tensors[0].tensor, tensors[1].tensor,
                                            tensors[2].tensor, bits, group, NULL, &weights);
        Py_END_ALLOW_THREADS result = weights_object(sbp_weights_type, status, weights);
    }
    for (int i = 0; i < 3; i++) sbp_release(&tensors[i]);
    return result;
}

PyObject *sbp_weights_scaled(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *context, *w, *scales;
    const char *name;
    sbp_tensor tensors[2] = {{0}};
    if (!PyArg_ParseTuple(args, "O!OOs:weights_scaled", sbp_context_type, &context, &w, &scales, &name)) return NULL;
    const int format = sbp_format(name);
    PyObject *result = NULL;
    if (format >= 0 && sbp_import(w, "w", SBP_INPUT, &tensors[0]) &&
        sbp_import(scales, "scales", SBP_INPUT, &tensors[1])) {
        samebits_weights *weights = NULL;
        samebits_status status;
        Py_BEGIN_ALLOW_THREADS status =
            samebits_weights_prepare_scaled(((sbp_context *)context)->context, tensors[0].tensor, tensors[1].tensor,
                                            (samebits_format)format, NULL, &weights);
        Py_END_ALLOW_THREADS result = weights_object(sbp_weights_type, status, weights);
    }
    for (int i = 0; i < 2; i++) sbp_release(&tensors[i]);
    return result;
}

static void weights_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    samebits_weights_destroy(&((sbp_weights *)object)->weights);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *weights_shape(PyObject *self, void *unused)
{
    (void)unused;
    const samebits_weights *w = ((sbp_weights *)self)->weights;
    return Py_BuildValue("LL", (long long)samebits_weights_rows(w), (long long)samebits_weights_depth(w));
}

static PyObject *weights_format(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(samebits_format_name(samebits_weights_format(((sbp_weights *)self)->weights)));
}

static PyGetSetDef weights_attributes[] = {
    {"shape", weights_shape, NULL, "(N, K): outputs and inputs.", NULL},
    {"format", weights_format, NULL, "The weight format's name.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot weights_slots[] = {
    {Py_tp_doc, "Weights(context, w, format)\n--\n\nWeights packed once for many products."},
    {Py_tp_new, weights_new},
    {Py_tp_dealloc, weights_dealloc},
    {Py_tp_getset, weights_attributes},
    {0, NULL},
};

static PyType_Spec weights_spec = {"samebits._core.Weights", sizeof(sbp_weights), 0, Py_TPFLAGS_DEFAULT, weights_slots};

int sbp_add_types(PyObject *module)
{
    sbp_context_type = (PyTypeObject *)PyType_FromSpec(&context_spec);
    sbp_weights_type = (PyTypeObject *)PyType_FromSpec(&weights_spec);
    return sbp_context_type && sbp_weights_type && PyModule_AddType(module, sbp_context_type) == 0 &&
           PyModule_AddType(module, sbp_weights_type) == 0;
}
