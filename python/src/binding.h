/* The extension module samebits._core: what its files share. Limited API, so that one build serves every Python from
 * 3.10. */
#ifndef SBP_BINDING_H
#define SBP_BINDING_H

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <samebits/samebits.h>

/* --- tensor.c --- */

/* An argument's tensor; `tensor` is NULL for None. Holds the producer's memory until sbp_release. */
typedef struct sbp_tensor {
    PyObject *capsule;
    DLTensor *tensor;
    DLTensor copy;
} sbp_tensor;

enum { SBP_INPUT, SBP_OUTPUT };

/* Imports a tensor: an object with __dlpack__, a "dltensor" capsule, a pair (one of these, dtype name) for a dtype that
 * the producer cannot name, or None. Returns 0 with an exception set: TypeError, BufferError (an output that is
 * read-only), or the producer's own. */
int sbp_import(PyObject *object, const char *name, int direction, sbp_tensor *t);
void sbp_release(sbp_tensor *t);

/* --- types.c --- */

typedef struct sbp_context {
    PyObject_HEAD samebits_context *context;
} sbp_context;

typedef struct sbp_weights {
    PyObject_HEAD samebits_weights *weights;
} sbp_weights;

/* Sets the exception of a failed call (its kind by status, the library's message) and returns NULL; None if OK. */
PyObject *sbp_result(samebits_status status);
/* Enumerators by name; -1 with ValueError. */
int sbp_order(const char *name);
int sbp_format(const char *name);
int sbp_activation(const char *name);

/* Weights of MLX's tensors: (context, w, scales, biases, bits, group), and (context, w, scales, format). */
PyObject *sbp_weights_affine(PyObject *module, PyObject *args);
PyObject *sbp_weights_scaled(PyObject *module, PyObject *args);

/* Adds the types Context and Weights. */
int sbp_add_types(PyObject *module);
extern PyTypeObject *sbp_context_type, *sbp_weights_type;

/* --- ops.c --- */

extern PyMethodDef sbp_methods[];

#endif
