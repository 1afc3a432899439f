/* Attention as the checks call it: forms, calls, and the op in plain C. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "cache.h"
#include "plain.h"

typedef struct attention_form {
    const char *form;
    dtype q;
    samebits_format k, v;
    dtype out;
} attention_form;

extern const attention_form attention_forms[];
extern const int attention_form_count;

/* One call; tensors are the caller's. index, length, sinks, mask and slopes may be NULL. */
typedef struct attention_call {
    const tensor *q, *k, *v; /* (B, H, Lq, D), (B, Hkv, Lk, D), (B, Hkv, Lk, Dv) */
    samebits_format k_format, v_format;
    const tensor *index, *length, *sinks, *mask, *slopes;
    float scale, softcap;
    int causal;
    int64_t window;
    tensor *out; /* (B, H, Lq, Dv) */
} attention_call;

/* Ends the program with the library's message if the call fails. */
void attention_run(const attention_call *call, samebits_context *context);
/* spec/ops/attention.md with 128-bit sums. */
void attention_plain(const attention_call *call, setting how, fault_id fault);

/* Hashes of all forms over fixed inputs. */
uint64_t attention_fingerprint(const attention_form *form, samebits_context *context);

#endif
