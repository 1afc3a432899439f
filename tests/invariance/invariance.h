/* Tests that are not about rows of one product. */
#ifndef INVARIANCE_H
#define INVARIANCE_H

void test_batched(void **state);
void test_hook_used(void **state);

#endif
