/* The body of the vector rows. The op is a constant in each copy of the loop, and so are the formats where all are f32.
 */
#ifndef SB_ELEMENTWISE_SIMD_H
#define SB_ELEMENTWISE_SIMD_H

#include "formats/elements_simd.h"
#include "kernels/elementwise/elementwise.h"
#include "order/activation_simd.h"

typedef struct {
    samebits_format x, y, out;
} formats;

SB_INLINE vf result(const sb_elementwise_args *a, sb_elementwise_op op, samebits_activation activation, vf x, vf y)
{
    switch (op) {
    case SB_ELEMENTWISE_GATED: return vf_mul(v_activation(activation, x), y);
    case SB_ELEMENTWISE_ADD: return vf_add(x, y);
    case SB_ELEMENTWISE_SUB: return vf_sub(x, y);
    case SB_ELEMENTWISE_MUL: return vf_mul(x, y);
    case SB_ELEMENTWISE_DIV: return vf_div(x, y);
    case SB_ELEMENTWISE_SCALE: return vf_fma(x, vf_set1(a->scale), vf_set1(a->bias));
    default: return v_activation(activation, x);
    }
}

/* A full vector at i, the first `count` lanes of one, or the one element that stands for all. */
SB_INLINE vf lanes(samebits_format format, const void *p, int step, vf first, int64_t i, int64_t count)
{
    if (!step) return first;
    return count >= SB_VL ? v_elements(format, p, i) : v_elements_part(format, p, i, count, 1.0f);
}

enum { GROUP = 4 };

/* A group of full vectors at i, where no step of the activation needs care; 0 if one does. */
SB_INLINE int normal_group(const sb_elementwise_args *a, sb_elementwise_op op, samebits_activation activation,
                           formats f, vf y0, int64_t i)
{
    vf x[GROUP];
    for (int v = 0; v < GROUP; v++) x[v] = v_elements(f.x, a->x, i + v * SB_VL);
    if (!v_all_within(x, GROUP, v_activation_limit(activation))) return 0;
    SB_UNROLL
    for (int v = 0; v < GROUP; v++) {
        const int64_t at = i + v * SB_VL;
        const vf t = v_activation_normal(activation, x[v]);
        if (op == SB_ELEMENTWISE_GATED)
            v_set_elements(f.out, a->out, at, vf_mul(t, lanes(f.y, a->y, a->y_step, y0, at, SB_VL)));
        else
            v_set_numbers(f.out, a->out, at, t);
    }
    return 1;
}

SB_INLINE void loop(const sb_elementwise_args *a, sb_elementwise_op op, samebits_activation activation, formats f)
{
    if (!a->n) return;
    const int has_y = op != SB_ELEMENTWISE_ACTIVATE && op != SB_ELEMENTWISE_SCALE, x_step = a->x_step;
    const int y_step = has_y && a->y_step;
    const vf x0 = vf_set1(x_step ? 0.0f : sb_element(f.x, a->x, 0));
    const vf y0 = vf_set1(y_step || !has_y ? 0.0f : sb_element(f.y, a->y, 0));
    const int activates = op == SB_ELEMENTWISE_ACTIVATE || op == SB_ELEMENTWISE_GATED;
    const int groups = activates && v_activation_limit(activation) > 0.0f && x_step;
    int64_t i = 0;
    while (i + SB_VL <= a->n) {
        if (groups && i + GROUP * SB_VL <= a->n && normal_group(a, op, activation, f, y0, i)) {
            i += GROUP * SB_VL;
            continue;
        }
        const vf x = lanes(f.x, a->x, x_step, x0, i, SB_VL), y = lanes(f.y, a->y, y_step, y0, i, SB_VL);
        v_set_elements(f.out, a->out, i, result(a, op, activation, x, y));
        i += SB_VL;
    }
    const int64_t left = a->n - i;
    if (!left) return;
    const vf x = lanes(f.x, a->x, x_step, x0, i, left), y = lanes(f.y, a->y, y_step, y0, i, left);
    v_set_elements_part(f.out, a->out, i, left, result(a, op, activation, x, y));
}

SB_INLINE void of_formats(const sb_elementwise_args *a, sb_elementwise_op op, samebits_activation activation)
{
    const samebits_format f32 = SAMEBITS_FORMAT_F32;
    if (a->x_format == f32 && (!a->y || a->y_format == f32) && a->out_format == f32)
        loop(a, op, activation, (formats){f32, f32, f32});
    else
        loop(a, op, activation, (formats){a->x_format, a->y_format, a->out_format});
}

SB_INLINE void of_activation(const sb_elementwise_args *a, sb_elementwise_op op)
{
    switch (a->activation) {
#define CASE(name)                                                                                                     \
    case SAMEBITS_ACTIVATION_##name: of_formats(a, op, SAMEBITS_ACTIVATION_##name); break;
        CASE(RELU)
        CASE(SILU)
        CASE(GELU)
        CASE(GELU_TANH)
        CASE(GELU_QUICK)
        CASE(SIGMOID)
        CASE(TANH)
        CASE(EXP)
#undef CASE
    default: of_formats(a, op, SAMEBITS_ACTIVATION_NONE); break;
    }
}

SB_INLINE void elementwise(const sb_elementwise_args *a)
{
    const samebits_activation none = SAMEBITS_ACTIVATION_NONE;
    switch (a->op) {
    case SB_ELEMENTWISE_GATED: of_activation(a, SB_ELEMENTWISE_GATED); break;
    case SB_ELEMENTWISE_ADD: of_formats(a, SB_ELEMENTWISE_ADD, none); break;
    case SB_ELEMENTWISE_SUB: of_formats(a, SB_ELEMENTWISE_SUB, none); break;
    case SB_ELEMENTWISE_MUL: of_formats(a, SB_ELEMENTWISE_MUL, none); break;
    case SB_ELEMENTWISE_DIV: of_formats(a, SB_ELEMENTWISE_DIV, none); break;
    case SB_ELEMENTWISE_SCALE: of_formats(a, SB_ELEMENTWISE_SCALE, none); break;
    default: of_activation(a, SB_ELEMENTWISE_ACTIVATE); break;
    }
}

#endif
