/* The calls that the target `arguments` makes, as a table: tensors that fit, and the call. */
#ifndef FUZZ_CALLS_H
#define FUZZ_CALLS_H

#include "fuzz.h"

enum { TENSORS = 6 };

/* A call in the making. Sizes are those of tensors that fit. */
typedef struct scene {
    bytes b;
    samebits_context *context;
    samebits_format format;
    int64_t m, n, k, heads, experts, top; /* top: 1 to n */
    int bits, group;                      /* of affine weights */
    DLDataType type, wide;                /* of most tensors; of dense products */
    DLTensor *t[TENSORS];                 /* outputs first; what a call does not name is not passed */
} scene;

typedef samebits_status call_fn(scene *s);
typedef samebits_status unary_fn(samebits_context *, const DLTensor *, DLTensor *);
typedef samebits_status binary_fn(samebits_context *, const DLTensor *, const DLTensor *, DLTensor *);

typedef struct form {
    /* Each a letter for the dtype, then one for each size (scene_dtype, scene_size); NULL: one float. */
    const char *tensor[TENSORS];
    int outputs;
    /* One of these. unary: t[0] from t[1]; binary: t[0] from t[1] and t[2]. */
    call_fn *call;
    unary_fn *unary;
    binary_fn *binary;
    /* Reads whole rows of an input whose length no output has: a row of 2^62 elements at stride 0 would take years. */
    int walks;
} form;

extern const form forms[];
extern const unsigned form_count;

DLDataType scene_dtype(const scene *s, char letter);
int64_t scene_size(const scene *s, char letter);

int64_t hostile_size(bytes *b);
float hostile_float(bytes *b);
size_t hostile_struct_size(bytes *b, size_t right);

#endif
