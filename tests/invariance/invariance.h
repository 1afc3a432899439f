/* Tests that are not about rows of one product. */
#ifndef INVARIANCE_H
#define INVARIANCE_H

void test_batched(void **state);

#endif
