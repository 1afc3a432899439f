/* The mode of a thread, and the callables that stand in PyTorch's dispatcher. */
#include <string.h>

#include "torch.h"

static _Thread_local PyObject *mode_of_thread;
static PyObject *default_mode;

static PyObject *current(void) { return mode_of_thread ? mode_of_thread : default_mode; }

static PyObject *set(PyObject **place, PyObject *mode)
{
    PyObject *previous = *place;
    if (mode != Py_None) Py_INCREF(mode);
    *place = mode == Py_None ? NULL : mode;
    Py_XDECREF(previous);
    Py_RETURN_NONE;
}

PyObject *sbp_torch_enter(PyObject *self, PyObject *mode)
{
    (void)self;
    return set(&mode_of_thread, mode);
}

PyObject *sbp_torch_default(PyObject *self, PyObject *mode)
{
    (void)self;
    return set(&default_mode, mode);
}

PyObject *sbp_torch_current(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    PyObject *mode = current();
    if (!mode) Py_RETURN_NONE;
    Py_INCREF(mode);
    return mode;
}

/* --- TorchKernel --- */

typedef struct kernel {
    PyObject_HEAD PyObject *name, *stock, *otherwise;
    sbp_torch_fn *fn; /* NULL: the operator has none in C */
} kernel;

static sbp_torch_fn *find(const char *name)
{
    static const struct {
        const char *name;
        sbp_torch_fn *fn;
    } fns[] = {{"mm", sbp_torch_mm},
               {"bmm", sbp_torch_bmm},
               {"addmm", sbp_torch_addmm},
               {"baddbmm", sbp_torch_baddbmm},
               {"addmv", sbp_torch_addmv},
               {"dot", sbp_torch_dot},
               {"vdot", sbp_torch_vdot},
               {"_scaled_dot_product_flash_attention_for_cpu", sbp_torch_attention},
               {"sum.dim_IntList", sbp_torch_sum},
               {"mean.dim", sbp_torch_mean},
               {"_softmax", sbp_torch_softmax},
               {"_log_softmax", sbp_torch_log_softmax},
               {"native_layer_norm", sbp_torch_layer_norm},
               {"gelu", sbp_torch_gelu},
               {"silu", sbp_torch_silu},
               {"sigmoid", sbp_torch_sigmoid},
               {"pow.Tensor_Scalar", sbp_torch_pow},
               {"rsqrt", sbp_torch_rsqrt},
               {"mul.Tensor", sbp_torch_real},
               {"mul_.Tensor", sbp_torch_real},
               {"div.Tensor", sbp_torch_real},
               {"div_.Tensor", sbp_torch_real},
               {"neg", sbp_torch_real}};
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++)
        if (strcmp(fns[i].name, name) == 0) return fns[i].fn;
    return NULL;
}

static PyObject *kernel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"name", "stock", "otherwise", "elementwise", NULL};
    PyObject *name, *stock, *otherwise;
    int elementwise;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOOp:TorchKernel", keys, &name, &stock, &otherwise, &elementwise))
        return NULL;
    if (!sbp_torch_is_configured()) {
        PyErr_SetString(PyExc_RuntimeError, "PyTorch's C functions are not known: torch_configure comes first");
        return NULL;
    }
    PyObject *text = PyUnicode_AsUTF8String(name);
    kernel *self = text ? (kernel *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0) : NULL;
    if (self) {
        Py_INCREF(name);
        Py_INCREF(stock);
        Py_INCREF(otherwise);
        self->name = name;
        self->stock = stock;
        self->otherwise = otherwise;
        self->fn = find(PyBytes_AsString(text));
        if (!self->fn && elementwise) self->fn = sbp_torch_elementwise;
    }
    Py_XDECREF(text);
    return (PyObject *)self;
}

/* mode.invariant[name] += 1 */
static int count(PyObject *mode, PyObject *name)
{
    PyObject *counts = PyObject_GetAttrString(mode, "invariant");
    PyObject *old = counts ? PyDict_GetItemWithError(counts, name) : NULL;
    PyObject *number = PyErr_Occurred() ? NULL : PyLong_FromLongLong(old ? PyLong_AsLongLong(old) + 1 : 1);
    const int counted = number && PyDict_SetItem(counts, name, number) == 0;
    Py_XDECREF(number);
    Py_XDECREF(counts);
    return counted;
}

static PyObject *kernel_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    kernel *self = (kernel *)object;
    PyObject *mode = current();
    if (!self->fn || (!mode && self->fn != sbp_torch_real)) return PyObject_Call(self->otherwise, args, kwargs);
    Py_XINCREF(mode);
    const sbp_torch_call call = {mode, args, kwargs && PyDict_Size(kwargs) ? kwargs : NULL, self->stock};
    PyObject *result = self->fn(&call);
    if (result && result != Py_NotImplemented && self->fn != sbp_torch_real && !count(mode, self->name))
        Py_CLEAR(result);
    Py_XDECREF(mode);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
    return PyObject_Call(self->otherwise, args, kwargs);
}

static void kernel_dealloc(PyObject *object)
{
    kernel *self = (kernel *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->name);
    Py_XDECREF(self->stock);
    Py_XDECREF(self->otherwise);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyType_Slot kernel_slots[] = {
    {Py_tp_doc,
     "TorchKernel(name, stock, otherwise, elementwise)\n--\n\nAn operator: in a mode its C function; `otherwise` "
     "outside of one and for what that does not take. `stock` is PyTorch's kernel, for functions element by element."},
    {Py_tp_new, kernel_new},
    {Py_tp_call, kernel_call},
    {Py_tp_dealloc, kernel_dealloc},
    {0, NULL},
};

static PyType_Spec kernel_spec = {"samebits._core.TorchKernel", sizeof(kernel), 0, Py_TPFLAGS_DEFAULT, kernel_slots};

int sbp_add_torch_type(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&kernel_spec);
    const int added = type && PyModule_AddType(module, (PyTypeObject *)type) == 0;
    Py_XDECREF(type);
    return added;
}

Py_ssize_t sbp_torch_count(const sbp_torch_call *call) { return PyTuple_Size(call->args) - 1; }

PyObject *sbp_torch_arg(const sbp_torch_call *call, Py_ssize_t n)
{
    return n < sbp_torch_count(call) ? PyTuple_GetItem(call->args, n + 1) : NULL;
}

PyObject *sbp_torch_left(void)
{
    Py_INCREF(Py_NotImplemented);
    return Py_NotImplemented;
}
