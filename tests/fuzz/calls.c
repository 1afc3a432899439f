#include "calls.h"

enum { CACHE_DEPTH = 32 };

/* GGUF blocks that caches may hold. */
static const samebits_format cache_formats[] = {SAMEBITS_FORMAT_Q8_0, SAMEBITS_FORMAT_Q4_0, SAMEBITS_FORMAT_Q4_1,
                                                SAMEBITS_FORMAT_Q5_0, SAMEBITS_FORMAT_Q5_1, SAMEBITS_FORMAT_IQ4_NL};

static samebits_format cache_format(const scene *s) { return cache_formats[(unsigned)s->format % 6]; }

static samebits_format scaled_format(const scene *s)
{
    return (samebits_format)(SAMEBITS_FORMAT_MLX_MXFP4 + (unsigned)s->format % 3);
}

/* A row of weights of s->format, one block if it has blocks. */
static int64_t depth(const scene *s)
{
    const int64_t block = samebits_format_block(s->format);
    return block > 1 ? block : s->k;
}

static int64_t row_bytes(samebits_format format, int64_t k)
{
    size_t size = 1;
    (void)samebits_format_row_size(format, k, &size);
    return (int64_t)size;
}

DLDataType scene_dtype(const scene *s, char letter)
{
    static const DLDataType f32 = {kDLFloat, 32, 1}, f16 = {kDLFloat, 16, 1}, bf16 = {kDLBfloat, 16, 1};
    static const DLDataType u8 = {kDLUInt, 8, 1}, i32 = {kDLInt, 32, 1}, u32 = {kDLUInt, 32, 1};
    switch (letter) {
    case 'f': return s->type;
    case 'd': return s->wide;
    case 'o': return s->wide.bits == 16 ? f32 : s->wide; /* an output of dense products, and what is added */
    case 'w':
        return s->format == SAMEBITS_FORMAT_F32    ? f32
               : s->format == SAMEBITS_FORMAT_F16  ? f16
               : s->format == SAMEBITS_FORMAT_BF16 ? bf16
                                                   : u8;
    case 'b': return u8;
    case 'i': return i32;
    case 'u': return u32;
    default: return f32; /* 'F' */
    }
}

int64_t scene_size(const scene *s, char letter)
{
    const int mlx8 = scaled_format(s) == SAMEBITS_FORMAT_MLX_MXFP8;
    switch (letter) {
    case 'M': return s->m;
    case 'N': return s->n;
    case 'K': return s->k;
    case 'H': return s->heads;
    case 'E': return s->experts;
    case 'T': return s->top;
    case 'D': return depth(s); /* weights of a format, and their row as it lies */
    case 'R': return samebits_format_block(s->format) > 1 ? row_bytes(s->format, depth(s)) : depth(s);
    case 'A': return s->group; /* affine weights: one group, its words */
    case 'W': return s->group * s->bits / 32;
    case 'L': return 32; /* scaled weights: 32 of them, their words, their scales */
    case 'P': return mlx8 ? 8 : 4;
    case 'S': return scaled_format(s) == SAMEBITS_FORMAT_MLX_NVFP4 ? 2 : 1;
    case 'C': return CACHE_DEPTH;
    case 'Q': return row_bytes(cache_format(s), CACHE_DEPTH);
    default: return letter - '0';
    }
}

/* --- products --- */

static const samebits_epilogue *epilogue(scene *s, samebits_epilogue *e)
{
    if (choose(&s->b, 3) == 0) return NULL;
    samebits_epilogue_default(e);
    e->struct_size = hostile_struct_size(&s->b, sizeof *e);
    e->alpha = hostile_float(&s->b);
    e->beta = hostile_float(&s->b);
    if (choose(&s->b, 2)) e->c = s->t[3];
    if (choose(&s->b, 2)) e->bias = s->t[4];
    e->activation = (samebits_activation)((int)choose(&s->b, SAMEBITS_ACTIVATION_COUNT + 2) - 1);
    return e;
}

static samebits_order order(scene *s) { return (samebits_order)choose(&s->b, 4); }

static samebits_status matmul(scene *s)
{
    samebits_epilogue e;
    return samebits_matmul(s->context, s->t[1], s->t[2], epilogue(s, &e), s->t[0]);
}

static samebits_status linear(scene *s)
{
    samebits_epilogue e;
    return samebits_linear(s->context, s->t[1], s->t[2], epilogue(s, &e), s->t[0]);
}

static samebits_status addmm(scene *s)
{
    const float alpha = hostile_float(&s->b), beta = hostile_float(&s->b);
    return samebits_addmm(s->context, s->t[3], s->t[1], s->t[2], alpha, beta, s->t[0]);
}

static samebits_status quantized(scene *s)
{
    samebits_epilogue e;
    return samebits_matmul_quantized(s->context, s->t[1], s->t[2], s->format, order(s), epilogue(s, &e), s->t[0]);
}

static samebits_status affine(scene *s, int transpose)
{
    samebits_epilogue e;
    const int bits = choose(&s->b, 20) ? s->bits : (int)choose(&s->b, 34) - 1;
    const int group = choose(&s->b, 20) ? s->group : (int)hostile_size(&s->b);
    const samebits_order o = transpose ? order(s) : SAMEBITS_ORDER_PORTABLE_1;
    return samebits_matmul_affine(s->context, s->t[1], s->t[2], s->t[5], s->t[5], bits, group, transpose, o,
                                  epilogue(s, &e), s->t[0]);
}

static samebits_status affine_along_k(scene *s) { return affine(s, 1); }
static samebits_status affine_along_n(scene *s) { return affine(s, 0); }

static samebits_status scaled(scene *s, int transpose)
{
    samebits_epilogue e;
    const samebits_format format = choose(&s->b, 20) ? scaled_format(s) : s->format;
    const samebits_order o = transpose ? order(s) : SAMEBITS_ORDER_PORTABLE_1;
    return samebits_matmul_scaled(s->context, s->t[1], s->t[2], s->t[5], format, transpose, o, epilogue(s, &e),
                                  s->t[0]);
}

static samebits_status scaled_along_k(scene *s) { return scaled(s, 1); }
static samebits_status scaled_along_n(scene *s) { return scaled(s, 0); }

/* --- prepared weights --- */

/* What is restored ends up here. */
static uint8_t restored[3][1 << 16];

static samebits_status prepare(scene *s, samebits_weights **w)
{
    const samebits_status status = samebits_weights_prepare(s->context, s->t[2], s->format, NULL, w);
    REQUIRE(!status == (*w != NULL));
    return status;
}

static samebits_status linear_prepared(scene *s)
{
    samebits_epilogue e;
    samebits_weights *w = NULL;
    samebits_status status = prepare(s, &w);
    if (!status) status = samebits_linear_prepared(s->context, s->t[1], w, order(s), epilogue(s, &e), s->t[0]);
    samebits_weights_destroy(&w);
    return status;
}

static samebits_status embedding_prepared(scene *s)
{
    samebits_weights *w = NULL;
    samebits_status status = prepare(s, &w);
    if (!status) status = samebits_embedding_prepared(s->context, w, s->t[5], s->t[0]);
    samebits_weights_destroy(&w);
    return status;
}

static samebits_status gather_prepared(scene *s)
{
    samebits_epilogue e;
    samebits_weights *w[3] = {0};
    samebits_status status = SAMEBITS_OK;
    for (int i = 0; i < s->experts && !status; i++) status = prepare(s, &w[i]);
    const samebits_weights *const experts[] = {w[0], w[1], w[2]};
    const int64_t count = choose(&s->b, 20) ? s->experts : -(int64_t)choose(&s->b, 2);
    if (!status)
        status = samebits_gather_prepared(s->context, s->t[1], choose(&s->b, 20) ? experts : NULL, count, s->t[5],
                                          order(s), epilogue(s, &e), s->t[0]);
    for (int i = 0; i < 3; i++) samebits_weights_destroy(&w[i]);
    return status;
}

static samebits_status restore(scene *s)
{
    samebits_weights *w = NULL;
    samebits_status status = prepare(s, &w);
    const int64_t rows = samebits_weights_rows(w), size = row_bytes(s->format, samebits_weights_depth(w));
    const int64_t first = choose(&s->b, 2) ? 0 : hostile_size(&s->b);
    const int64_t count = choose(&s->b, 2) ? rows : hostile_size(&s->b);
    const int64_t stride = size - 1 + choose(&s->b, 4);
    if (!status && rows < 64)
        status = choose(&s->b, 2) ? samebits_weights_restore(w, choose(&s->b, 20) ? restored[0] : NULL, (size_t)stride)
                                  : samebits_weights_restore_rows(w, first, count, restored[0], (size_t)stride);
    REQUIRE(samebits_weights_restore_scaled(w, restored[0], restored[1])); /* they are of no such format */
    samebits_weights_destroy(&w);
    return status;
}

static samebits_status prepare_affine(scene *s)
{
    samebits_weights *w = NULL;
    samebits_affine a = {0};
    const int bits = choose(&s->b, 20) ? s->bits : (int)choose(&s->b, 34) - 1;
    const int group = choose(&s->b, 20) ? s->group : (int)hostile_size(&s->b);
    samebits_status status =
        samebits_weights_prepare_affine(s->context, s->t[2], s->t[5], s->t[4], bits, group, NULL, &w);
    REQUIRE(!status == (w != NULL));
    if (!status) {
        REQUIRE(!samebits_weights_affine(w, &a) && a.bits == bits && a.group == group);
        status = samebits_weights_restore_affine(w, restored[0], restored[1], choose(&s->b, 9) ? restored[2] : NULL);
    }
    samebits_weights_destroy(&w);
    return status;
}

static samebits_status prepare_scaled(scene *s)
{
    samebits_weights *w = NULL;
    const samebits_format format = choose(&s->b, 20) ? scaled_format(s) : s->format;
    samebits_status status = samebits_weights_prepare_scaled(s->context, s->t[2], s->t[5], format, NULL, &w);
    REQUIRE(!status == (w != NULL));
    if (!status) status = samebits_weights_restore_scaled(w, restored[0], choose(&s->b, 9) ? restored[1] : NULL);
    if (!status) status = samebits_linear_prepared(s->context, s->t[1], w, order(s), NULL, s->t[0]);
    samebits_weights_destroy(&w);
    return status;
}

static samebits_status gather_linear(scene *s)
{
    samebits_epilogue e;
    return samebits_gather_linear(s->context, s->t[1], s->t[2], s->format, s->t[5], order(s), epilogue(s, &e), s->t[0]);
}

static samebits_status embedding(scene *s)
{
    return samebits_embedding(s->context, s->t[2], s->format, s->t[5], s->t[0]);
}

/* --- attention, softmax --- */

static samebits_status attention_of(scene *s, samebits_format format)
{
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.struct_size = hostile_struct_size(&s->b, sizeof p);
    p.scale = hostile_float(&s->b);
    p.softcap = choose(&s->b, 3) ? 0.0f : hostile_float(&s->b);
    p.causal = (int)choose(&s->b, 2);
    p.window = (int64_t)choose(&s->b, 6) - 1;
    p.k_format = p.v_format = format;
    const unsigned parts = choose(&s->b, 32);
    if (parts & 1) p.mask = s->t[3];
    if (parts & 2) p.sinks = s->t[4];
    if (parts & 4) p.key_index = s->t[5];
    if (parts & 8) p.key_length = s->t[4];
    if (parts & 16) p.slopes = s->t[4];
    return samebits_attention(s->context, s->t[1], s->t[2], s->t[2], choose(&s->b, 4) ? &p : NULL, s->t[0]);
}

static samebits_status attention(scene *s) { return attention_of(s, SAMEBITS_FORMAT_Q8_0); }

static samebits_status attention_blocks(scene *s)
{
    return attention_of(s, choose(&s->b, 20) ? cache_format(s) : s->format);
}

static samebits_status softmax(scene *s)
{
    samebits_softmax_params p;
    samebits_softmax_params_default(&p);
    p.struct_size = hostile_struct_size(&s->b, sizeof p);
    p.scale = hostile_float(&s->b);
    if (choose(&s->b, 2)) p.mask = s->t[3];
    if (choose(&s->b, 2)) p.sinks = s->t[4];
    if (choose(&s->b, 2)) p.slopes = s->t[5];
    return samebits_softmax(s->context, s->t[1], choose(&s->b, 4) ? &p : NULL, s->t[0]);
}

/* --- norms --- */

static const DLTensor *perhaps(scene *s, int tensor) { return choose(&s->b, 2) ? s->t[tensor] : NULL; }

static samebits_status rms_norm(scene *s)
{
    return samebits_rms_norm(s->context, s->t[1], perhaps(s, 3), hostile_float(&s->b), s->t[0]);
}

static samebits_status layer_norm(scene *s)
{
    const DLTensor *weight = perhaps(s, 3), *bias = perhaps(s, 4);
    return samebits_layer_norm(s->context, s->t[1], weight, bias, hostile_float(&s->b), s->t[0]);
}

static samebits_status l2_norm(scene *s)
{
    return samebits_l2_norm(s->context, s->t[1], hostile_float(&s->b), s->t[0]);
}

static samebits_status group_norm(scene *s)
{
    const int64_t groups = choose(&s->b, 3) ? s->m : hostile_size(&s->b);
    const DLTensor *weight = perhaps(s, 3), *bias = perhaps(s, 4);
    return samebits_group_norm(s->context, s->t[1], groups, weight, bias, hostile_float(&s->b), s->t[0]);
}

static samebits_status add_rms_norm(scene *s)
{
    const DLTensor *weight = perhaps(s, 4);
    return samebits_add_rms_norm(s->context, s->t[2], s->t[3], weight, hostile_float(&s->b), s->t[1], s->t[0]);
}

static samebits_status add_layer_norm(scene *s)
{
    const DLTensor *weight = perhaps(s, 4), *bias = perhaps(s, 5);
    return samebits_add_layer_norm(s->context, s->t[2], s->t[3], weight, bias, hostile_float(&s->b), s->t[1], s->t[0]);
}

/* --- element by element, rope, sampling --- */

static samebits_activation activation(scene *s)
{
    return (samebits_activation)((int)choose(&s->b, SAMEBITS_ACTIVATION_COUNT + 2) - 1);
}

static samebits_status activate(scene *s) { return samebits_activate(s->context, s->t[1], activation(s), s->t[0]); }

static samebits_status gated(scene *s) { return samebits_gated(s->context, s->t[1], s->t[2], activation(s), s->t[0]); }

static samebits_status scale(scene *s)
{
    const float by = hostile_float(&s->b), plus = hostile_float(&s->b);
    return samebits_scale(s->context, s->t[1], by, plus, s->t[0]);
}

static samebits_status rope(scene *s)
{
    samebits_rope_params p;
    samebits_rope_params_default(&p);
    p.struct_size = hostile_struct_size(&s->b, sizeof p);
    p.layout = (samebits_rope_layout)choose(&s->b, SAMEBITS_ROPE_LAYOUT_COUNT + 1);
    if (choose(&s->b, 4) == 0) p.dims = hostile_size(&s->b);
    if (choose(&s->b, 4) == 0) p.first = hostile_size(&s->b);
    if (choose(&s->b, 4) == 0) p.base = hostile_float(&s->b);
    if (choose(&s->b, 4) == 0) p.magnitude = hostile_float(&s->b);
    if (choose(&s->b, 4) == 0) p.factor = s->t[3];
    if (choose(&s->b, 4) == 0) {
        p.extrapolation = hostile_float(&s->b);
        p.original_context = hostile_size(&s->b);
    }
    const int sections = choose(&s->b, 4) == 0;
    if (sections) p.sections = (samebits_rope_sections)choose(&s->b, SAMEBITS_ROPE_SECTIONS_COUNT + 1);
    for (int i = 0; i < 4 && sections; i++) p.section[i] = choose(&s->b, 9) ? i < 2 : hostile_size(&s->b);
    p.inverse = (int)choose(&s->b, 2);
    return samebits_rope(s->context, s->t[1], s->t[sections ? 5 : 4], choose(&s->b, 4) ? &p : NULL, s->t[0]);
}

static samebits_status top_k(scene *s)
{
    DLTensor *value = choose(&s->b, 4) ? s->t[0] : NULL, *index = choose(&s->b, 4) ? s->t[1] : NULL;
    return samebits_top_k(s->context, s->t[2], value, index);
}

static samebits_status sample(scene *s)
{
    samebits_sampling_params p;
    samebits_sampling_params_default(&p);
    p.struct_size = hostile_struct_size(&s->b, sizeof p);
    p.temperature = hostile_float(&s->b);
    if (choose(&s->b, 2)) p.top_k = hostile_size(&s->b);
    if (choose(&s->b, 2)) p.top_p = hostile_float(&s->b);
    if (choose(&s->b, 2)) p.min_p = hostile_float(&s->b);
    return samebits_sample(s->context, s->t[1], choose(&s->b, 4) ? &p : NULL, s->t[2], s->t[0]);
}

/* --- without tensors --- */

static samebits_status sizes(scene *s)
{
    size_t size = 0;
    size_t *to = choose(&s->b, 9) ? &size : NULL;
    const samebits_format format = (samebits_format)((int)choose(&s->b, SAMEBITS_FORMAT_COUNT + 2) - 1);
    const int64_t n = hostile_size(&s->b), k = 32 * (hostile_size(&s->b) / 32) + hostile_size(&s->b) % 32;
    const samebits_affine a = {s->bits, s->group, format};
    switch (choose(&s->b, 4)) {
    case 0: return samebits_format_row_size(format, k, to);
    case 1: return samebits_weights_size(format, n, k, to);
    case 2: return samebits_weights_size_scaled(format, n, k, to);
    default: return samebits_weights_size_affine(choose(&s->b, 9) ? &a : NULL, n, k, to);
    }
}

static samebits_status modes(scene *s)
{
    samebits_mode_params p;
    samebits_route route;
    samebits_mode_params_default(&p);
    p.struct_size = hostile_struct_size(&s->b, sizeof p);
    p.limit = hostile_size(&s->b);
    p.strict = (int)choose(&s->b, 2);
    samebits_status status = samebits_mode_begin(&p);
    if (status) return status;
    status = samebits_mode_route(choose(&s->b, 9) ? "op" : NULL, hostile_size(&s->b), (int)choose(&s->b, 2), &route);
    REQUIRE(samebits_mode_end() == SAMEBITS_OK);
    return status;
}

static samebits_status limits(scene *s)
{
    samebits_mode_report report = {0};
    const samebits_status status = samebits_limit_set(hostile_size(&s->b));
    REQUIRE(samebits_limit() >= 0 && samebits_mode_depth() >= 0);
    REQUIRE(samebits_limit_set(0) == SAMEBITS_OK);
    if (choose(&s->b, 9) == 0) samebits_mode_counts_reset();
    return status ? status : samebits_mode_counts(choose(&s->b, 9) ? &report : NULL);
}

/* Of anything, and of no context. */
static samebits_status names(scene *s)
{
    const int any = (int)hostile_size(&s->b);
    const samebits_context *context = choose(&s->b, 2) ? s->context : NULL;
    REQUIRE(*samebits_format_name((samebits_format)any) && *samebits_order_name((samebits_order)any));
    REQUIRE(*samebits_cpu_name((samebits_cpu)any) && *samebits_status_name((samebits_status)any));
    REQUIRE(samebits_cpu_extras(context) && *samebits_version());
    (void)samebits_context_cpu(context);
    (void)samebits_context_threads(context);
    (void)samebits_device_order(context, (samebits_format)any);
    REQUIRE(samebits_weights_format(NULL) == SAMEBITS_FORMAT_COUNT);
    return SAMEBITS_OK;
}

static samebits_status threads(scene *s)
{
    const samebits_status status = samebits_context_set_threads(s->context, (int)hostile_size(&s->b));
    REQUIRE(samebits_context_set_threads(s->context, 1) == SAMEBITS_OK);
    return status;
}

const form forms[] = {
    {{"oMN", "dMK", "dKN", "oMN", "oN"}, 1, .call = matmul},
    {{"oMN", "dMK", "dNK", "oMN", "oN"}, 1, .call = linear},
    {{"oMN", "dMK", "dKN", "oMN"}, 1, .call = addmm},
    {{"FMN", "fMD", "wNR", "FMN", "FN"}, 1, .call = linear_prepared},
    {{"FMN", "fMD", "wNR", "FMN", "FN"}, 1, .call = quantized},
    {{"FMN", "fMA", "uNW", "FMN", "FN", "fN1"}, 1, .call = affine_along_k},
    {{"FMA", "fMK", "uKW", "FMA", "FA", "fK1"}, 1, .call = affine_along_n},
    {{"FMN", "fML", "uNP", "FMN", "FN", "bNS"}, 1, .call = scaled_along_k},
    {{"FML", "fMK", "uKP", "FML", "FL", "bKS"}, 1, .call = scaled_along_n},
    {{NULL, NULL, "wNR"}, 0, .call = restore},
    {{NULL, NULL, "uNW", NULL, "fN1", "fN1"}, 0, .call = prepare_affine},
    {{"FMN", "fML", "uNP", NULL, NULL, "bNS"}, 1, .call = prepare_scaled},
    {{"FMN", "fMD", "wNR", "FMN", "FN", "iM"}, 1, .call = gather_prepared},
    {{"FMN", "fMD", "wENR", "FMN", "FN", "iM"}, 1, .call = gather_linear},
    {{"fMD", NULL, "wNR", NULL, NULL, "iM"}, 1, .call = embedding},
    {{"fMD", NULL, "wNR", NULL, NULL, "iM"}, 1, .call = embedding_prepared},
    {{"f2HMK", "f2HMK", "f21NK", "FMN", "FH", "i2N"}, 1, .call = attention},
    {{"f2HMK", "f2HMK", "f21NK", "FMN", "i2", "i2N"}, 1, .call = attention},
    {{"f2HMC", "f2HMC", "b21NQ", "FMN", "FH", "i2N"}, 1, .call = attention_blocks},
    {{"f2MN", "f2MN", NULL, "FN", "F2", "F2"}, 1, .call = softmax},
    {{"f2MN", "f2MN"}, 1, .unary = samebits_log_softmax},
    {{"f2M", "f2MN"}, 1, .unary = samebits_logsumexp, .walks = 1},
    {{"f2M", "f2MN", "i2M"}, 1, .binary = samebits_log_likelihood, .walks = 1},
    {{"f2M", "f2MN", "i2M"}, 1, .binary = samebits_cross_entropy, .walks = 1},
    {{"f2M", "f2MN"}, 1, .unary = samebits_sum, .walks = 1},
    {{"f2M", "f2MN"}, 1, .unary = samebits_mean, .walks = 1},
    {{"f2M", "f2MN"}, 1, .unary = samebits_max, .walks = 1},
    {{"i2M", "f2MN"}, 1, .unary = samebits_argmax, .walks = 1},
    {{"f2MN", "f2MN", NULL, "FN"}, 1, .call = rms_norm},
    {{"f2MN", "f2MN", NULL, "FN", "FN"}, 1, .call = layer_norm},
    {{"f2MN", "f2MN"}, 1, .call = l2_norm},
    {{"f2MN", "f2MN", NULL, "FM", "FM"}, 1, .call = group_norm},
    {{"f2MN", "f2MN", "f2MN", "f2MN", "FN"}, 2, .call = add_rms_norm},
    {{"f2MN", "f2MN", "f2MN", "f2MN", "FN", "FN"}, 2, .call = add_layer_norm},
    {{"f2MN", "f2MN"}, 1, .call = activate},
    {{"f2MN", "f2MN", "fN"}, 1, .call = gated},
    {{"f2MN", "f2MN", "fN"}, 1, .binary = samebits_add},
    {{"f2MN", "f2MN", "f2M1"}, 1, .binary = samebits_sub},
    {{"f2MN", "f2MN", "fMN"}, 1, .binary = samebits_mul},
    {{"f2MN", "f2MN", "f2MN"}, 1, .binary = samebits_div},
    {{"f2MN", "f2MN"}, 1, .call = scale},
    {{"f2M4", "f2M4", NULL, "F2", "iM", "i4M"}, 1, .call = rope},
    {{"f2T", "i2T", "f2N"}, 2, .call = top_k, .walks = 1},
    {{"i2", "f2N", "u24"}, 1, .call = sample, .walks = 1},
    {{0}, 0, .call = sizes},
    {{0}, 0, .call = modes},
    {{0}, 0, .call = limits},
    {{0}, 0, .call = names},
    {{0}, 0, .call = threads},
};
const unsigned form_count = sizeof forms / sizeof *forms;
