// Products as MLX primitives: what is computed once their turn on a stream of the CPU comes.
#include "extension.h"

#include <array>
#include <cstring>
#include <functional>

#include <mlx/backend/cpu/encoder.h>

namespace samebits_mlx
{

namespace
{

using Arrays = std::vector<mx::array>;

// A product that waits for its turn: settings, inputs, output.
struct Call {
    samebits_context *context;
    Arrays in;
    mx::array out;
};

void dense(const Call &call, const std::shared_ptr<Packed> &place, samebits_epilogue epilogue)
{
    Tensor a(call.in[0]), b(call.in[1]), out(call.out);
    std::optional<Tensor> c;
    if (call.in.size() > 2) epilogue.c = c.emplace(call.in[2]).dl();
    if (!place) {
        check(samebits_matmul(call.context, a.dl(), b.dl(), &epilogue, out.dl()));
        return;
    }
    const auto &weights = place->get([&] {
        static constexpr samebits_format floats[] = {SAMEBITS_FORMAT_F32, SAMEBITS_FORMAT_F16, SAMEBITS_FORMAT_BF16};
        const samebits_format format = floats[b.dtype.bits == 32 ? 0 : b.dtype.code == kDLBfloat ? 2 : 1];
        Tensor w = b.transposed();
        samebits_weights *made = nullptr;
        check(samebits_weights_prepare(call.context, w.dl(), format, nullptr, &made));
        std::vector<Weights> list;
        list.emplace_back(made);
        return list;
    });
    check(samebits_linear_prepared(call.context, a.dl(), weights[0].get(), SAMEBITS_ORDER_PORTABLE_1, &epilogue,
                                   out.dl()));
}

// The matrices of quantised weights, all leading dims together.
struct Matrices {
    Tensor w, scales;
    std::optional<Tensor> biases;
    std::vector<size_t> first; // of each: the first that is the same memory, as broadcast dims have it
    Matrices(const Arrays &in, const Quantization &q) : w(in[1]), scales(in[2])
    {
        if (q.affine()) biases.emplace(in[3]);
        std::map<std::array<const char *, 3>, size_t> seen;
        for (int64_t i = 0; i < w.matrices(); i++)
            first.push_back(
                seen.try_emplace({w.matrix(i).data, scales.matrix(i).data, biases ? biases->matrix(i).data : nullptr},
                                 first.size())
                    .first->second);
    }
    Weights prepare(samebits_context *context, int64_t i, const Quantization &q) const
    {
        std::optional<Tensor> bias;
        if (biases) bias = biases->matrix(i);
        return samebits_mlx::prepare(context, w.matrix(i), scales.matrix(i), bias ? &*bias : nullptr, q);
    }
    // out = x @ matrix i, which is packed along the outputs.
    void multiply(samebits_context *context, int64_t i, const Quantization &q, Tensor x, Tensor out) const
    {
        Tensor packed = w.matrix(i), scale = scales.matrix(i);
        if (packed.strides[1] != 1) packed = packed.contiguous();
        if (!biases) {
            check(samebits_matmul_scaled(context, x.dl(), packed.dl(), scale.dl(), q.format(), 0,
                                         SAMEBITS_ORDER_PORTABLE_1, nullptr, out.dl()));
            return;
        }
        Tensor bias = biases->matrix(i);
        check(samebits_matmul_affine(context, x.dl(), packed.dl(), scale.dl(), bias.dl(), q.bits, q.group, 0,
                                     SAMEBITS_ORDER_PORTABLE_1, nullptr, out.dl()));
    }
    std::vector<Weights> prepare_all(samebits_context *context, const Quantization &q) const
    {
        std::vector<Weights> list;
        for (size_t i = 0; i < first.size(); i++)
            list.push_back(first[i] == i ? prepare(context, static_cast<int64_t>(i), q) : nullptr);
        return list;
    }
};

void linear(samebits_context *context, Tensor x, const samebits_weights *weights, Tensor out)
{
    check(samebits_linear_prepared(context, x.dl(), weights, SAMEBITS_ORDER_PORTABLE_1, nullptr, out.dl()));
}

void quantized(const Call &call, const std::shared_ptr<Packed> &place, const Quantization &q, bool transpose)
{
    const Tensor x(call.in[0]), out(call.out);
    const Matrices matrices(call.in, q);
    const int64_t count = matrices.w.matrices();
    if (!transpose) {
        if (count == 1) return matrices.multiply(call.context, 0, q, x, out);
        for (int64_t i = 0; i < count; i++) matrices.multiply(call.context, i, q, x.matrix(i), out.matrix(i));
        return;
    }
    const auto &weights = place->get([&] { return matrices.prepare_all(call.context, q); });
    if (count == 1) return linear(call.context, x, weights[0].get(), out);
    for (int64_t i = 0; i < count; i++)
        linear(call.context, x.matrix(i), weights[matrices.first[static_cast<size_t>(i)]].get(), out.matrix(i));
}

uint32_t number_at(const Tensor &t, int64_t index)
{
    int64_t offset = 0;
    for (size_t i = t.shape.size(); i--;) {
        offset += index % t.shape[i] * t.strides[i];
        index /= t.shape[i];
    }
    return reinterpret_cast<const uint32_t *>(t.data)[offset];
}

std::vector<int64_t> indices(const mx::array &array, int64_t limit)
{
    const Tensor t(array);
    std::vector<int64_t> list;
    for (int64_t i = 0; i < static_cast<int64_t>(array.size()); i++) {
        list.push_back(number_at(t, i));
        if (list.back() >= limit)
            throw std::out_of_range("an index is " + std::to_string(list.back()) + "; want less than the " +
                                    std::to_string(limit) + " matrices there are");
    }
    return list;
}

// The operands of a gather: entry i is matrix left[i] of x times weights right[i].
struct Gather {
    Tensor x, out;
    std::vector<int64_t> left, right;
    int64_t m;
    Gather(const Call &call, int64_t experts) : x(call.in[0]), out(call.out), m(x.dim(2))
    {
        left = indices(call.in.end()[-2], x.matrices());
        right = indices(call.in.end()[-1], experts);
    }
    int64_t rows() const { return static_cast<int64_t>(left.size()) * m; }
    // The rows of x that each entry takes, one after the other; and the weights of each row.
    Tensor gathered() const
    {
        const int64_t k = x.dim(1), bytes = k * x.itemsize();
        Tensor result({rows(), k}, x.dtype);
        char *to = result.data;
        for (int64_t i : left) {
            const Tensor matrix = x.matrix(i).contiguous();
            if (m > 0 && bytes > 0) std::memcpy(to, matrix.data, static_cast<size_t>(m * bytes));
            to += m * bytes;
        }
        return result;
    }
    Tensor experts() const
    {
        Tensor result({rows()}, INT32);
        auto *to = reinterpret_cast<int32_t *>(result.data);
        for (int64_t e : right)
            for (int64_t j = 0; j < m; j++) *to++ = static_cast<int32_t>(e);
        return result;
    }
    Tensor result() const { return Tensor(out.data, {rows(), out.dim(1)}, out.dtype); }
};

void gather(const Call &call)
{
    const Tensor b(call.in[1]);
    const Gather g(call, b.matrices());
    Tensor w = b;
    if (b.shape.size() > 3 && !b.row_contiguous() && !b.transposed().row_contiguous()) w = b.contiguous();
    const bool flat = w.shape.size() != 3;
    if (flat) {
        const int64_t k = w.dim(2), n = w.dim(1);
        w = w.view({w.matrices(), k, n}, {k * n, w.strides.end()[-2], w.strides.end()[-1]}, 0, w.dtype);
    }
    static constexpr samebits_format floats[] = {SAMEBITS_FORMAT_F32, SAMEBITS_FORMAT_F16, SAMEBITS_FORMAT_BF16};
    const samebits_format format = floats[w.dtype.bits == 32 ? 0 : w.dtype.code == kDLBfloat ? 2 : 1];
    Tensor x = g.gathered(), index = g.experts(), out = g.result();
    Tensor experts = w.transposed();
    check(samebits_gather_linear(call.context, x.dl(), experts.dl(), format, index.dl(), SAMEBITS_ORDER_PORTABLE_1,
                                 nullptr, out.dl()));
}

void gather_quantized(const Call &call, const std::shared_ptr<Packed> &place, const Quantization &q, bool transpose)
{
    const Matrices matrices(call.in, q);
    const Gather g(call, matrices.w.matrices());
    Tensor x = g.gathered(), index = g.experts(), out = g.result();
    if (transpose) {
        const auto &weights = place->get([&] { return matrices.prepare_all(call.context, q); });
        std::vector<const samebits_weights *> experts;
        for (size_t i : matrices.first) experts.push_back(weights[i].get());
        check(samebits_gather_prepared(call.context, x.dl(), experts.data(), static_cast<int64_t>(experts.size()),
                                       index.dl(), SAMEBITS_ORDER_PORTABLE_1, nullptr, out.dl()));
        return;
    }
    for (size_t i = 0; i < g.right.size(); i++) {
        const int64_t first = static_cast<int64_t>(i) * g.m;
        const auto rows = [&](const Tensor &t) {
            return t.view({g.m, t.shape[1]}, t.strides, first * t.shape[1], t.dtype);
        };
        matrices.multiply(call.context, g.right[i], q, rows(x), rows(out));
    }
}

template <class Primitive> std::pair<Quantization, bool> quantization(const mx::Primitive &stock)
{
    const auto state = static_cast<const Primitive &>(stock).state();
    return {{std::get<0>(state), std::get<1>(state), std::get<2>(state)}, std::get<3>(state)};
}

std::shared_ptr<Packed> packed_quantized(const Arrays &in, const Quantization &q)
{
    Arrays arrays(in.begin() + 1, in.begin() + (q.affine() ? 4 : 3));
    return packed(arrays, "quantized " + std::to_string(static_cast<int>(q.mode)) + " " + std::to_string(q.bits) + " " +
                              std::to_string(q.group));
}

// What is to be done for a call, with the places of packed weights found while their arrays are at hand.
std::function<void(const Call &)> work_of(Kind kind, const mx::Primitive &stock, const Arrays &in)
{
    switch (kind) {
    case Kind::quantized_matmul: {
        const auto [q, transpose] = quantization<mx::QuantizedMatmul>(stock);
        const auto place = transpose ? packed_quantized(in, q) : nullptr;
        return [place, q = q, transpose = transpose](const Call &call) { quantized(call, place, q, transpose); };
    }
    case Kind::gather_qmm: {
        const auto [q, transpose] = quantization<mx::GatherQMM>(stock);
        const auto place = transpose ? packed_quantized(in, q) : nullptr;
        return [place, q = q, transpose = transpose](const Call &call) { gather_quantized(call, place, q, transpose); };
    }
    case Kind::gather_mm: return gather;
    default: {
        samebits_epilogue epilogue;
        samebits_epilogue_default(&epilogue);
        if (kind == Kind::addmm)
            std::tie(epilogue.alpha, epilogue.beta) = static_cast<const mx::AddMM &>(stock).state();
        // float64 and complex64 have no packed form.
        const auto place = mx::size_of(in[0].dtype()) == 8 ? nullptr : packed_dense(in[1]);
        return [place, epilogue](const Call &call) { dense(call, place, epilogue); };
    }
    }
}

} // namespace

bool above_limit(Kind kind, const Arrays &inputs, const Settings &settings)
{
    if ((kind != Kind::matmul && kind != Kind::addmm) || settings.limit == 0) return false;
    const mx::array &a = inputs[0];
    const bool one = inputs[1].ndim() == 2 && a.shape(-1) != 0;
    return (one ? static_cast<int64_t>(a.size()) / a.shape(-1) : a.shape(-2)) > settings.limit;
}

void Product::eval_cpu(const Arrays &inputs, mx::array &out)
{
    if (above_limit(kind_, inputs, settings_)) {
        Arrays outputs{out};
        return stock_->eval_cpu(inputs, outputs);
    }
    out.set_data(mx::allocator::malloc(out.nbytes()));
    if (out.size() == 0) return;
    auto &encoder = mx::cpu::get_command_encoder(stream());
    Call call{settings_.context, {}, mx::array::unsafe_weak_copy(out)};
    for (const mx::array &in : inputs) {
        encoder.set_input_array(in);
        call.in.push_back(mx::array::unsafe_weak_copy(in));
    }
    encoder.set_output_array(out);
    encoder.dispatch([call = std::move(call), work = work_of(kind_, *stock_, inputs)] { work(call); });
}

void Product::eval_gpu(const Arrays &, mx::array &)
{
    throw std::runtime_error("samebits' products run on the CPU only");
}

Arrays Product::jvp(const Arrays &primals, const Arrays &tangents, const std::vector<int> &argnums)
{
    Arrays results = stock_->jvp(primals, tangents, argnums);
    Arrays known(primals);
    known.insert(known.end(), tangents.begin(), tangents.end());
    take(results, known, settings_);
    return results;
}

Arrays Product::vjp(const Arrays &primals, const Arrays &cotangents, const std::vector<int> &argnums,
                    const Arrays &outputs)
{
    Arrays results = stock_->vjp(primals, cotangents, argnums, outputs);
    Arrays known(primals);
    known.insert(known.end(), cotangents.begin(), cotangents.end());
    known.insert(known.end(), outputs.begin(), outputs.end());
    take(results, known, settings_);
    return results;
}

std::pair<Arrays, std::vector<int>> Product::vmap(const Arrays &inputs, const std::vector<int> &axes)
{
    auto results = stock_->vmap(inputs, axes);
    take(results.first, inputs, settings_);
    return results;
}

std::vector<mx::Shape> Product::output_shapes(const Arrays &inputs) { return stock_->output_shapes(inputs); }

const char *Product::name() const
{
    static constexpr const char *names[] = {"SamebitsMatmul", "SamebitsAddMM", "SamebitsQuantizedMatmul",
                                            "SamebitsGatherMM", "SamebitsGatherQMM"};
    return names[static_cast<int>(kind_)];
}

bool Product::is_equivalent(const mx::Primitive &other) const
{
    if (other.name() != name()) return false; // the string itself, which is this module's alone
    const auto &product = static_cast<const Product &>(other);
    return settings_.limit == product.settings_.limit && stock_->is_equivalent(*product.stock_);
}

} // namespace samebits_mlx
