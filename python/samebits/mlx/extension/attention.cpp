// mx.fast.scaled_dot_product_attention as a primitive.
#include "extension.h"

#include <mlx/backend/cpu/encoder.h>
#include <mlx/fast.h>
#include <mlx/transforms.h>

namespace samebits_mlx
{

namespace
{

using Arrays = std::vector<mx::array>;

constexpr int MAX_HEAD_DIM = 576;

struct Params {
    float scale;
    std::string mask_mode;
    bool mask, sinks;
};

// Inputs are q, k, v, then the mask (broadcast to all rows and heads) and the sinks (f32), where there are any.
class Attention : public mx::UnaryPrimitive
{
  public:
    Attention(mx::Stream stream, Params params, Settings settings)
        : UnaryPrimitive(stream), params_(std::move(params)), settings_(std::move(settings))
    {
    }

    void eval_cpu(const Arrays &inputs, mx::array &out) override
    {
        out.set_data(mx::allocator::malloc(out.nbytes()));
        if (out.size() == 0) return;
        auto &encoder = mx::cpu::get_command_encoder(stream());
        Arrays weak;
        for (const mx::array &in : inputs) {
            encoder.set_input_array(in);
            weak.push_back(mx::array::unsafe_weak_copy(in));
        }
        encoder.set_output_array(out);
        encoder.dispatch([params = params_, context = settings_.context, in = std::move(weak),
                          result = mx::array::unsafe_weak_copy(out)] {
            Tensor q(in[0]), k(in[1]), v(in[2]), o(result);
            std::optional<Tensor> mask, sinks;
            samebits_attention_params p;
            samebits_attention_params_default(&p);
            p.scale = params.scale;
            p.causal = params.mask_mode == "causal";
            if (params.mask) p.mask = mask.emplace(in[3]).dl();
            if (params.sinks) p.sinks = sinks.emplace(in.back()).dl();
            check(samebits_attention(context, q.dl(), k.dl(), v.dl(), &p, o.dl()));
        });
    }

    void eval_gpu(const Arrays &, mx::array &) override
    {
        throw std::runtime_error("samebits' attention runs on the CPU only");
    }

    // Gradients are those of the products and the softmax that MLX makes of attention.
    Arrays vjp(const Arrays &primals, const Arrays &cotangents, const std::vector<int> &argnums,
               const Arrays &) override
    {
        Arrays all = mx::vjp(composite(), primals, cotangents).second, results;
        Arrays known(primals);
        known.insert(known.end(), cotangents.begin(), cotangents.end());
        take(all, known, settings_);
        for (int i : argnums) results.push_back(all[static_cast<size_t>(i)]);
        return results;
    }

    Arrays jvp(const Arrays &primals, const Arrays &tangents, const std::vector<int> &argnums) override
    {
        Arrays all;
        for (const mx::array &primal : primals) all.push_back(mx::zeros_like(primal, stream()));
        for (size_t i = 0; i < argnums.size(); i++) all[static_cast<size_t>(argnums[i])] = tangents[i];
        Arrays results = mx::jvp(composite(), primals, all).second;
        Arrays known(primals);
        known.insert(known.end(), tangents.begin(), tangents.end());
        take(results, known, settings_);
        return results;
    }

    // One call for each entry of the new axis.
    std::pair<Arrays, std::vector<int>> vmap(const Arrays &inputs, const std::vector<int> &axes) override
    {
        int count = 0;
        for (size_t i = 0; i < inputs.size(); i++)
            if (axes[i] >= 0) count = inputs[i].shape(axes[i]);
        Arrays results;
        for (int j = 0; j < count; j++) {
            Arrays one;
            for (size_t i = 0; i < inputs.size(); i++)
                one.push_back(axes[i] < 0 ? inputs[i] : mx::take(inputs[i], j, axes[i], stream()));
            results.emplace_back(output_shapes(one)[0], one[0].dtype(),
                                 std::make_shared<Attention>(stream(), params_, settings_), one);
        }
        if (results.empty()) throw NotImplemented("samebits' attention has no vmap over an axis of size 0");
        return {{mx::stack(results, 0, stream())}, {0}};
    }

    std::vector<mx::Shape> output_shapes(const Arrays &inputs) override
    {
        mx::Shape shape = inputs[0].shape();
        shape.back() = inputs[2].shape(-1);
        return {shape};
    }

    const char *name() const override { return NAME; }
    bool is_equivalent(const mx::Primitive &other) const override
    {
        if (other.name() != NAME) return false;
        const Params &p = static_cast<const Attention &>(other).params_;
        return p.scale == params_.scale && p.mask_mode == params_.mask_mode && p.mask == params_.mask &&
               p.sinks == params_.sinks;
    }

  private:
    static constexpr const char *NAME = "SamebitsAttention";
    Params params_;
    Settings settings_;

    std::function<Arrays(const Arrays &)> composite()
    {
        return [p = params_, s = stream()](const Arrays &in) -> Arrays {
            std::optional<mx::array> mask, sinks;
            if (p.mask) mask = in[3];
            if (p.sinks) sinks = mx::astype(in.back(), in[0].dtype(), s);
            return {mx::fast::scaled_dot_product_attention(in[0], in[1], in[2], p.scale, p.mask_mode, mask, sinks,
                                                           false, s)};
        };
    }
};

} // namespace

mx::array attention(const mx::array &q, const mx::array &k, const mx::array &v, float scale,
                    const std::string &mask_mode, const std::optional<mx::array> &mask,
                    const std::optional<mx::array> &sinks, const Settings &settings, mx::StreamOrDevice to)
{
    // Stock's graph, for its errors; nothing of it is computed if it is not returned.
    mx::array stock = mx::fast::scaled_dot_product_attention(q, k, v, scale, mask_mode, mask, sinks, false, to);
    const mx::Dtype dtype = stock.dtype();
    const mx::Stream stream = mx::to_stream(to);
    const bool known = dtype == mx::float32 || dtype == mx::float16 || dtype == mx::bfloat16;
    if (!known || stream.device != mx::Device::cpu || q.shape(-1) < 1 || q.shape(-1) > MAX_HEAD_DIM ||
        v.shape(-1) < 1 || v.shape(-1) > MAX_HEAD_DIM) {
        refuse("scaled_dot_product_attention", {q, k, v}, settings);
        return stock;
    }
    Arrays inputs{mx::astype(q, dtype, to), mx::astype(k, dtype, to), mx::astype(v, dtype, to)};
    mx::Shape rows = q.shape();
    rows.back() = k.shape(-2);
    if (mask)
        inputs.push_back(mx::broadcast_to(mask->dtype() == mx::bool_ ? *mask : mx::astype(*mask, dtype, to), rows, to));
    if (sinks) inputs.push_back(mx::astype(*sinks, mx::float32, to));
    if (settings.counts) settings.counts->add(&Counts::invariant, "scaled_dot_product_attention");
    mx::Shape shape = q.shape();
    shape.back() = v.shape(-1);
    return mx::array(
        std::move(shape), dtype,
        std::make_shared<Attention>(stream, Params{scale, mask_mode, mask.has_value(), sinks.has_value()}, settings),
        std::move(inputs));
}

} // namespace samebits_mlx
