/* The order in scalar C: every other row must give these bits. */
#include "formats/elements.h"
#include "kernels/rope/rope.h"
#include "order/angle.h"

void sb_rope_angles_ref(const sb_rope_angles *a)
{
    for (int64_t i = 0; i < a->pairs; i++) {
        double c, s;
        sb_cos_sin(a->position[a->section ? a->section[i] : 0] * a->frequency[i], &c, &s);
        const float cosine = (float)(c * a->magnitude), turned = (float)(s * a->magnitude);
        const float sine = a->inverse ? -turned : turned;
        if (a->layout == SAMEBITS_ROPE_HALVES) {
            a->cos[i] = cosine;
            a->sin[i] = sine;
        } else {
            a->cos[2 * i] = a->cos[2 * i + 1] = cosine;
            a->sin[2 * i] = -sine;
            a->sin[2 * i + 1] = sine;
        }
    }
}

static void turn_row(const sb_rope_args *a, const float *cos, const float *sin, const void *x, void *out)
{
    const int halves = a->layout == SAMEBITS_ROPE_HALVES;
    for (int64_t i = 0; i < a->n; i++)
        if (i < a->first || i >= a->first + 2 * a->pairs)
            sb_set_element(a->out_format, out, i, sb_element(a->x_format, x, i));
    for (int64_t i = 0; i < a->pairs; i++) {
        const int64_t first = a->first + (halves ? i : 2 * i), second = first + (halves ? a->pairs : 1);
        const float c = cos[halves ? i : 2 * i], s = sin[halves ? i : 2 * i + 1];
        const float x0 = sb_element(a->x_format, x, first), x1 = sb_element(a->x_format, x, second);
        sb_set_element(a->out_format, out, first, fmaf(x0, c, -(x1 * s)));
        sb_set_element(a->out_format, out, second, fmaf(x1, c, x0 * s));
    }
}

void sb_rope_ref(const sb_rope_args *a)
{
    for (int64_t r = 0; r < a->rows; r++)
        turn_row(a, a->cos + r * a->angle_stride, a->sin + r * a->angle_stride,
                 (const char *)a->x + r * a->x_stride * sb_element_size(a->x_format),
                 (char *)a->out + r * a->out_stride * sb_element_size(a->out_format));
}
