/* The order in scalar C: every other row must give these bits. */
#include "formats/elements.h"
#include "kernels/elementwise/elementwise.h"
#include "order/activation.h"

static float result(const sb_elementwise_args *a, float x, float y)
{
    switch (a->op) {
    case SB_ELEMENTWISE_GATED: return sb_activation(a->activation, x) * y;
    case SB_ELEMENTWISE_ADD: return x + y;
    case SB_ELEMENTWISE_SUB: return x - y;
    case SB_ELEMENTWISE_MUL: return x * y;
    case SB_ELEMENTWISE_DIV: return x / y;
    case SB_ELEMENTWISE_SCALE: return fmaf(x, a->scale, a->bias);
    default: return sb_activation(a->activation, x);
    }
}

void sb_elementwise_ref(const sb_elementwise_args *a)
{
    const float x0 = a->x_step || !a->n ? 0.0f : sb_element(a->x_format, a->x, 0);
    const float y0 = a->y_step || !a->n || !a->y ? 0.0f : sb_element(a->y_format, a->y, 0);
    for (int64_t i = 0; i < a->n; i++) {
        const float x = a->x_step ? sb_element(a->x_format, a->x, i) : x0;
        const float y = a->y && a->y_step ? sb_element(a->y_format, a->y, i) : y0;
        sb_set_element(a->out_format, a->out, i, result(a, x, y));
    }
}
