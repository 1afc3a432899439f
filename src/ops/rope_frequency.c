#include "ops/rope_frequency.h"

#include "base/fpenv.h"
#include "order/angle.h"

/* The smallest normal number: below it, log has no meaning here. */
#define LEAST 0x1p-126f

static int is_positive(float f) { return f >= LEAST && f < INFINITY; }

static samebits_status check_yarn(const samebits_rope_params *p)
{
    if (p->extrapolation == 0.0f) return SAMEBITS_OK;
    if (!(p->extrapolation > -INFINITY && p->extrapolation < INFINITY))
        return sb_fail(SAMEBITS_ERR_PARAM, "extrapolation is %g, want a finite number", (double)p->extrapolation);
    if (!is_positive(p->beta_fast) || !is_positive(p->beta_slow))
        return sb_fail(SAMEBITS_ERR_PARAM, "beta_fast is %g and beta_slow is %g, want positive numbers",
                       (double)p->beta_fast, (double)p->beta_slow);
    if (p->original_context < 1)
        return sb_fail(SAMEBITS_ERR_PARAM, "original_context is %lld, want 1 or more with extrapolation",
                       (long long)p->original_context);
    if (p->base == 1.0f) return sb_fail(SAMEBITS_ERR_PARAM, "base is 1, want another number with extrapolation");
    if (!is_positive(p->scale))
        return sb_fail(SAMEBITS_ERR_PARAM, "scale is %g, want a positive number with extrapolation", (double)p->scale);
    return SAMEBITS_OK;
}

static samebits_status check_sections(const samebits_rope_params *p)
{
    if ((unsigned)p->sections >= SAMEBITS_ROPE_SECTIONS_COUNT)
        return sb_fail(SAMEBITS_ERR_PARAM, "sections is %d, want one of samebits_rope_sections", (int)p->sections);
    int64_t total = 0;
    for (int i = 0; i < 4 && p->sections; i++) {
        if (p->section[i] < 0 || p->section[i] > INT32_MAX)
            return sb_fail(SAMEBITS_ERR_PARAM, "section[%d] is %lld, want 0 to 2^31 - 1", i, (long long)p->section[i]);
        total += p->section[i];
    }
    if (p->sections && !total) return sb_fail(SAMEBITS_ERR_PARAM, "section has no pairs: want one above 0");
    return SAMEBITS_OK;
}

samebits_status sb_rope_check(const samebits_rope_params *p, int64_t n, int64_t *pairs)
{
    if (p->struct_size != sizeof *p)
        return sb_fail(SAMEBITS_ERR_PARAM, "struct_size is %zu, want %zu: call samebits_rope_params_default first",
                       p->struct_size, sizeof *p);
    if ((unsigned)p->layout >= SAMEBITS_ROPE_LAYOUT_COUNT)
        return sb_fail(SAMEBITS_ERR_PARAM, "layout is %d, want one of samebits_rope_layout", (int)p->layout);
    const int64_t first = p->first, rest = first < 0 ? -1 : n - first, dims = p->dims ? p->dims : rest;
    if (rest < 0 || dims < 0 || dims > rest || dims % 2)
        return sb_fail(SAMEBITS_ERR_PARAM, "dims is %lld from first %lld on, want an even number within rows of %lld",
                       (long long)dims, (long long)first, (long long)n);
    if (!is_positive(p->base))
        return sb_fail(SAMEBITS_ERR_PARAM, "base is %g, want a positive number", (double)p->base);
    if (!(p->scale > -INFINITY && p->scale < INFINITY) || !(p->magnitude > -INFINITY && p->magnitude < INFINITY))
        return sb_fail(SAMEBITS_ERR_PARAM, "scale is %g and magnitude is %g, want finite numbers", (double)p->scale,
                       (double)p->magnitude);
    *pairs = dims / 2;
    const samebits_status status = check_yarn(p);
    return status ? status : check_sections(p);
}

/* The pair that makes `turns` turns over the original context. */
static double pair_of_turns(const samebits_rope_params *p, double dims, double turns, double log_base)
{
    return dims * sb_log64((double)p->original_context / (turns * SB_ANGLE_TWO_PI)) / (log_base + log_base);
}

void sb_rope_frequencies(const samebits_rope_params *p, int64_t pairs, const sb_view *factor, double *frequency,
                         double *magnitude)
{
    const sb_fpenv caller = sb_fpenv_enter();
    const double log_base = sb_log64((double)p->base), dims = (double)(2 * pairs), scale = (double)p->scale;
    const int yarn = p->extrapolation != 0.0f;
    double low = 0.0, high = 0.0;
    *magnitude = (double)p->magnitude;
    if (yarn) {
        low = floor(pair_of_turns(p, dims, (double)p->beta_fast, log_base));
        high = ceil(pair_of_turns(p, dims, (double)p->beta_slow, log_base));
        low = low > 0.0 ? low : 0.0;
        high = high < dims - 1.0 ? high : dims - 1.0;
        *magnitude = *magnitude * fma(0.1, sb_log64(1.0 / scale), 1.0);
    }
    const double width = high - low > 0.001 ? high - low : 0.001;
    for (int64_t i = 0; i < pairs; i++) {
        double f = sb_exp64(-((double)(2 * i) * log_base) / dims);
        if (factor->data) f = f / (double)sb_load(factor, i * factor->stride[0]);
        double ramp = ((double)i - low) / width;
        ramp = ramp > 0.0 ? ramp : 0.0;
        ramp = ramp < 1.0 ? ramp : 1.0;
        const double mix = (1.0 - ramp) * (double)p->extrapolation;
        frequency[i] = yarn ? f * scale * (1.0 - mix) + f * mix : f * scale;
    }
    sb_fpenv_leave(caller);
}

void sb_rope_sections_of(const samebits_rope_params *p, int64_t pairs, uint8_t *section)
{
    const int64_t *count = p->section, total = count[0] + count[1] + count[2] + count[3];
    for (int64_t i = 0; i < pairs && p->sections; i++) {
        const int64_t place = i % total;
        int which = 0;
        if (p->sections == SAMEBITS_ROPE_SECTIONS_CYCLIC)
            which = place < 3 * count[place % 3] ? (int)(place % 3) : 3;
        else
            for (int64_t end = count[0]; which < 3 && place >= end; end += count[which]) which++;
        section[i] = (uint8_t)which;
    }
}
