/* Tests that are not about rows of one product. */
#ifndef INVARIANCE_H
#define INVARIANCE_H

void test_batched(void **state);
void test_hook_used(void **state);
void test_fork(void **state);
void test_thread_exit(void **state);
void test_cancelled(void **state);
void test_one_core(void **state);
void test_attention_chunks(void **state);
void test_attention_permuted(void **state);
void test_attention_places(void **state);
void test_attention_batch(void **state);
void test_attention_padding(void **state);
void test_attention_machines(void **state);

#endif
