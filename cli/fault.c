/* samebits verify --self-test: faults planted one after another in the plain C version of an op, which then
 * stands in for the library. A check that cannot fail proves nothing. */
#include <stdlib.h>
#include <string.h>

#include "table.h"
#include "verify.h"

typedef struct fault {
    fault_id id;
    const char *op, *form;
    check seen_by; /* the check that exists for this kind */
    const char *what;
} fault;

static const fault faults[] = {
    {FAULT_CHUNK, "linear", "f32", CHECK_SPEC, "chunks of 128 terms"},
    {FAULT_SWAP, "linear", "f32", CHECK_LEVELS, "two chunks added in swapped order"},
    {FAULT_SWAP, "matmul", "f16-f32", CHECK_LEVELS, "two chunks added in swapped order"},
    {FAULT_TRUNCATE, "linear", "bf16", CHECK_LEVELS, "outputs cut instead of rounded"},
    {FAULT_SPLIT, "linear", "f32", CHECK_THREADS, "K split over the threads"},
    {FAULT_LEAK, "linear", "f32", CHECK_CONTENT, "one term taken from the neighbour row"},
    {FAULT_ONE_ROW, "linear", "f32", CHECK_SHAPE, "another kernel for one row"},
    {FAULT_TAIL_ROWS, "matmul", "bf16-f32", CHECK_SHAPE, "another kernel for rows past the last four"},
    {FAULT_STRIDED, "linear", "f32", CHECK_LAYOUT, "another kernel for strided rows"},
    {FAULT_FLUSH, "linear", "f32", CHECK_HOST, "subnormals flushed as the host says"},
};

static const op *find(const char *name, const char *form)
{
    for (int i = 0; i < op_count; i++)
        if (!strcmp(ops[i].name, name) && !strcmp(ops[i].form, form)) return &ops[i];
    cli_die("there is no op %s %s", name, form);
}

/* Runs all checks on the plain version with a fault. */
static result try_fault(const verify *v, const op *o, fault_id id)
{
    verify mine = *v;
    result r = {o->name, o->form, o->order, {{0, 0}}, NULL};
    mine.who = engine_plain(id);
    mine.small = 1;
    mine.full = 0;
    /* The plain version runs nowhere but here: pretend to two levels. */
    mine.levels[0] = SAMEBITS_CPU_SCALAR;
    mine.levels[1] = SAMEBITS_CPU_AVX2;
    mine.level_count = 2;
    verify_rows(&mine, o, &r);
    free(r.first);
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
        const op *o = find(f->op, f->form);
        if (!v->json) progress("self-test: %s", f->what);
        const result with = try_fault(v, o, f->id), without = try_fault(v, o, FAULT_NONE);
        const int64_t seen = with.checks[f->seen_by].differing;
        const int good = seen > 0 && result_differing(&without) == 0;
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
