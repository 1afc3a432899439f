/* Tensors through DLPack, without copies. */
#include <string.h>

#include "binding.h"

/* DLPack 1.0's DLManagedTensorVersioned, which older headers lack. */
typedef struct versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct versioned *self);
    uint64_t flags;
    DLTensor tensor;
} versioned;

enum { FLAG_READ_ONLY = 1 };

static PyObject *ask(PyObject *object)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    if (!method) return NULL;
    PyObject *args = PyTuple_New(0), *kwargs = Py_BuildValue("{s:(ii)}", "max_version", 1, 0), *capsule = NULL;
    if (args && kwargs) capsule = PyObject_Call(method, args, kwargs);
    /* Producers from before DLPack 1.0 do not know the argument. */
    if (!capsule && args && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyObject_Call(method, args, NULL);
    }
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_DECREF(method);
    return capsule;
}

static int retype(const char *dtype, DLDataType *type)
{
    if (strcmp(dtype, "bfloat16") == 0 && type->bits == 16) {
        type->code = kDLBfloat;
        return 1;
    }
    if (strcmp(dtype, "bool") == 0 && type->bits == 8) {
        type->code = 6; /* kDLBool, which headers from before DLPack 0.8 lack */
        return 1;
    }
    PyErr_Format(PyExc_TypeError, "an array of %d bits cannot be read as '%s'; want 'bfloat16' or 'bool'", type->bits,
                 dtype);
    return 0;
}

static int take_capsule(const char *name, int direction, sbp_tensor *t)
{
    if (PyCapsule_IsValid(t->capsule, "dltensor_versioned")) {
        const versioned *v = PyCapsule_GetPointer(t->capsule, "dltensor_versioned");
        if (v->version.major != 1) {
            PyErr_Format(PyExc_BufferError, "%s comes as DLPack %u; want 1", name, v->version.major);
            return 0;
        }
        if (direction == SBP_OUTPUT && v->flags & FLAG_READ_ONLY) {
            PyErr_Format(PyExc_BufferError, "%s is read-only; pass a writable array", name);
            return 0;
        }
        t->copy = v->tensor;
        return 1;
    }
    if (!PyCapsule_IsValid(t->capsule, "dltensor")) {
        PyErr_Format(PyExc_TypeError, "%s: __dlpack__ gave no DLPack capsule", name);
        return 0;
    }
    t->copy = ((const DLManagedTensor *)PyCapsule_GetPointer(t->capsule, "dltensor"))->dl_tensor;
    return 1;
}

int sbp_import(PyObject *object, const char *name, int direction, sbp_tensor *t)
{
    const char *dtype = NULL;
    t->capsule = NULL;
    t->tensor = NULL;
    if (object == Py_None) return 1;
    if (PyTuple_Check(object) && !PyArg_ParseTuple(object, "Os", &object, &dtype)) return 0;
    if (PyCapsule_CheckExact(object)) {
        Py_INCREF(object);
        t->capsule = object;
    } else if (!PyObject_HasAttrString(object, "__dlpack__")) {
        PyErr_Format(PyExc_TypeError, "%s is no array: want NumPy, PyTorch, or anything with __dlpack__", name);
        return 0;
    } else if (!(t->capsule = ask(object))) {
        return 0;
    }
    if (!take_capsule(name, direction, t) || (dtype && !retype(dtype, &t->copy.dtype))) {
        sbp_release(t);
        return 0;
    }
    t->tensor = &t->copy;
    return 1;
}

void sbp_release(sbp_tensor *t)
{
    Py_XDECREF(t->capsule);
    t->capsule = NULL;
    t->tensor = NULL;
}
