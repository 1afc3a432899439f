/* Same row, same bits, through the public API: `samebits_invariance [check ...]`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "invariance.h"
#include "ops.h"

/* The check on every op, and first on the control, which it must catch. */
static void check_all(rows_check *check, const char *name)
{
    row_op op;
    control_op(&op);
    rows_prepare(&op);
    const long caught = check(&op);
    rows_release(&op);
    if (!caught) print_error("%s does not see the control move: the check cannot fail\n", name);
    assert_true(caught > 0);
    long moved = 0;
    for (int i = 0; ops_make(i, &op); i++) {
        rows_prepare(&op);
        const long differing = check(&op);
        if (differing) print_error("%s: %ld rows of %s moved\n", name, differing, op.name);
        moved += differing;
        rows_release(&op);
    }
    assert_int_equal(moved, 0);
}

#define ROWS_TEST(check)                                                                                               \
    static void test_##check(void **state)                                                                             \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check_all(rows_##check, #check);                                                                               \
    }

ROWS_TEST(batch)
ROWS_TEST(neighbours)
ROWS_TEST(threads)
ROWS_TEST(levels)
ROWS_TEST(layouts)
ROWS_TEST(hooks)
ROWS_TEST(nested)
ROWS_TEST(shared)
ROWS_TEST(environment)

/* Two forms of one product give the same rows; another product does not. */
static void test_twins(void **state)
{
    (void)state;
    row_op a, b;
    samebits_context *c;
    assert_int_equal(samebits_create(&c, NULL), SAMEBITS_OK);
    for (int i = 0; ops_twin(i, &a, &b); i++) {
        rows_prepare(&a);
        b.x = a.x;
        unsigned char *have = rows_run(&b, c, 0, 129);
        const long moved = rows_differing(&a, have, 0, 129);
        if (moved) print_error("%ld rows of %s are not those of %s\n", moved, b.name, a.name);
        assert_int_equal(moved, 0);
        assert_int_equal(rows_differing(&a, have, 1, 128), 128); /* the row below is another one */
        free(have);
        samebits_weights_destroy(&b.weights);
        rows_release(&a);
    }
    samebits_destroy(&c);
}

static const struct {
    const char *name;
    struct CMUnitTest test;
} tests[] = {
#define ENTRY(check)                                                                                                   \
    {                                                                                                                  \
#check, cmocka_unit_test(test_##check)                                                                         \
    }
    ENTRY(batch),
    ENTRY(neighbours),
    ENTRY(threads),
    ENTRY(levels),
    ENTRY(layouts),
    ENTRY(hooks),
    ENTRY(nested),
    ENTRY(shared),
    ENTRY(environment),
    ENTRY(twins),
    ENTRY(batched),
    ENTRY(hook_used),
    ENTRY(fork),
    ENTRY(thread_exit),
    ENTRY(cancelled),
    ENTRY(one_core),
    ENTRY(attention_chunks),
    ENTRY(attention_permuted),
    ENTRY(attention_places),
    ENTRY(attention_batch),
    ENTRY(attention_padding),
    ENTRY(attention_machines),
};

int main(int argc, char **argv)
{
    int failed = 0, ran = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        int wanted = argc == 1;
        for (int a = 1; a < argc; a++) wanted |= !strcmp(argv[a], tests[i].name);
        if (!wanted) continue;
        const struct CMUnitTest one[] = {tests[i].test};
        failed += cmocka_run_group_tests(one, NULL, test_free_all);
        ran++;
    }
    if (!ran) fprintf(stderr, "no such check\n");
    return failed || !ran;
}
