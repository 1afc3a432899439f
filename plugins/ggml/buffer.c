/* The buffer type of weights: a weight is packed when it is written and unpacked when it is read back.
 *
 * llama.cpp offers every weight to the accelerator's buffer type first and asks whether the device can run
 * the op that uses it; only matrix products say yes, so embeddings and norms stay in the CPU's buffers. The
 * type is not host memory: no other backend reads a packed weight, the scheduler copies it (unpacked)
 * instead. Whatever is not a whole 2-D weight of a known format lies in the buffer as it was given. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

enum { ALIGNMENT = 64 };

typedef struct {
    void *memory;
    samebits_weights **packed; /* owned; a packed tensor's extra is one of them */
    size_t count, capacity;
} storage;

static struct {
    struct ggml_backend_buffer_type type;
    samebits_context *context; /* packs */
} ours;

bool sbg_is_our_type(ggml_backend_buffer_type_t type) { return type == &ours.type; }

static const struct ggml_tensor *owner_of(const struct ggml_tensor *tensor)
{
    return tensor->view_src ? tensor->view_src : tensor;
}

const samebits_weights *sbg_packed(const struct ggml_tensor *tensor)
{
    const struct ggml_tensor *owner = owner_of(tensor);
    return owner->buffer && sbg_is_our_type(owner->buffer->buft) ? owner->extra : NULL;
}

bool sbg_packable(const struct ggml_tensor *t)
{
    const samebits_format format = sbg_format(t->type);
    return t->op == GGML_OP_NONE && !t->view_src && format != SAMEBITS_FORMAT_COUNT && t->ne[2] == 1 &&
           t->ne[3] == 1 && t->ne[0] > 0 && t->ne[1] > 0 && t->ne[0] % samebits_format_block(format) == 0 &&
           sbg_ggml.is_contiguous(t);
}

static bool remember(storage *s, samebits_weights *weights)
{
    if (s->count == s->capacity) {
        const size_t capacity = s->capacity ? 2 * s->capacity : 64;
        samebits_weights **grown = realloc(s->packed, capacity * sizeof *grown);
        if (!grown) return false;
        s->packed = grown;
        s->capacity = capacity;
    }
    s->packed[s->count++] = weights;
    return true;
}

static void forget(storage *s, struct ggml_tensor *owner)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->packed[i] == owner->extra) {
            samebits_weights_destroy(&s->packed[i]);
            s->packed[i] = s->packed[--s->count];
            break;
        }
    owner->extra = NULL;
}

static void forget_all(storage *s)
{
    while (s->count) samebits_weights_destroy(&s->packed[--s->count]);
}

static bool pack(storage *s, struct ggml_tensor *tensor, const void *data)
{
    sbg_view rows;
    sbg_rows_of(tensor, data, &rows);
    samebits_weights *weights;
    if (samebits_weights_prepare(ours.context, &rows.tensor, sbg_format(tensor->type), tensor->data, &weights)) {
        sbg_error("%s is not packed: %s\n", tensor->name, samebits_last_error());
        return false;
    }
    if (!remember(s, weights)) {
        samebits_weights_destroy(&weights);
        return false;
    }
    tensor->extra = weights;
    return true;
}

/* The bytes of a packed tensor as they were given; NULL without memory. The caller frees them. */
static char *unpack(const struct ggml_tensor *owner)
{
    char *bytes = malloc(sbg_ggml.nbytes(owner));
    if (!bytes || samebits_weights_restore(owner->extra, bytes, owner->nb[1])) {
        sbg_error("cannot unpack %s: %s\n", owner->name, bytes ? samebits_last_error() : "out of memory");
        free(bytes);
        return NULL;
    }
    return bytes;
}

/* Makes a tensor lie plain in the buffer again. */
static bool make_plain(storage *s, struct ggml_tensor *owner)
{
    if (!owner->extra) return true;
    char *bytes = unpack(owner);
    if (!bytes) return false;
    forget(s, owner);
    memcpy(owner->data, bytes, sbg_ggml.nbytes(owner));
    free(bytes);
    return true;
}

static void buffer_free(ggml_backend_buffer_t buffer)
{
    storage *s = buffer->context;
    forget_all(s);
    free(s->packed);
    free(s->memory);
    free(s);
}

static void *buffer_base(ggml_backend_buffer_t buffer) { return ((storage *)buffer->context)->memory; }

static enum ggml_status buffer_init_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor)
{
    (void)buffer;
    tensor->extra = NULL;
    return GGML_STATUS_SUCCESS;
}

static void buffer_memset(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, uint8_t value, size_t offset,
                          size_t size)
{
    if (make_plain(buffer->context, (struct ggml_tensor *)owner_of(tensor)))
        memset((char *)tensor->data + offset, value, size);
}

static void buffer_set(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, const void *data, size_t offset,
                       size_t size)
{
    storage *s = buffer->context;
    const bool whole = offset == 0 && size == sbg_ggml.nbytes(tensor);
    if (whole && sbg_packable(tensor)) {
        forget(s, tensor);
        if (buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS && pack(s, tensor, data)) return;
    }
    if (make_plain(s, (struct ggml_tensor *)owner_of(tensor))) memcpy((char *)tensor->data + offset, data, size);
}

static void buffer_get(ggml_backend_buffer_t buffer, const struct ggml_tensor *tensor, void *data, size_t offset,
                       size_t size)
{
    (void)buffer;
    const struct ggml_tensor *owner = owner_of(tensor);
    if (!owner->extra) {
        memcpy(data, (const char *)tensor->data + offset, size);
        return;
    }
    char *bytes = unpack(owner);
    if (!bytes) return;
    memcpy(data, bytes + ((const char *)tensor->data - (const char *)owner->data) + offset, size);
    free(bytes);
}

static void buffer_clear(ggml_backend_buffer_t buffer, uint8_t value)
{
    memset(((storage *)buffer->context)->memory, value, buffer->size);
}

static const char *type_name(ggml_backend_buffer_type_t type)
{
    (void)type;
    return "samebits";
}

static ggml_backend_buffer_t type_alloc(ggml_backend_buffer_type_t type, size_t size)
{
    static const struct ggml_backend_buffer_i interface = {
        .free_buffer = buffer_free,
        .get_base = buffer_base,
        .init_tensor = buffer_init_tensor,
        .memset_tensor = buffer_memset,
        .set_tensor = buffer_set,
        .get_tensor = buffer_get,
        .clear = buffer_clear,
    };
    storage *s = calloc(1, sizeof *s);
    if (!s || posix_memalign(&s->memory, ALIGNMENT, size)) {
        sbg_error("out of memory: weights need %zu bytes\n", size);
        free(s);
        return NULL;
    }
    return sbg_ggml.buffer_init(type, interface, s, size);
}

static size_t type_alignment(ggml_backend_buffer_type_t type)
{
    (void)type;
    return ALIGNMENT;
}

/* A weight's rows are padded to whole panels. */
static size_t type_alloc_size(ggml_backend_buffer_type_t type, const struct ggml_tensor *tensor)
{
    (void)type;
    const size_t plain = sbg_ggml.nbytes(tensor);
    size_t packed = 0;
    if (sbg_packable(tensor)) samebits_weights_size(sbg_format(tensor->type), tensor->ne[1], tensor->ne[0], &packed);
    return packed > plain ? packed : plain;
}

static bool type_is_host(ggml_backend_buffer_type_t type)
{
    (void)type;
    return false;
}

ggml_backend_buffer_type_t sbg_buffer_type(ggml_backend_dev_t device, samebits_context *context)
{
    ours.type = (struct ggml_backend_buffer_type){
        .iface = {.get_name = type_name,
                  .alloc_buffer = type_alloc,
                  .get_alignment = type_alignment,
                  .get_alloc_size = type_alloc_size,
                  .is_host = type_is_host},
        .device = device,
    };
    ours.context = context;
    return &ours.type;
}
