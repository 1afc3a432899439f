/* The buffer type of weights: a weight is packed when it is written and unpacked when it is read back.
 *
 * llama.cpp offers every weight to the accelerator's buffer type first and asks whether the device can run
 * the op that uses it; only matrix products say yes, so embeddings and norms stay in the CPU's buffers. The
 * type is not host memory: no other backend reads a packed weight, the scheduler copies it (unpacked)
 * instead. Whatever is not a whole matrix, or stack of them, of a known format lies in the buffer as it was given. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

enum { ALIGNMENT = 64, PART_BYTES = 16 << 20, PART_ROWS = 64 /* parts begin at multiples of it */ };

typedef struct {
    void *memory;
    sbg_packed **packed; /* owned; a packed tensor's extra is one of them */
    size_t count, capacity;
} storage;

static struct {
    struct ggml_backend_buffer_type type;
    samebits_context *context; /* packs */
} ours;

bool sbg_is_our_type(ggml_backend_buffer_type_t type) { return type == &ours.type; }

static struct ggml_tensor *owner_of(const struct ggml_tensor *tensor)
{
    return tensor->view_src ? tensor->view_src : (struct ggml_tensor *)tensor;
}

const sbg_packed *sbg_packed_of(const struct ggml_tensor *tensor)
{
    const struct ggml_tensor *owner = owner_of(tensor);
    return owner->buffer && sbg_is_our_type(owner->buffer->buft) ? owner->extra : NULL;
}

bool sbg_packable(const struct ggml_tensor *t)
{
    const samebits_format format = sbg_format(t->type);
    return t->op == GGML_OP_NONE && !t->view_src && format != SAMEBITS_FORMAT_COUNT && t->ne[3] == 1 && t->ne[2] > 0 &&
           t->ne[0] > 0 && t->ne[1] > 0 && t->ne[0] % samebits_format_block(format) == 0 && sbg_ggml.is_contiguous(t);
}

/* --- packing --- */

static int64_t part_rows(const struct ggml_tensor *t)
{
    const int64_t rows = PART_BYTES / (int64_t)t->nb[1] / PART_ROWS * PART_ROWS;
    return rows > PART_ROWS ? rows : PART_ROWS;
}

/* Bytes of a part in storage. */
static size_t part_size(const struct ggml_tensor *t, int64_t rows)
{
    size_t size = 0;
    samebits_weights_size(sbg_format(t->type), rows, t->ne[0], &size);
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t packed_size(const struct ggml_tensor *t)
{
    const int64_t rows = part_rows(t), rest = t->ne[1] % rows;
    return (size_t)t->ne[2] * ((size_t)(t->ne[1] / rows) * part_size(t, rows) + (rest ? part_size(t, rest) : 0));
}

static void destroy(sbg_packed *packed)
{
    for (int i = 0; i < packed->count; i++) samebits_weights_destroy(&packed->part[i]);
    free(packed);
}

/* Room for one more in the list of what the buffer owns. */
static bool reserve(storage *s)
{
    if (s->count < s->capacity) return true;
    const size_t capacity = s->capacity ? 2 * s->capacity : 64;
    sbg_packed **grown = realloc(s->packed, capacity * sizeof *grown);
    if (!grown) return false;
    s->packed = grown;
    s->capacity = capacity;
    return true;
}

static bool pack_part(sbg_packed *packed, int index, const struct ggml_tensor *tensor, const char *data, int64_t rows,
                      char *out)
{
    sbg_view view;
    sbg_rows_of(tensor, data, &view);
    view.shape[0] = rows;
    return samebits_weights_prepare(ours.context, &view.tensor, sbg_format(tensor->type), out, &packed->part[index]) ==
           SAMEBITS_OK;
}

static bool pack(storage *s, struct ggml_tensor *tensor, const char *data)
{
    const int64_t rows = part_rows(tensor), parts = (tensor->ne[1] + rows - 1) / rows;
    const int64_t matrices = tensor->ne[2], total = matrices * parts;
    sbg_packed *packed = calloc(1, sizeof *packed + (size_t)total * sizeof *packed->part);
    if (!packed || !reserve(s)) {
        free(packed);
        return false;
    }
    packed->rows = rows;
    packed->count = (int)total;
    packed->matrices = (int)matrices;
    const bool from_file = sbg_is_file(data, sbg_ggml.nbytes(tensor));
    char *out = tensor->data;
    for (int64_t i = 0; i < total; i++) {
        const int64_t matrix = i / parts, part = i % parts, left = tensor->ne[1] - part * rows;
        const int64_t count = left < rows ? left : rows;
        if (!pack_part(packed, (int)(part * matrices + matrix), tensor, data, count, out)) {
            sbg_error("%s is not packed: %s\n", tensor->name, samebits_last_error());
            destroy(packed);
            return false;
        }
        out += part_size(tensor, count);
        if (from_file) sbg_release_file(data, (size_t)count * tensor->nb[1]);
        data += (size_t)count * tensor->nb[1];
    }
    s->packed[s->count++] = packed;
    tensor->extra = packed;
    return true;
}

static void forget(storage *s, struct ggml_tensor *owner)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->packed[i] == owner->extra) {
            destroy(s->packed[i]);
            s->packed[i] = s->packed[--s->count];
            break;
        }
    owner->extra = NULL;
}

/* The bytes of a packed tensor as they were given; NULL, logged, without memory. The caller frees them. */
static char *unpack(const struct ggml_tensor *owner)
{
    const sbg_packed *packed = owner->extra;
    char *bytes = malloc(sbg_ggml.nbytes(owner));
    if (!bytes) sbg_error("out of memory: %s cannot be read back\n", owner->name);
    char *out = bytes;
    const int parts = packed->count / packed->matrices;
    for (int i = 0; bytes && i < packed->count; i++) {
        const samebits_weights *part = packed->part[i % parts * packed->matrices + i / parts];
        samebits_weights_restore(part, out, owner->nb[1]);
        out += samebits_weights_rows(part) * (int64_t)owner->nb[1];
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

/* --- the buffer --- */

static void buffer_free(ggml_backend_buffer_t buffer)
{
    storage *s = buffer->context;
    while (s->count) destroy(s->packed[--s->count]);
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
    if (make_plain(buffer->context, owner_of(tensor))) memset((char *)tensor->data + offset, value, size);
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
    if (make_plain(s, owner_of(tensor))) memcpy((char *)tensor->data + offset, data, size);
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

/* A packed weight's rows are padded to whole panels. */
static size_t type_alloc_size(ggml_backend_buffer_type_t type, const struct ggml_tensor *tensor)
{
    (void)type;
    const size_t plain = sbg_ggml.nbytes(tensor), packed = sbg_packable(tensor) ? packed_size(tensor) : 0;
    return packed > plain ? packed : plain;
}

static bool type_is_host(ggml_backend_buffer_type_t type)
{
    (void)type;
    return false;
}

ggml_backend_buffer_type_t sbg_buffer_type(ggml_backend_dev_t device, samebits_context *context)
{
    if (ours.context) return &ours.type;
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
