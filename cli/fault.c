/* samebits verify --self-test: faults planted one after another in the plain C version of an op, which then
 * stands in for the library. A check that cannot fail proves nothing. */
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "table.h"
#include "verify.h"

typedef struct fault {
    fault_id id;
    const char *op, *form;
    samebits_order order;
    check seen_by; /* the check that exists for this kind */
    const char *what;
} fault;

#define PORTABLE SAMEBITS_ORDER_PORTABLE_1
#define INT8     SAMEBITS_ORDER_INT8_1
#define AMX      SAMEBITS_ORDER_AMX_1

static const fault faults[] = {
    {FAULT_CHUNK, "linear", "f32", PORTABLE, CHECK_SPEC, "chunks of 128 terms"},
    {FAULT_CHUNK, "linear_prepared", "bf16-f32", AMX, CHECK_SPEC, "blocks of 16 terms"},
    {FAULT_SWAP, "linear", "f32", PORTABLE, CHECK_LEVELS, "two chunks added in swapped order"},
    {FAULT_SWAP, "matmul", "f16-f32", PORTABLE, CHECK_LEVELS, "two chunks added in swapped order"},
    {FAULT_SWAP, "linear_prepared", "q4_k", INT8, CHECK_LEVELS, "blocks added in descending order"},
    {FAULT_TRUNCATE, "linear", "bf16", PORTABLE, CHECK_LEVELS, "outputs cut instead of rounded"},
    {FAULT_SPLIT, "linear", "f32", PORTABLE, CHECK_THREADS, "K split over the threads"},
    {FAULT_LEAK, "linear", "f32", PORTABLE, CHECK_CONTENT, "one term taken from the neighbour row"},
    {FAULT_LEAK, "matmul_quantized", "q8_0", INT8, CHECK_CONTENT, "activation scale shared with the neighbour"},
    {FAULT_ONE_ROW, "linear", "f32", PORTABLE, CHECK_SHAPE, "another kernel for one row"},
    {FAULT_TAIL_ROWS, "matmul", "bf16-f32", PORTABLE, CHECK_SHAPE, "another kernel for rows past the last four"},
    {FAULT_ONE_ROW, "rms_norm", "f32", PORTABLE, CHECK_SHAPE, "another number of lanes for one row"},
    {FAULT_STRIDED, "linear", "f32", PORTABLE, CHECK_LAYOUT, "another kernel for strided rows"},
    {FAULT_FLUSH, "linear", "f32", PORTABLE, CHECK_HOST, "subnormals flushed as the host says"},
    {FAULT_LIBM, "softmax", "f32", PORTABLE, CHECK_SPEC, "exp of the C library"},
    {FAULT_LIBM, "silu", "f32", PORTABLE, CHECK_SPEC, "exp of the C library"},
    {FAULT_LIBM, "rope", "f32", PORTABLE, CHECK_SPEC, "cos of the C library"},
    {FAULT_ROUNDED, "attention", "f32*f16", PORTABLE, CHECK_LAYOUT, "sums over keys rounded to f32"},
    {FAULT_ROUNDED, "attention", "f32*q8_0", PORTABLE, CHECK_LAYOUT, "sums over keys rounded to f32"},
    {FAULT_SPLIT, "attention", "f32", PORTABLE, CHECK_THREADS, "keys split over the threads"},
    {FAULT_HIDDEN, "attention", "f32*f16", PORTABLE, CHECK_CONTENT, "a hidden key times zero"},
    {FAULT_FLUSH, "attention", "f32", PORTABLE, CHECK_HOST, "subnormals flushed as the host says"},
};

static int find_op(const fault *f)
{
    for (int i = 0; i < op_count; i++)
        if (!strcmp(ops[i].name, f->op) && !strcmp(ops[i].form, f->form) && ops[i].order == f->order) return i;
    for (int i = 0; i < attention_form_count; i++)
        if (!strcmp(attention_forms[i].form, f->form)) return i;
    cli_die("there is no op %s %s", f->op, f->form);
}

/* Runs all checks on the plain version with a fault. */
static result try_fault(const verify *v, const fault *f, fault_id id)
{
    verify mine = *v;
    result r = {f->op, f->form, f->order, {{0, 0}}, NULL};
    mine.who = engine_plain(id);
    mine.small = 1;
    mine.full = 0;
    /* The plain version runs nowhere but here: pretend to two levels. */
    mine.levels[0] = SAMEBITS_CPU_SCALAR;
    mine.levels[1] = SAMEBITS_CPU_AVX2;
    mine.level_count = 2;
    if (!strcmp(f->op, "attention"))
        verify_attention(&mine, find_op(f), &r);
    else
        verify_rows(&mine, &ops[find_op(f)], &r);
    return r;
}

int verify_faults(const verify *v, int *caught)
{
    table t;
    int planted = 0;
    table_begin(&t, "fault|planted in|check|>differing|result");
    *caught = 0;
    for (size_t i = 0; i < CLI_COUNT(faults); i++) {
        const fault *f = &faults[i];
        if (!v->json) progress((int)i, (int)CLI_COUNT(faults), "self-test: %s", f->what);
        const result with = try_fault(v, f, f->id), without = try_fault(v, f, FAULT_NONE);
        const int64_t seen = with.checks[f->seen_by].differing;
        const int good = seen > 0 && result_differing(&without) == 0;
        if (without.first && !v->json) printf("%s\n", without.first);
        free(with.first);
        free(without.first);
        planted++;
        *caught += good;
        table_cell(&t, "%s", f->what);
        table_cell(&t, "%s %s", f->op, f->form);
        table_cell(&t, "%s", check_names[f->seen_by]);
        table_cell(&t, "%lld", (long long)seen);
        table_cell(&t, "%s", good ? "caught" : seen ? "MOVES WITHOUT A FAULT" : "NOT CAUGHT");
    }
    progress_end();
    table_end(&t, v->json ? stderr : stdout);
    return planted;
}
