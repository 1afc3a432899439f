/* mm, bmm, addmm, baddbmm, addmv, dot; sum and mean, which are products with ones. */
#include "torch.h"

/* Whether two operands of so many dimensions go together. */
static int fit(const DLTensor *a, const DLTensor *b, int ndim)
{
    if (!sbp_torch_same_dtype(a, b) || a->ndim != ndim || b->ndim != ndim) return 0;
    return a->shape[ndim - 1] == b->shape[ndim - 2] && (ndim == 2 || a->shape[0] == b->shape[0]);
}

/* Whether c broadcasts to a @ b. */
static int broadcasts(const DLTensor *c, const DLTensor *a, const DLTensor *b)
{
    if (!sbp_torch_same_dtype(a, c) || c->ndim > a->ndim) return 0;
    for (int i = 1; i <= c->ndim; i++) {
        const int64_t size = i == 1 ? b->shape[b->ndim - 1] : a->shape[a->ndim - i];
        if (c->shape[c->ndim - i] != 1 && c->shape[c->ndim - i] != size) return 0;
    }
    return 1;
}

/* Whether the mode's limit leaves a product of so many rows to stock; -1 with an exception set. */
static int above_limit(const sbp_torch_call *call, int64_t rows)
{
    PyObject *limit = PyObject_GetAttrString(call->mode, "limit");
    if (!limit) return -1;
    const int64_t most = limit != Py_None ? PyLong_AsLongLong(limit) : samebits_limit();
    const int above = most > 0 && rows > most;
    Py_DECREF(limit);
    return PyErr_Occurred() ? -1 : above;
}

/* What tells weights apart while their storage lives. */
static PyObject *key_of(PyObject *object, const DLTensor *b)
{
    struct {
        unsigned long long storage;
        uint64_t data;
        int64_t depth, rows, stride;
        uint64_t dtype;
    } key = {.data = (uintptr_t)b->data + b->byte_offset,
             .depth = b->shape[0],
             .rows = b->shape[1],
             .stride = b->strides[1],
             .dtype = b->dtype.code * 256u + b->dtype.bits};
    PyObject *storage = PyObject_CallMethod(object, "untyped_storage", NULL);
    PyObject *place = storage ? PyObject_GetAttrString(storage, "_cdata") : NULL;
    key.storage = place ? PyLong_AsUnsignedLongLongMask(place) : 0;
    Py_XDECREF(place);
    Py_XDECREF(storage);
    return PyErr_Occurred() ? NULL : PyBytes_FromStringAndSize((const char *)&key, sizeof key);
}

/* The packed form of b, (K, N), the transpose of weights that lie row by row; None if it has none, NULL with an
 * exception set. An entry, (version, weights or None, ...), counts as long as nobody writes to b. */
static PyObject *packed(PyObject *object, const DLTensor *b)
{
    PyObject *weights = Py_None;
    if (b->ndim != 2 || b->strides[0] != 1 || !sbp_torch_is_float(b) || sbp_torch_elements(b) < sbp_torch.packed_from) {
        Py_INCREF(weights);
        return weights;
    }
    PyObject *version = PyObject_GetAttrString(object, "_version");
    if (!version) {
        /* A tensor of inference mode counts no writes. */
        PyErr_Clear();
        Py_INCREF(weights);
        return weights;
    }
    PyObject *key = key_of(object, b);
    PyObject *entry = key ? PyDict_GetItemWithError(sbp_torch.entries, key) : NULL;
    if (entry && PyObject_RichCompareBool(PyTuple_GetItem(entry, 0), version, Py_EQ) == 1)
        weights = PyTuple_GetItem(entry, 1);
    if (PyErr_Occurred())
        weights = NULL;
    else if (weights != Py_None)
        Py_INCREF(weights);
    else
        weights = PyObject_CallFunctionObjArgs(sbp_torch.pack, object, key, version, NULL);
    Py_XDECREF(key);
    Py_DECREF(version);
    return weights;
}

PyObject *sbp_torch_packed(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object, *memory;
    sbp_tensor b;
    if (!PyArg_ParseTuple(args, "OO:torch_packed", &object, &memory) || !sbp_import(memory, "b", SBP_INPUT, &b))
        return NULL;
    PyObject *weights = packed(object, b.tensor);
    sbp_release(&b);
    return weights;
}

/* Whether C takes a product of a with b, and in which order: 0 for what is left, -1 with an exception set. */
static int taken(const sbp_torch_call *call, const DLTensor *a, int64_t rows, samebits_order *order)
{
    *order = SAMEBITS_ORDER_PORTABLE_1;
    const int above = above_limit(call, rows);
    if (above) return above < 0 ? -1 : 0;
    if (a->dtype.code != kDLBfloat) return 1; /* which alone has another order */
    PyObject *flag = PyObject_GetAttrString(call->mode, "amx");
    const int amx = flag ? PyObject_IsTrue(flag) : -1;
    Py_XDECREF(flag);
    if (amx > 0) *order = SAMEBITS_ORDER_AMX_1;
    return amx < 0 ? -1 : !amx || a->ndim == 2;
}

/* a @ b, by b's packed weights if they are not None. Orders but portable-1 are of packed weights. */
static samebits_status run(samebits_context *context, samebits_order order, const DLTensor *a, PyObject *weights,
                           const DLTensor *b, const samebits_epilogue *epilogue, DLTensor *out)
{
    if (weights != Py_None)
        return samebits_linear_prepared(context, a, ((sbp_weights *)weights)->weights, order, epilogue, out);
    if (order == SAMEBITS_ORDER_PORTABLE_1 || !sbp_torch_elements(b))
        return samebits_matmul(context, a, b, epilogue, out);
    samebits_weights *packed_now = NULL;
    sbp_torch_matrix w;
    sbp_torch_as_matrix(b, b->shape[1], b->shape[0], b->strides[1], b->strides[0], &w);
    samebits_status status = samebits_weights_prepare(context, &w.tensor, SAMEBITS_FORMAT_BF16, NULL, &packed_now);
    if (!status) status = samebits_linear_prepared(context, a, packed_now, order, epilogue, out);
    samebits_weights_destroy(&packed_now);
    return status;
}

/* The product, with the result's dimensions; `object` is b's, or NULL if that is not to be packed for later calls. */
static PyObject *product(samebits_order order, const DLTensor *a, PyObject *object, const DLTensor *b,
                         const samebits_epilogue *epilogue, int ndim, const int64_t *shape)
{
    int64_t columns[SBP_TORCH_DIMS];
    samebits_context *context = sbp_torch_context();
    PyObject *weights = context && object ? packed(object, b) : Py_None;
    if (!context || !weights) return NULL;
    if (!object) Py_INCREF(weights);
    DLTensor out;
    PyObject *result = sbp_torch_empty(a, ndim, shape, &out);
    for (int i = 0; i < a->ndim - 1; i++) columns[i] = a->shape[i];
    columns[a->ndim - 1] = b->shape[b->ndim - 1];
    if (result) {
        out.ndim = a->ndim;
        out.shape = columns;
        out.strides = NULL;
        SBP_TORCH_RUN(result, run(context, order, a, weights, b, epilogue, &out));
    }
    Py_DECREF(weights);
    return result;
}

/* a @ b, whose dimensions are a's but for the last. */
static PyObject *matrix_product(samebits_order order, const DLTensor *a, PyObject *object, const DLTensor *b,
                                const samebits_epilogue *epilogue)
{
    int64_t shape[SBP_TORCH_DIMS];
    for (int i = 0; i < a->ndim - 1; i++) shape[i] = a->shape[i];
    shape[a->ndim - 1] = b->shape[b->ndim - 1];
    return product(order, a, object, b, epilogue, a->ndim, shape);
}

static PyObject *mm(const sbp_torch_call *call, int ndim)
{
    DLTensor a, b;
    samebits_order order;
    PyObject *object = sbp_torch_arg(call, 1);
    if (sbp_torch_count(call) != 2 || call->kwargs || !sbp_torch_view_wide(sbp_torch_arg(call, 0), &a) ||
        !sbp_torch_view_wide(object, &b) || !fit(&a, &b, ndim))
        return sbp_torch_left();
    const int takes = taken(call, &a, a.shape[a.ndim - 2], &order);
    if (takes <= 0) return takes < 0 ? NULL : sbp_torch_left();
    samebits_epilogue epilogue;
    samebits_epilogue_default(&epilogue);
    return matrix_product(order, &a, object, &b, &epilogue);
}

PyObject *sbp_torch_mm(const sbp_torch_call *call) { return mm(call, 2); }

PyObject *sbp_torch_bmm(const sbp_torch_call *call) { return mm(call, 3); }

/* A factor given by keyword; 0 for what is no real number. */
static int factor(const sbp_torch_call *call, const char *name, double *value)
{
    PyObject *object = call->kwargs ? PyDict_GetItemString(call->kwargs, name) : NULL;
    *value = object ? PyFloat_AsDouble(object) : 1.0;
    if (!PyErr_Occurred()) return 1;
    PyErr_Clear();
    return 0;
}

/* alpha and beta, and c unless beta is 0; 0 for what is no real number. */
static int scaled(const sbp_torch_call *call, const DLTensor *c, samebits_epilogue *epilogue)
{
    samebits_epilogue_default(epilogue);
    if (!factor(call, "alpha", &epilogue->alpha) || !factor(call, "beta", &epilogue->beta)) return 0;
    epilogue->c = epilogue->beta != 0 ? c : NULL;
    return 1;
}

static PyObject *addmm(const sbp_torch_call *call, int ndim)
{
    DLTensor a, b, c;
    samebits_epilogue epilogue;
    samebits_order order;
    PyObject *object = sbp_torch_arg(call, 2);
    if (sbp_torch_count(call) != 3 || !sbp_torch_view_wide(sbp_torch_arg(call, 0), &c) ||
        !sbp_torch_view_wide(sbp_torch_arg(call, 1), &a) || !sbp_torch_view_wide(object, &b) || !fit(&a, &b, ndim) ||
        !broadcasts(&c, &a, &b) || !scaled(call, &c, &epilogue))
        return sbp_torch_left();
    const int takes = taken(call, &a, a.shape[a.ndim - 2], &order);
    if (takes <= 0) return takes < 0 ? NULL : sbp_torch_left();
    return matrix_product(order, &a, object, &b, &epilogue);
}

PyObject *sbp_torch_addmm(const sbp_torch_call *call) { return addmm(call, 2); }

PyObject *sbp_torch_baddbmm(const sbp_torch_call *call) { return addmm(call, 3); }

PyObject *sbp_torch_addmv(const sbp_torch_call *call)
{
    DLTensor c, a, x;
    samebits_epilogue epilogue;
    samebits_order order;
    sbp_torch_matrix b, addend;
    if (sbp_torch_count(call) != 3 || !sbp_torch_view_wide(sbp_torch_arg(call, 0), &c) ||
        !sbp_torch_view_wide(sbp_torch_arg(call, 1), &a) || !sbp_torch_view_wide(sbp_torch_arg(call, 2), &x) ||
        a.ndim != 2 || x.ndim != 1 || c.ndim != 1 || a.shape[1] != x.shape[0] || a.shape[0] != c.shape[0] ||
        !sbp_torch_same_dtype(&a, &x) || !sbp_torch_same_dtype(&a, &c) || !scaled(call, &addend.tensor, &epilogue))
        return sbp_torch_left();
    /* One product, whose rows are not those of a batch: no limit. */
    const int takes = taken(call, &a, 0, &order);
    if (takes <= 0) return takes < 0 ? NULL : sbp_torch_left();
    sbp_torch_as_matrix(&x, x.shape[0], 1, x.strides[0], 0, &b);
    sbp_torch_as_matrix(&c, c.shape[0], 1, c.strides[0], 0, &addend);
    return product(order, &a, NULL, &b.tensor, &epilogue, 1, a.shape);
}

PyObject *sbp_torch_dot(const sbp_torch_call *call)
{
    DLTensor a, b;
    samebits_order order;
    sbp_torch_matrix row, column;
    if (sbp_torch_count(call) != 2 || call->kwargs || !sbp_torch_view_wide(sbp_torch_arg(call, 0), &a) ||
        !sbp_torch_view_wide(sbp_torch_arg(call, 1), &b) || a.ndim != 1 || b.ndim != 1 || a.shape[0] != b.shape[0] ||
        !sbp_torch_same_dtype(&a, &b))
        return sbp_torch_left();
    sbp_torch_as_matrix(&a, 1, a.shape[0], 0, a.strides[0], &row);
    sbp_torch_as_matrix(&b, b.shape[0], 1, b.strides[0], 0, &column);
    const int takes = taken(call, &row.tensor, 0, &order);
    if (takes <= 0) return takes < 0 ? NULL : sbp_torch_left();
    samebits_epilogue epilogue;
    samebits_epilogue_default(&epilogue);
    return product(order, &row.tensor, NULL, &column.tensor, &epilogue, 0, NULL);
}

/* Of complex numbers its first operand is conjugated. */
PyObject *sbp_torch_vdot(const sbp_torch_call *call)
{
    DLTensor a;
    if (sbp_torch_view_wide(sbp_torch_arg(call, 0), &a) && a.dtype.code == kDLComplex) return sbp_torch_left();
    return sbp_torch_dot(call);
}

/* --- sums --- */

/* Dimensions that are one for arithmetic: from the last one to the first, each steps over the whole of the next. */
typedef struct group {
    int64_t size, stride;
} group;

static int join(group *g, group outer)
{
    if (outer.size == 1) return 1;
    if (g->size == 1) {
        *g = outer;
        return 1;
    }
    if (outer.stride != g->stride * g->size) return 0;
    g->size *= outer.size;
    return 1;
}

/* The dimensions that a list names, as bits: all for None and an empty list. -1 for what is no such list. */
static int dims_of(PyObject *list, int ndim)
{
    const int all = (1 << ndim) - 1;
    if (list == Py_None) return all;
    if (!list || !PyList_Check(list)) return -1;
    int dims = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        const long dim = PyLong_AsLong(PyList_GetItem(list, i));
        if (PyErr_Occurred())
            PyErr_Clear();
        else if (dim >= -ndim && dim < ndim && !(dims & 1 << (dim + ndim) % ndim)) {
            dims |= 1 << (dim + ndim) % ndim;
            continue;
        }
        return -1;
    }
    return dims ? dims : all;
}

/* What sum and mean have in common. */
typedef struct reduction {
    DLTensor x;
    int dims, keep;
    group along;
    int groups; /* of the dimensions that are kept, the innermost first */
    group kept[SBP_TORCH_DIMS];
    int ndim;
    int64_t shape[SBP_TORCH_DIMS]; /* the result's */
} reduction;

static int reduction_of(const sbp_torch_call *call, reduction *r)
{
    PyObject *keep = sbp_torch_arg(call, 2);
    if (call->kwargs || !sbp_torch_view(sbp_torch_arg(call, 0), &r->x) || !r->x.ndim) return 0;
    r->dims = dims_of(sbp_torch_arg(call, 1), r->x.ndim);
    r->keep = keep ? PyObject_IsTrue(keep) : 0;
    if (r->dims < 0 || r->keep < 0 || !sbp_torch_elements(&r->x)) return 0;
    r->along = r->kept[0] = (group){1, 0};
    r->groups = 1;
    r->ndim = 0;
    for (int i = 0; i < r->x.ndim; i++) {
        const int summed = r->dims >> i & 1;
        if (!summed || r->keep) r->shape[r->ndim++] = summed ? 1 : r->x.shape[i];
    }
    for (int i = r->x.ndim - 1; i >= 0; i--) {
        const group dim = {r->x.shape[i], r->x.strides[i]};
        const int summed = r->dims >> i & 1;
        if (join(summed ? &r->along : &r->kept[r->groups - 1], dim)) continue;
        if (summed) return 0;
        r->kept[r->groups++] = dim;
    }
    return 1;
}

/* The sums, times alpha: a product with ones. */
static PyObject *sums(const reduction *r, double alpha)
{
    int64_t shape[SBP_TORCH_DIMS], strides[SBP_TORCH_DIMS];
    sbp_torch_matrix ones;
    DLTensor rows = r->x;
    /* No more dimensions than x has, or two: one at least is summed. */
    rows.ndim = r->groups + 1;
    rows.shape = shape;
    rows.strides = strides;
    for (int i = 0; i < r->groups; i++) {
        shape[i] = r->kept[r->groups - 1 - i].size;
        strides[i] = r->kept[r->groups - 1 - i].stride;
    }
    shape[r->groups] = r->along.size;
    strides[r->groups] = r->along.stride;
    sbp_torch_ones(r->x.dtype, r->along.size, &ones);
    samebits_epilogue epilogue;
    samebits_epilogue_default(&epilogue);
    epilogue.alpha = alpha;
    return product(SAMEBITS_ORDER_PORTABLE_1, &rows, NULL, &ones.tensor, &epilogue, r->ndim, r->shape);
}

PyObject *sbp_torch_sum(const sbp_torch_call *call)
{
    reduction r;
    return reduction_of(call, &r) ? sums(&r, 1.0) : sbp_torch_left();
}

PyObject *sbp_torch_mean(const sbp_torch_call *call)
{
    reduction r;
    if (!reduction_of(call, &r)) return sbp_torch_left();
    PyObject *dims = sbp_torch_arg(call, 1);
    if (r.dims != 1 << (r.x.ndim - 1) || !PyList_Check(dims) || PyList_Size(dims) != 1)
        return sums(&r, 1.0 / (double)r.along.size);
    samebits_context *context = sbp_torch_context();
    DLTensor out;
    PyObject *result = context ? sbp_torch_empty(&r.x, r.ndim, r.shape, &out) : NULL;
    if (!result) return NULL;
    SBP_TORCH_RUN(result, samebits_mean(context, &r.x, &out));
    return result;
}
