#include "kernels/attention/attention.h"

static const sb_attention_row table[] = {
#define SB_ATTENTION_ROW(isa, order, cpu)                                                                              \
    {                                                                                                                  \
        "sb_attention_" #isa,                                                                                          \
        order,                                                                                                         \
        cpu,                                                                                                           \
        sb_attention_dots_##isa,                                                                                       \
        sb_attention_score_##isa,                                                                                      \
        sb_attention_values_##isa,                                                                                     \
        sb_attention_finish_##isa},
#include "kernels/attention/attention.inc"
#undef SB_ATTENTION_ROW
};

SB_KERNEL_SELECT(attention)

size_t sb_attention_scratch(int64_t k_width, int64_t v_width)
{
    const int64_t k = sb_round_up(k_width, SB_ATTENTION_PAD), v = sb_round_up(v_width, SB_ATTENTION_PAD);
    /* dots: a block of K and four rows, or one of V, as f32. values: a block twice, four rows of sums and one of
     * V. */
    const int64_t dots = (k * SB_ATTENTION_BLOCK + 4 * SB_MAX(k, v)) * 4;
    const int64_t values = v * (SB_ATTENTION_BLOCK + 2) * 8 + 4 * v * 8 + 4 * v;
    return (size_t)SB_MAX(dots, values);
}
