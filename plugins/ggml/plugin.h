/* The ggml backend: what its files share.
 *
 * A backend of device type ACCEL that takes the ops whose bits would otherwise depend on the batch. Its
 * compute buffers are the CPU backend's, so activations are never copied; its own buffer type is for weights,
 * which it packs once. It links no host library: host.c looks the few functions it needs up at load. */
#ifndef SBG_PLUGIN_H
#define SBG_PLUGIN_H

#include <stdbool.h>

#include <ggml.h>
#include <ggml-backend.h>
#include <ggml-backend-impl.h>

#include <samebits/samebits.h>

/* host.c: functions of the ggml that loaded this plugin. */
typedef struct sbg_host {
    ggml_backend_buffer_type_t (*cpu_buffer_type)(void);
    ggml_backend_buffer_t (*buffer_init)(ggml_backend_buffer_type_t, struct ggml_backend_buffer_i, void *, size_t);
    size_t (*nbytes)(const struct ggml_tensor *);
    bool (*is_contiguous)(const struct ggml_tensor *);
    int (*graph_n_nodes)(struct ggml_cgraph *);
    struct ggml_tensor *(*graph_node)(struct ggml_cgraph *, int);
    const char *(*op_name)(enum ggml_op);
    const char *(*type_name)(enum ggml_type);
    void (*log)(enum ggml_log_level, const char *, ...);
} sbg_host;

extern sbg_host sbg_ggml;

/* Fills sbg_ggml from the library that holds `caller`. Returns false with a line on stderr. */
bool sbg_host_find(const void *caller);

#define sbg_error(...) sbg_ggml.log(GGML_LOG_LEVEL_ERROR, "samebits: " __VA_ARGS__)

/* options.c: the environment, read once at load. */
typedef struct sbg_options {
    samebits_order order; /* of quantised weights */
    samebits_cpu cpu;
    int threads; /* 0: the host decides */
    bool strict;
} sbg_options;

/* Returns false, with an error logged, on a value it does not know. */
bool sbg_options_read(sbg_options *options);

/* arena.c: keeps the blocks that a call frees for the next call, so that decoding does not allocate. */
enum { SBG_ARENA_BLOCKS = 8 };

typedef struct sbg_arena {
    struct {
        void *memory;
        size_t size;
        bool used;
    } block[SBG_ARENA_BLOCKS];
} sbg_arena;

/* For one context, used by one thread at a time. */
samebits_allocator sbg_arena_allocator(sbg_arena *arena);
void sbg_arena_clear(sbg_arena *arena);

/* buffer.c: the buffer type of packed weights. */
ggml_backend_buffer_type_t sbg_buffer_type(ggml_backend_dev_t device, samebits_context *context);
bool sbg_is_our_type(ggml_backend_buffer_type_t type);
/* Whether a tensor is one whose rows the buffer can pack. */
bool sbg_packable(const struct ggml_tensor *tensor);
/* A weight packed in parts of `rows` rows, the last one shorter: a large one is read a part at a time, and the
 * file's pages behind it are given back before the next. */
typedef struct sbg_packed {
    int64_t rows;
    int count, matrices;      /* parts in all; 1, or the experts */
    samebits_weights *part[]; /* the first of each matrix, the second of each, ... */
} sbg_packed;

/* The packed form of a tensor, or NULL: it is not in our buffer, or it lies there plain. */
const sbg_packed *sbg_packed_of(const struct ggml_tensor *tensor);

/* mapping.c: a file mapped read-only into memory, as llama.cpp does with models. */
bool sbg_is_file(const void *data, size_t size);
/* Gives the pages that lie wholly in the range back to the system; the next access reads the file again. */
void sbg_release_file(const void *data, size_t size);

/* tensor.c: ggml tensors as samebits sees them. */
typedef struct sbg_view {
    DLTensor tensor;
    int64_t shape[6], stride[6];
} sbg_view;

/* SAMEBITS_FORMAT_COUNT for a type that samebits does not read. */
samebits_format sbg_format(enum ggml_type type);
bool sbg_is_float(enum ggml_type type);
/* The four dims of a tensor of floats, int32 or blocks (the last in bytes), outermost first. Ownership: points into
 * `view` and the tensor. */
void sbg_view_of(const struct ggml_tensor *tensor, sbg_view *view);
/* Rows of a tensor's first matrix as samebits_weights_prepare wants them, read from `data`. */
void sbg_rows_of(const struct ggml_tensor *tensor, const void *data, sbg_view *view);
/* `count` contiguous numbers. */
void sbg_vector_of(const float *data, int64_t count, sbg_view *view);

/* Swaps two dims of a view. */
void sbg_swap_dims(sbg_view *view, int a, int b);
/* An op's parameter that is a float. */
float sbg_param(const struct ggml_tensor *op, int index);

/* An op that another backend computes; op is NULL for none. */
typedef struct sbg_left {
    const char *op, *type;
    char name[GGML_MAX_NAME];
} sbg_left;

typedef struct sbg_backend {
    const sbg_options *options;
    samebits_context *samebits;
    sbg_arena arena;
    ggml_abort_callback abort;
    void *abort_data;
    struct ggml_backend_device device; /* this backend's face of the device */
    bool planned;                      /* a graph has been planned */
    bool probed;                       /* llama.cpp is about to ask where flash attention would run (device.c) */
    bool declined;                     /* it was told: not here, and has not asked again */
    bool asked;                        /* strict mode: about an op, since the last plan */
    sbg_left refused;                  /* the first such op that is left and may move bits */
    sbg_left stock;                    /* the same of the last plan */
} sbg_backend;

/* An op that this backend takes. */
typedef struct sbg_op {
    enum ggml_op op;
    bool (*supports)(const struct ggml_tensor *op);
    samebits_status (*compute)(sbg_backend *backend, struct ggml_tensor *op);
} sbg_op;

/* product.c, attention.c, rope.c, elementwise.c */
extern const sbg_op sbg_mul_mat, sbg_mul_mat_id, sbg_get_rows, sbg_attention, sbg_softmax, sbg_rope, sbg_elementwise[];
extern const int sbg_elementwise_count;

/* ops.c: all of them. */
bool sbg_supports(const struct ggml_tensor *op);
/* Whether the CPU backend's version of an op may give other bits to the same row. */
bool sbg_stock_moves(enum ggml_op op);
samebits_status sbg_compute(sbg_backend *backend, struct ggml_tensor *op);

#endif
