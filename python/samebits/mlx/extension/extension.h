// What the files of samebits.mlx's extension share: MLX primitives whose rows follow samebits' orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <mlx/mlx.h>
#include <mlx/primitives.h>

#include <samebits/samebits.h>

namespace samebits_mlx
{

namespace mx = mlx::core;

// Becomes Python's NotImplementedError.
struct NotImplemented : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Calls by operation, of one mode. Threads: any.
struct Counts {
    std::mutex mutex;
    std::map<std::string, int64_t> invariant, stock;
    void add(std::map<std::string, int64_t> Counts::*which, const std::string &name);
};

// What a call is computed under; primitives keep it for their gradients and for vmap.
struct Settings {
    int64_t limit = 0;                   // dense products of more rows are stock's; 0: none are
    bool strict = true;                  // refuse what has no order
    samebits_context *context = nullptr; // lives as long as the process
    std::shared_ptr<Counts> counts;      // nullptr: none are kept
};

// The context of a number of threads, 0 for one per CPU.
samebits_context *context_of(int threads);
// Throws what a failed call says.
void check(samebits_status status);

// --- graph.cpp ---

using Ids = std::vector<std::uintptr_t>;
Ids ids_of(const std::vector<mx::array> &arrays);

// Puts samebits' primitives into the part of a graph that lies between `known` arrays and `outputs`, which MLX has just
// made. Throws NotImplemented in a strict mode for what has no order; otherwise that stays stock's, and is counted.
void take(const std::vector<mx::array> &outputs, const Ids &known, const Settings &settings);
void take(const std::vector<mx::array> &outputs, const std::vector<mx::array> &known, const Settings &settings);
// Refuses a call, or counts it.
void refuse(const std::string &name, const std::vector<mx::array> &inputs, const Settings &settings);

// --- product.cpp ---

enum class Kind { matmul, addmm, quantized_matmul, gather_mm, gather_qmm };

// Whether a call has more rows than the limit: those of `a`, all leading dims together, or of one matrix where b has
// leading dims too.
bool above_limit(Kind kind, const std::vector<mx::array> &inputs, const Settings &settings);

// One of MLX's products, computed in order. Shapes, gradients and vmap are the stock primitive's, whose results are
// made of products again; those are taken too.
class Product : public mx::UnaryPrimitive
{
  public:
    Product(Kind kind, std::shared_ptr<mx::Primitive> stock, Settings settings)
        : UnaryPrimitive(stock->stream()), kind_(kind), stock_(std::move(stock)), settings_(std::move(settings))
    {
    }
    void eval_cpu(const std::vector<mx::array> &inputs, mx::array &out) override;
    void eval_gpu(const std::vector<mx::array> &inputs, mx::array &out) override;
    std::vector<mx::array> jvp(const std::vector<mx::array> &primals, const std::vector<mx::array> &tangents,
                               const std::vector<int> &argnums) override;
    std::vector<mx::array> vjp(const std::vector<mx::array> &primals, const std::vector<mx::array> &cotangents,
                               const std::vector<int> &argnums, const std::vector<mx::array> &outputs) override;
    std::pair<std::vector<mx::array>, std::vector<int>> vmap(const std::vector<mx::array> &inputs,
                                                             const std::vector<int> &axes) override;
    std::vector<mx::Shape> output_shapes(const std::vector<mx::array> &inputs) override;
    const char *name() const override;
    bool is_equivalent(const mx::Primitive &other) const override;

  private:
    Kind kind_;
    std::shared_ptr<mx::Primitive> stock_;
    Settings settings_;
};

// --- attention.cpp ---

// mx.fast.scaled_dot_product_attention with exact sums over keys. Arguments and errors are stock's; throws
// NotImplemented for dtypes and head dims that samebits does not have.
mx::array attention(const mx::array &q, const mx::array &k, const mx::array &v, float scale,
                    const std::string &mask_mode, const std::optional<mx::array> &mask,
                    const std::optional<mx::array> &sinks, const Settings &settings, mx::StreamOrDevice stream);

// --- tensor.cpp ---

// An array's memory for the C library. MLX's slices may step backwards, which the library does not take: such an array
// is copied.
class Tensor
{
  public:
    explicit Tensor(const mx::array &array);
    // Memory of its own: the array's, or new memory without gaps.
    Tensor(void *data, std::vector<int64_t> shape, DLDataType dtype);
    Tensor(std::vector<int64_t> shape, DLDataType dtype);
    // The same memory, seen otherwise.
    Tensor view(std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset, DLDataType dtype) const;
    // Matrix number `index` of the leading dims.
    Tensor matrix(int64_t index) const;
    Tensor transposed() const;

    DLTensor *dl();
    std::vector<int64_t> shape, strides;
    DLDataType dtype;
    char *data;
    int64_t dim(int from_the_back) const { return shape[shape.size() - static_cast<size_t>(from_the_back)]; }
    int64_t rows() const; // of all but the last dimension
    int64_t matrices() const;
    bool row_contiguous() const;
    int64_t itemsize() const { return dtype.bits * dtype.lanes / 8; }
    // A copy without gaps, in memory that the result owns.
    Tensor contiguous() const;

  private:
    std::shared_ptr<std::vector<std::max_align_t>> memory_;
    DLTensor tensor_{};
};

DLDataType dl_dtype(mx::Dtype dtype);
constexpr DLDataType FLOAT32{kDLFloat, 32, 1}, INT32{kDLInt, 32, 1};

// --- quantized.cpp ---

// The format of MLX's quantised weights.
struct Quantization {
    int group, bits;
    mx::QuantizationMode mode;
    bool affine() const { return mode == mx::QuantizationMode::Affine; }
    samebits_format format() const;
};

struct Destroy {
    void operator()(samebits_weights *w) const { samebits_weights_destroy(&w); }
};
using Weights = std::unique_ptr<samebits_weights, Destroy>;

// One matrix (N, K) packed; biases is null for the float formats.
Weights prepare(samebits_context *context, Tensor w, Tensor scales, Tensor *biases, const Quantization &q);

// --- packing.cpp ---

// Weights packed at their second use, and kept for as long as their arrays live.
class Packed
{
  public:
    // Packs at the first call; later ones, of any thread, get the same.
    template <class Make> const std::vector<Weights> &get(Make make)
    {
        std::call_once(once_, [&] { weights_ = make(); });
        return weights_;
    }

  private:
    std::once_flag once_;
    std::vector<Weights> weights_;
};

// The place for the packed form of arrays that stand for weights together; a new one, of the caller alone, for those
// that are seen for the first time or exceed the budget. Holding it never lets MLX reuse their memory for other
// numbers.
std::shared_ptr<Packed> packed(const std::vector<mx::array> &arrays, const std::string &how);
// nullptr for weights that are better left as they are.
std::shared_ptr<Packed> packed_dense(const mx::array &b);
void set_packing_budget(int64_t bytes);
int64_t packed_bytes();

} // namespace samebits_mlx
