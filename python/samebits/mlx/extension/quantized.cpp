// MLX's quantised weights (spec/formats.md, section MLX), packed.
#include "extension.h"

namespace samebits_mlx
{

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

} // namespace samebits_mlx
