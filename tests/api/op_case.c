#include "op_case.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/memory.h"

void op_add(op_case *c, const char *name, test_tensor *tensor, int min_dims, int max_dims, unsigned flags)
{
    c->argument[c->count] = (op_argument){name, tensor, min_dims, max_dims, flags};
    c->pointer[c->count++] = &tensor->dl;
}

static int word_char(char ch) { return isalnum((unsigned char)ch) || ch == '_'; }

int op_names(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
        if ((at == text || !word_char(at[-1])) && !word_char(at[length])) return 1;
    return 0;
}

static void save_all(op_case *c)
{
    for (int i = 0; i < c->count; i++) {
        if (c->argument[i].flags & OP_OUT) test_poison(c->argument[i].tensor);
        test_save(c->argument[i].tensor);
    }
}

void op_expect_at(op_case *c, samebits_status status, const char *name, const char *what, const char *file, int line)
{
    save_all(c);
    const samebits_status have = c->call(c);
    const char *message = samebits_last_error();
    if (have != status) {
        print_error("%s of %s: want %s, have %s (%s)\n", what, name ? name : "out", samebits_status_name(status),
                    samebits_status_name(have), have ? message : "no message");
        _fail(file, line);
    }
    if (name && !op_names(message, name)) {
        print_error("%s of %s: the message does not name it: \"%s\"\n", what, name, message);
        _fail(file, line);
    }
    for (int i = 0; i < c->count; i++)
        if (!test_unchanged(c->argument[i].tensor)) {
            print_error("%s of %s: the call failed and wrote to %s\n", what, name ? name : "out", c->argument[i].name);
            _fail(file, line);
        }
}

void op_expect_ok(op_case *c)
{
    save_all(c);
    const samebits_status status = c->call(c);
    if (status) print_error("valid call: %s: %s\n", samebits_status_name(status), samebits_last_error());
    assert_int_equal(status, SAMEBITS_OK);
    for (int i = 0; i < c->count; i++)
        if (!(c->argument[i].flags & OP_OUT)) assert_true(test_unchanged(c->argument[i].tensor));
}

/* A spoilt copy of an argument. */
typedef struct {
    DLTensor dl;
    int64_t shape[TEST_MAX_DIMS], strides[TEST_MAX_DIMS];
} spoilt;

static DLTensor *spoil(op_case *c, int i, spoilt *s)
{
    const test_tensor *t = c->argument[i].tensor;
    s->dl = t->dl;
    memcpy(s->shape, t->shape, sizeof s->shape);
    memcpy(s->strides, t->strides, sizeof s->strides);
    s->dl.shape = s->shape;
    s->dl.strides = s->strides;
    c->pointer[i] = &s->dl;
    return &s->dl;
}

#define SPOIL(statement, status, what)                                                                                 \
    do {                                                                                                               \
        DLTensor *t = spoil(c, i, &s);                                                                                 \
        (void)t;                                                                                                       \
        statement;                                                                                                     \
        op_expect(c, status, c->argument[i].name, what);                                                               \
        c->pointer[i] = &c->argument[i].tensor->dl;                                                                    \
    } while (0)

static void spoil_kind(op_case *c, int i)
{
    spoilt s;
    const op_argument *a = &c->argument[i];
    if (!(a->flags & OP_OPTIONAL)) SPOIL(c->pointer[i] = NULL, SAMEBITS_ERR_NULL, "NULL tensor");
    SPOIL(t->shape = NULL, SAMEBITS_ERR_NULL, "NULL shape");
    SPOIL(t->data = NULL, SAMEBITS_ERR_NULL, "NULL data");
    SPOIL(t->ndim = a->max_dims + 1, SAMEBITS_ERR_RANK, "too many dimensions");
    SPOIL(t->ndim = a->min_dims - 1, SAMEBITS_ERR_RANK, "too few dimensions");
    SPOIL(t->ndim = -1, SAMEBITS_ERR_RANK, "negative rank");
    SPOIL(t->device.device_type = kDLCUDA, SAMEBITS_ERR_DEVICE, "CUDA device");
    SPOIL(t->device.device_type = kDLMetal, SAMEBITS_ERR_DEVICE, "Metal device");
    SPOIL(memset(&t->device, 0, sizeof t->device), SAMEBITS_ERR_DEVICE, "device of zeros");
    SPOIL(t->dtype.code = 42, SAMEBITS_ERR_DTYPE, "unknown dtype code");
    SPOIL(t->dtype.lanes = 2, SAMEBITS_ERR_DTYPE, "two lanes");
    SPOIL(t->dtype.lanes = 0, SAMEBITS_ERR_DTYPE, "no lanes");
    SPOIL(t->dtype.bits = 7, SAMEBITS_ERR_DTYPE, "odd bits");
    if (a->tensor->dtype >= TEST_F64)
        SPOIL(t->dtype = ((DLDataType){kDLFloat, 32, 1}), SAMEBITS_ERR_DTYPE, "f32");
    else
        SPOIL(t->dtype = ((DLDataType){kDLFloat, 64, 1}), SAMEBITS_ERR_DTYPE, "f64");
    SPOIL(t->dtype = ((DLDataType){kDLInt, 16, 1}), SAMEBITS_ERR_DTYPE, "i16");
}

static void spoil_layout(op_case *c, int i)
{
    spoilt s;
    const op_argument *a = &c->argument[i];
    const int64_t huge = (int64_t)1 << 62;
    for (int d = 0; d < a->tensor->dl.ndim; d++) {
        assert_true(a->tensor->shape[d] > 1);
        SPOIL(t->shape[d] = -1, SAMEBITS_ERR_SHAPE, "negative size");
        SPOIL(t->shape[d] = INT64_MIN, SAMEBITS_ERR_SHAPE, "lowest size");
        SPOIL(t->strides[d] = -1, SAMEBITS_ERR_STRIDE, "negative stride");
        SPOIL(t->strides[d] = INT64_MIN, SAMEBITS_ERR_STRIDE, "lowest stride");
        SPOIL(t->strides[d] = INT64_MAX, SAMEBITS_ERR_STRIDE, "overflowing stride");
        SPOIL(t->strides[d] = huge, SAMEBITS_ERR_STRIDE, "stride beyond the address space");
    }
    if (a->tensor->dl.ndim > 1) {
        SPOIL((t->strides = NULL, t->shape[0] = huge, t->shape[1] = huge), SAMEBITS_ERR_OVERFLOW, "overflowing sizes");
        SPOIL((t->shape[0] = huge, t->shape[1] = huge), SAMEBITS_ERR_OVERFLOW, "overflowing sizes with strides");
    }
    SPOIL((t->strides = NULL, t->shape[0] = INT64_MAX), SAMEBITS_ERR_OVERFLOW, "overflowing bytes");
    if (test_dtype_size(a->tensor->dtype) > 1) {
        SPOIL(t->data = (char *)t->data + 1, SAMEBITS_ERR_STRIDE, "misaligned data");
        SPOIL(t->byte_offset += 1, SAMEBITS_ERR_STRIDE, "misaligned byte_offset");
    }
}

/* Any dimension one larger: the message may blame either side. */
static void spoil_shape(op_case *c, int i)
{
    spoilt s;
    if (c->argument[i].flags & OP_NO_GROW) return;
    for (int d = 0; d < c->argument[i].tensor->dl.ndim; d++) {
        DLTensor *t = spoil(c, i, &s);
        t->strides = NULL;
        t->shape[d] += 1;
        save_all(c);
        const samebits_status status = c->call(c);
        if (status != SAMEBITS_ERR_SHAPE)
            print_error("dimension %d of %s one larger: %s: %s\n", d, c->argument[i].name, samebits_status_name(status),
                        samebits_last_error());
        assert_int_equal(status, SAMEBITS_ERR_SHAPE);
        int named = 0;
        for (int j = 0; j < c->count; j++) {
            named |= op_names(samebits_last_error(), c->argument[j].name);
            assert_true(test_unchanged(c->argument[j].tensor));
        }
        if (!named) print_error("the message names no argument: \"%s\"\n", samebits_last_error());
        assert_true(named);
        c->pointer[i] = &c->argument[i].tensor->dl;
    }
}

/* The output lies over an input, and perhaps over others that happen to be near it in memory. */
static void expect_overlap(op_case *c, int i, const char *what)
{
    const char *begin = (char *)c->pointer[i]->data + c->pointer[i]->byte_offset;
    const char *end = begin + c->argument[i].tensor->size;
    op_expect(c, SAMEBITS_ERR_OVERLAP, NULL, what);
    for (int j = 0; j < c->count; j++) {
        const test_tensor *in = c->argument[j].tensor;
        const char *from = (char *)in->memory;
        if (c->argument[j].flags & OP_OUT || from >= end || begin >= from + in->size) continue;
        if (op_names(samebits_last_error(), c->argument[j].name)) return;
    }
    print_error("%s: the message names no input under it: \"%s\"\n", what, samebits_last_error());
    fail();
}

static void spoil_output(op_case *c, int i)
{
    spoilt s;
    const test_tensor *out = c->argument[i].tensor;
    for (int d = 0; d < out->dl.ndim; d++) SPOIL(t->strides[d] = 0, SAMEBITS_ERR_OVERLAP, "stride 0");
    if (out->dl.ndim > 1) SPOIL(t->strides[0] = t->strides[1], SAMEBITS_ERR_OVERLAP, "two equal strides");
    for (int j = 0; j < c->count; j++) {
        const test_tensor *in = c->argument[j].tensor;
        if (c->argument[j].flags & OP_OUT) continue;
        DLTensor *t = spoil(c, i, &s);
        t->data = in->memory + in->dl.byte_offset;
        t->byte_offset = 0;
        if (!(c->argument[j].flags & OP_IN_PLACE)) expect_overlap(c, i, "output at the start of an input");
        /* The last element of the input is the output's first; a partial overlap is wrong also in place. */
        const size_t step = test_dtype_size(out->dtype) > 4 ? 8 : 4;
        t->data = (char *)t->data + (in->size - in->dl.byte_offset - 1) / step * step;
        if ((char *)t->data != (char *)in->memory + in->dl.byte_offset)
            expect_overlap(c, i, "output at the end of an input");
        /* The same through byte_offset. */
        t->byte_offset = (uint64_t)((char *)t->data - (char *)in->memory);
        t->data = in->memory;
        if (t->byte_offset) expect_overlap(c, i, "output by byte_offset");
        c->pointer[i] = &c->argument[i].tensor->dl;
    }
}

void op_check_errors(op_case *c)
{
    op_expect_ok(c);
    samebits_context *context = c->context;
    c->context = NULL;
    op_expect(c, SAMEBITS_ERR_NULL, "context", "NULL");
    c->context = context;
    for (int i = 0; i < c->count; i++) {
        spoil_kind(c, i);
        spoil_layout(c, i);
        spoil_shape(c, i);
        if (c->argument[i].flags & OP_OUT) spoil_output(c, i);
    }
    op_expect_ok(c);
}

void op_check_memory(op_case *c, int threads)
{
    samebits_context *const kept = c->context;
    samebits_options options;
    test_memory memory;
    test_memory_init(&memory);
    samebits_options_default(&options);
    options.threads = threads;
    options.allocator = test_memory_allocator(&memory);
    assert_int_equal(samebits_create(&c->context, &options), SAMEBITS_OK);
    const long base = memory.live;
    memory.calls = 0;
    op_expect_ok(c);
    const long calls = memory.calls;
    assert_int_equal(memory.live, base);
    for (long fail = 0; fail < calls; fail++) {
        memory.calls = 0;
        memory.fail_at = fail;
        op_expect(c, SAMEBITS_ERR_MEMORY, "memory", "failed allocation");
        assert_int_equal(memory.live, base);
    }
    memory.fail_at = -1;
    op_expect_ok(c);
    samebits_destroy(&c->context);
    assert_int_equal(memory.live, 0);
    assert_int_equal(memory.faults, 0);
    c->context = kept;
}
