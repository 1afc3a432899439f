/* The order in scalar C: every other row must give these bits. */
#include "formats/elements.h"
#include "kernels/epilogue/epilogue_f64.h"
#include "order/activation.h"

void sb_epilogue_ref(const sb_epilogue_args *a)
{
    const float *acc = a->acc, alpha = (float)a->alpha, beta = (float)a->beta;
    if (a->out_format == SB_FORMAT_F64) {
        epilogue_f64(a);
        return;
    }
    for (int64_t i = 0; i < a->n; i++) {
        float t = alpha * acc[i];
        if (a->c) t = fmaf(beta, sb_element(a->c_format, a->c, i), t);
        if (a->bias) t = t + sb_element(a->bias_format, a->bias, i);
        sb_set_element(a->out_format, a->out, i, sb_activation(a->activation, t));
    }
}
