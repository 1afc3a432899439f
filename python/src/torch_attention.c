/* Attention, behind the name of PyTorch's flash kernel. */
#include <math.h>

#include "torch.h"

enum { MAX_HEAD_DIM = 576, BOOL = 6 /* kDLBool, which headers from before DLPack 0.8 lack */ };

typedef struct attention {
    DLTensor q, k, v, mask_storage, *mask;
} attention;

static int is_bool(const DLTensor *t) { return t->dtype.code == BOOL && t->dtype.bits == 8; }

static int take_mask(PyObject *object, attention *a)
{
    a->mask = object && object != Py_None ? &a->mask_storage : NULL;
    return !a->mask || (sbp_torch_view_any(object, a->mask) && (is_bool(a->mask) || sbp_torch_is_float(a->mask)));
}

/* q, k and v, the first three arguments, and a mask. */
static int take(const sbp_torch_call *call, PyObject *mask, attention *a)
{
    if (!sbp_torch_view(sbp_torch_arg(call, 0), &a->q) || !sbp_torch_view(sbp_torch_arg(call, 1), &a->k) ||
        !sbp_torch_view(sbp_torch_arg(call, 2), &a->v) || !take_mask(mask, a))
        return 0;
    const DLTensor *q = &a->q, *k = &a->k, *v = &a->v;
    return sbp_torch_same_dtype(q, k) && sbp_torch_same_dtype(q, v) && q->ndim == 4 && k->ndim == 4 && v->ndim == 4 &&
           q->shape[0] == k->shape[0] && k->shape[1] > 0 && q->shape[1] % k->shape[1] == 0 &&
           q->shape[3] <= MAX_HEAD_DIM && v->shape[3] <= MAX_HEAD_DIM;
}

/* An optional number and an optional flag; 0 for what is neither. */
static int number(PyObject *object, double *value)
{
    if (object && object != Py_None) *value = PyFloat_AsDouble(object);
    if (!PyErr_Occurred()) return 1;
    PyErr_Clear();
    return 0;
}

static int wants_gradient(const sbp_torch_call *call)
{
    const int records = sbp_torch_ask(sbp_torch.is_grad_enabled);
    if (records <= 0) return records;
    int wants = 0;
    for (Py_ssize_t i = 0; i < 3 && wants == 0; i++) {
        PyObject *flag = PyObject_GetAttrString(sbp_torch_arg(call, i), "requires_grad");
        wants = flag ? PyObject_IsTrue(flag) : -1;
        Py_XDECREF(flag);
    }
    return wants;
}

/* Dense strides in the order of q's, as PyTorch's kernel lays out its result: compiled functions rely on it. */
static void strides_like(const DLTensor *q, const int64_t *shape, int64_t *strides)
{
    int order[4] = {0, 1, 2, 3}; /* the outermost first */
    for (int i = 1; i < 4; i++)
        for (int j = i; j > 0 && q->strides[order[j - 1]] && q->strides[order[j - 1]] < q->strides[order[j]]; j--) {
            const int outer = order[j];
            order[j] = order[j - 1];
            order[j - 1] = outer;
        }
    int64_t stride = 1;
    for (int i = 3; i >= 0; i--) {
        strides[order[i]] = stride;
        stride *= shape[order[i]] > 0 ? shape[order[i]] : 1;
    }
}

PyObject *sbp_torch_attention(const sbp_torch_call *call)
{
    attention a;
    double dropout = 0, scale = 0;
    PyObject *causal = sbp_torch_arg(call, 4);
    PyObject *mask = call->kwargs ? PyDict_GetItemString(call->kwargs, "attn_mask") : NULL;
    PyObject *scale_given = call->kwargs ? PyDict_GetItemString(call->kwargs, "scale") : NULL;
    if (!number(sbp_torch_arg(call, 3), &dropout) || dropout > 0 || !take(call, mask, &a)) return sbp_torch_left();
    scale = pow((double)a.q.shape[3], -0.5);
    if (!number(scale_given, &scale)) return sbp_torch_left();
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.scale = (float)scale;
    p.causal = causal == Py_True;
    p.mask = a.mask;
    /* PyTorch aligns the triangle to the upper left, samebits to the lower right. */
    const int gradient = wants_gradient(call);
    if (gradient || (p.causal && a.q.shape[2] != a.k.shape[2])) return gradient < 0 ? NULL : sbp_torch_left();
    const int64_t shape[4] = {a.q.shape[0], a.q.shape[1], a.q.shape[2], a.v.shape[3]}, empty = 0;
    int64_t strides[4];
    strides_like(&a.q, shape, strides);
    samebits_context *context = sbp_torch_context();
    DLTensor out, none, f32 = a.q;
    PyObject *result = context ? sbp_torch_empty_strided(&a.q, 4, shape, strides, &out) : NULL;
    if (!result) return NULL;
    SBP_TORCH_RUN(result, samebits_attention(context, &a.q, &a.k, &a.v, &p, &out));
    /* The second output is for the gradient. */
    f32.dtype = (DLDataType){kDLFloat, 32, 1};
    PyObject *unused = result ? sbp_torch_empty(&f32, 1, &empty, &none) : NULL;
    PyObject *both = unused ? PyTuple_Pack(2, result, unused) : NULL;
    Py_XDECREF(unused);
    Py_XDECREF(result);
    return both;
}
