/* The ops that work on rows alone, as the table in op.c runs them. */
#ifndef OP_ROWS_H
#define OP_ROWS_H

#include "op.h"

samebits_status run_rms_norm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_layer_norm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_l2_norm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_group_norm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_add_rms_norm(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_softmax(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_log_softmax(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_logsumexp(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_log_likelihood(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_cross_entropy(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_sum(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_mean(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_max(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_embedding(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_sample(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_top_k(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);
samebits_status run_argmax(const problem *p, samebits_context *context, const DLTensor *x, DLTensor *out);

/* Groups of group_norm, and the token of the likelihoods. */
static inline int64_t group_count(const problem *p) { return p->k % 2 ? 1 : 2; }
/* The row of an embedding's table that a row of x stands for, by the bits of its first element. */
enum { TABLE_ROWS = 37 };
int64_t table_row_of(float first);
/* What a problem draws with: filters, and the same noise for all rows. */
void sampling_of(const problem *p, samebits_sampling_params *params, uint32_t noise[4]);
static inline int64_t token_of(const problem *p) { return p->k / 2; }

#endif
