/* PyTorch's tensors through DLPack's table of C functions, and new ones. */
#include <dlfcn.h>

#include "torch.h"

/* DLPack 1.3's DLPackExchangeAPI, which older headers lack. */
typedef struct exchange_header {
    struct {
        uint32_t major, minor;
    } version;
    struct exchange_header *previous;
} exchange_header;

typedef struct exchange_api {
    exchange_header header;
    void *allocate, *export_managed, *import_managed; /* not used */
    int (*view)(void *object, DLTensor *out);
    void *work_stream; /* not used */
} exchange_api;

/* PyTorch's stable C interface, which a process that has loaded it knows by name: a tensor without Python's parsing of
 * arguments. PyTorch before 2.14 has it in parts; Python's functions then make the tensors. */
typedef struct shims {
    int32_t (*empty)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, void **);
    int32_t (*view)(void *, int64_t, const int64_t *, const int64_t *, int64_t, void **);
    int32_t (*from_object)(void *, void **);
    int32_t (*to_object)(void *, void *, void **);
    int32_t (*destroy)(void *);
    int32_t dtypes[SBP_TORCH_DTYPES], cpu;
} shims;

sbp_torch_calls sbp_torch;
static const exchange_api *exchange;
static shims shim; /* empty is NULL where it is not all there */

static void find_shims(const char *library_name)
{
    shims s = {0};
    int32_t (*dtype[SBP_TORCH_DTYPES])(void) = {0}, (*cpu)(void) = NULL;
    const struct {
        const char *name;
        void *place;
    } wanted[] = {{"aoti_torch_empty_strided", &s.empty},
                  {"aoti_torch__reinterpret_tensor", &s.view},
                  {"torch_tensor_from_pyobject", &s.from_object},
                  {"torch_tensor_to_pyobject", &s.to_object},
                  {"aoti_torch_delete_tensor_object", &s.destroy},
                  {"aoti_torch_dtype_float32", &dtype[0]},
                  {"aoti_torch_dtype_float16", &dtype[1]},
                  {"aoti_torch_dtype_bfloat16", &dtype[2]},
                  {"aoti_torch_dtype_float64", &dtype[3]},
                  {"aoti_torch_dtype_complex64", &dtype[4]},
                  {"aoti_torch_device_type_cpu", &cpu}};
    void *library = dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!library || !(*(void **)wanted[i].place = dlsym(library, wanted[i].name))) return;
    for (int i = 0; i < SBP_TORCH_DTYPES; i++) s.dtypes[i] = dtype[i]();
    s.cpu = cpu();
    shim = s;
}

PyObject *sbp_torch_configure(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *keys[] = {
        "exchange",        "shims",        "tensor",  "parameter", "empty_strided", "as_strided", "get_num_threads",
        "is_grad_enabled", "is_inference", "is_conj", "contexts",  "context",       "entries",    "pack",
        "options",         "packed_from",  NULL};
    PyObject *capsule;
    const char *shims_from;
    sbp_torch_calls c;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Os$OOOOOOOOO!OO!O(OOOOO)n:torch_configure", keys, &capsule,
                                     &shims_from, &c.tensor, &c.parameter, &c.empty_strided, &c.as_strided,
                                     &c.get_num_threads, &c.is_grad_enabled, &c.is_inference, &c.is_conj, &PyDict_Type,
                                     &c.contexts, &c.context, &PyDict_Type, &c.entries, &c.pack, &c.options[0],
                                     &c.options[1], &c.options[2], &c.options[3], &c.options[4], &c.packed_from))
        return NULL;
    PyObject *const held[] = {c.tensor,          c.parameter,    c.empty_strided, c.as_strided, c.get_num_threads,
                              c.is_grad_enabled, c.is_inference, c.is_conj,       c.contexts,   c.context,
                              c.entries,         c.pack,         c.options[0],    c.options[1], c.options[2],
                              c.options[3],      c.options[4]};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) Py_INCREF(held[i]);
    sbp_torch = c;
    if (!PyCapsule_IsValid(capsule, "dlpack_exchange_api")) return PyLong_FromLong(SBP_TORCH_PYTHON);
    const exchange_header *header = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    while (header && header->version.major != 1) header = header->previous;
    const exchange_api *api = (const exchange_api *)header;
    if (!api || !api->view) return PyLong_FromLong(SBP_TORCH_PYTHON);
    exchange = api;
    find_shims(shims_from);
    return PyLong_FromLong(shim.empty ? SBP_TORCH_C : SBP_TORCH_C_PARTLY);
}

int sbp_torch_is_configured(void) { return exchange != NULL; }

/* The place of a dtype in sbp_torch.options; -1 for others. */
static int dtype_index(DLDataType type)
{
    if (type.lanes != 1) return -1;
    switch (type.code) {
    case kDLFloat: return type.bits == 32 ? 0 : type.bits == 16 ? 1 : type.bits == 64 ? 3 : -1;
    case kDLBfloat: return type.bits == 16 ? 2 : -1;
    case kDLComplex: return type.bits == 64 ? 4 : -1;
    default: return -1;
    }
}

int sbp_torch_view_any(PyObject *object, DLTensor *view)
{
    /* Of other subclasses some have no memory, whatever their device says: FakeTensor. */
    PyObject *type = object ? (PyObject *)Py_TYPE(object) : NULL;
    if (!type || (type != sbp_torch.tensor && type != sbp_torch.parameter)) return 0;
    if (exchange->view(object, view)) {
        PyErr_Clear();
        return 0;
    }
    return view->device.device_type == kDLCPU && view->ndim <= SBP_TORCH_DIMS;
}

int sbp_torch_is_float(const DLTensor *t)
{
    const int index = dtype_index(t->dtype);
    return index >= 0 && index < SBP_TORCH_FLOATS;
}

int sbp_torch_view(PyObject *object, DLTensor *view)
{
    return sbp_torch_view_any(object, view) && sbp_torch_is_float(view);
}

int sbp_torch_view_wide(PyObject *object, DLTensor *view)
{
    if (!sbp_torch_view_any(object, view) || dtype_index(view->dtype) < 0) return 0;
    if (view->dtype.code != kDLComplex) return 1;
    PyObject *conjugate = PyObject_CallFunctionObjArgs(sbp_torch.is_conj, object, NULL);
    const int plain = conjugate == Py_False;
    Py_XDECREF(conjugate);
    PyErr_Clear();
    return plain;
}

int sbp_torch_view_optional(PyObject *object, DLTensor *storage, DLTensor **view)
{
    const int given = object && object != Py_None;
    *view = given ? storage : NULL;
    return !given || sbp_torch_view(object, storage);
}

PyObject *sbp_torch_dtype(DLDataType dtype)
{
    return PyDict_GetItemString(sbp_torch.options[dtype_index(dtype)], "dtype");
}

int sbp_torch_same_dtype(const DLTensor *a, const DLTensor *b)
{
    return a->dtype.code == b->dtype.code && a->dtype.bits == b->dtype.bits;
}

int64_t sbp_torch_elements(const DLTensor *t)
{
    int64_t elements = 1;
    for (int i = 0; i < t->ndim; i++) elements *= t->shape[i];
    return elements;
}

int sbp_torch_is_contiguous(const DLTensor *t)
{
    int64_t stride = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != stride) return 0;
        stride *= t->shape[i];
    }
    return 1;
}

static void contiguous_strides(int ndim, const int64_t *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape[i] > 0 ? shape[i] : 1;
    }
}

/* A shim's tensor as a Python object; NULL without an exception if that failed. */
static PyObject *to_object(void *handle)
{
    void *object = NULL;
    if (shim.to_object(handle, NULL, &object)) object = NULL;
    shim.destroy(handle);
    PyErr_Clear();
    return object;
}

/* (shape, strides), behind `first` if that is given. */
static PyObject *layout_args(PyObject *first, int ndim, const int64_t *shape, const int64_t *stride)
{
    PyObject *sizes = PyTuple_New(ndim), *strides = PyTuple_New(ndim), *args = NULL;
    for (int i = 0; sizes && strides && i < ndim; i++) {
        PyTuple_SetItem(sizes, i, PyLong_FromLongLong(shape[i]));
        PyTuple_SetItem(strides, i, PyLong_FromLongLong(stride[i]));
    }
    if (sizes && strides) args = first ? PyTuple_Pack(3, first, sizes, strides) : PyTuple_Pack(2, sizes, strides);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return args;
}

PyObject *sbp_torch_empty_strided(const DLTensor *like, int ndim, const int64_t *shape, const int64_t *strides,
                                  DLTensor *view)
{
    void *handle;
    const int dtype = dtype_index(like->dtype);
    PyObject *tensor = NULL;
    if (shim.empty && shim.empty(ndim, shape, strides, shim.dtypes[dtype], shim.cpu, 0, &handle) == 0)
        tensor = to_object(handle);
    if (!tensor) {
        /* Also where a shim failed, for Python's exception. */
        PyObject *args = layout_args(NULL, ndim, shape, strides);
        tensor = args ? PyObject_Call(sbp_torch.empty_strided, args, sbp_torch.options[dtype]) : NULL;
        Py_XDECREF(args);
    }
    if (tensor && exchange->view(tensor, view)) Py_CLEAR(tensor);
    return tensor;
}

PyObject *sbp_torch_empty(const DLTensor *like, int ndim, const int64_t *shape, DLTensor *view)
{
    int64_t strides[SBP_TORCH_DIMS];
    contiguous_strides(ndim, shape, strides);
    return sbp_torch_empty_strided(like, ndim, shape, strides, view);
}

PyObject *sbp_torch_as(PyObject *tensor, int ndim, const int64_t *shape)
{
    int64_t strides[SBP_TORCH_DIMS];
    void *whole, *part;
    PyObject *result = NULL;
    contiguous_strides(ndim, shape, strides);
    if (shim.view && shim.from_object(tensor, &whole) == 0) {
        const int32_t failed = shim.view(whole, ndim, shape, strides, 0, &part);
        shim.destroy(whole);
        if (!failed) result = to_object(part);
    }
    PyErr_Clear();
    if (result) return result;
    PyObject *args = layout_args(tensor, ndim, shape, strides);
    result = args ? PyObject_Call(sbp_torch.as_strided, args, NULL) : NULL;
    Py_XDECREF(args);
    return result;
}

long sbp_torch_threads(void)
{
    PyObject *number = PyObject_CallNoArgs(sbp_torch.get_num_threads);
    const long threads = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    return threads;
}

samebits_context *sbp_torch_context(void)
{
    PyObject *number = PyObject_CallNoArgs(sbp_torch.get_num_threads);
    if (!number) return NULL;
    PyObject *context = PyDict_GetItemWithError(sbp_torch.contexts, number);
    if (!context && !PyErr_Occurred()) {
        context = PyObject_CallFunctionObjArgs(sbp_torch.context, number, NULL);
        Py_XDECREF(context); /* the dict holds it */
    }
    Py_DECREF(number);
    return context ? ((sbp_context *)context)->context : NULL;
}

int sbp_torch_ask(PyObject *function)
{
    PyObject *answer = PyObject_CallNoArgs(function);
    const int yes = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return yes;
}

void sbp_torch_as_matrix(const DLTensor *memory, int64_t rows, int64_t columns, int64_t row_stride,
                         int64_t column_stride, sbp_torch_matrix *m)
{
    *m = (sbp_torch_matrix){.tensor = *memory, .shape = {rows, columns}, .strides = {row_stride, column_stride}};
    m->tensor.ndim = 2;
    m->tensor.shape = m->shape;
    m->tensor.strides = m->strides;
}

void sbp_torch_ones(DLDataType dtype, int64_t rows, sbp_torch_matrix *m)
{
    static float f32 = 1.0f;
    static uint16_t f16 = 0x3C00, bf16 = 0x3F80;
    void *const one[] = {&f32, &f16, &bf16};
    const DLTensor memory = {.data = one[dtype_index(dtype)], .device = {kDLCPU, 0}, .dtype = dtype};
    sbp_torch_as_matrix(&memory, rows, 1, 0, 0, m);
}
