// MLX's quantised weights (spec/formats.md, section MLX): packed, and as the f32 numbers they stand for.
#include "extension.h"

#include <cmath>

namespace samebits_mlx
{

namespace
{

float e2m1(uint32_t code)
{
    static constexpr float magnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

float e4m3(uint32_t code)
{
    const int e = static_cast<int>(code >> 3 & 15), m = static_cast<int>(code & 7);
    if (e == 15 && m == 7) return std::nanf("");
    const float magnitude = e ? std::ldexp(static_cast<float>(8 + m), e - 10) : std::ldexp(static_cast<float>(m), -9);
    return code & 128 ? -magnitude : magnitude;
}

float e8m0(uint32_t code) { return code == 255 ? INFINITY : std::ldexp(1.0F, static_cast<int>(code) - 127); }

// Elements of 4 and 8 bits never lie across words.
uint32_t code_at(const uint32_t *words, int64_t index, int bits)
{
    const int64_t bit = index * bits;
    return words[bit >> 5] >> (bit & 31) & ((1U << bits) - 1);
}

} // namespace

samebits_format Quantization::format() const
{
    switch (mode) {
    case mx::QuantizationMode::Mxfp4: return SAMEBITS_FORMAT_MLX_MXFP4;
    case mx::QuantizationMode::Mxfp8: return SAMEBITS_FORMAT_MLX_MXFP8;
    case mx::QuantizationMode::Nvfp4: return SAMEBITS_FORMAT_MLX_NVFP4;
    default: return SAMEBITS_FORMAT_COUNT;
    }
}

Weights prepare(samebits_context *context, Tensor w, Tensor scales, Tensor *biases, const Quantization &q)
{
    if (w.strides[1] != 1) w = w.contiguous();
    samebits_weights *weights = nullptr;
    check(q.affine() ? samebits_weights_prepare_affine(context, w.dl(), scales.dl(), biases->dl(), q.bits, q.group,
                                                       nullptr, &weights)
                     : samebits_weights_prepare_scaled(context, w.dl(), scales.dl(), q.format(), nullptr, &weights));
    return Weights(weights);
}

Tensor dequantize(const Tensor &packed, const Tensor &scales, const Quantization &q)
{
    const Tensor w = packed.strides[1] == 1 ? packed : packed.contiguous();
    const int64_t n = w.shape[0], k = w.shape[1] * 32 / q.bits;
    Tensor result({n, k}, FLOAT32);
    auto *out = reinterpret_cast<float *>(result.data);
    for (int64_t row = 0; row < n; row++) {
        const auto *words = reinterpret_cast<const uint32_t *>(w.data) + row * w.strides[0];
        for (int64_t i = 0; i < k; i++) {
            const uint32_t code = code_at(words, i, q.bits);
            const auto scale =
                static_cast<uint8_t>(scales.data[row * scales.strides[0] + i / q.group * scales.strides[1]]);
            *out++ = (q.bits == 4 ? e2m1(code) : e4m3(code)) *
                     (q.mode == mx::QuantizationMode::Nvfp4 ? e4m3(scale) : e8m0(scale));
        }
    }
    return result;
}

} // namespace samebits_mlx
