// Arrays of MLX as tensors of the C library.
#include "extension.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace samebits_mlx
{

namespace
{

std::vector<int64_t> packed_strides(const std::vector<int64_t> &shape)
{
    std::vector<int64_t> strides(shape.size());
    int64_t step = 1;
    for (size_t i = shape.size(); i--;) {
        strides[i] = step;
        step *= shape[i];
    }
    return strides;
}

int64_t product_of(const std::vector<int64_t> &numbers)
{
    return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<>());
}

void copy(char *to, const char *from, const Tensor &like, size_t dim)
{
    const int64_t size = like.itemsize();
    if (dim == like.shape.size()) {
        std::memcpy(to, from, static_cast<size_t>(size));
        return;
    }
    const int64_t inner = product_of({like.shape.begin() + static_cast<int64_t>(dim) + 1, like.shape.end()});
    if (dim + 1 == like.shape.size() && like.strides[dim] == 1) {
        std::memcpy(to, from, static_cast<size_t>(like.shape[dim] * size));
        return;
    }
    for (int64_t i = 0; i < like.shape[dim]; i++)
        copy(to + i * inner * size, from + i * like.strides[dim] * size, like, dim + 1);
}

} // namespace

DLDataType dl_dtype(mx::Dtype dtype)
{
    switch (dtype) {
    case mx::float32: return FLOAT32;
    case mx::float16: return {kDLFloat, 16, 1};
    case mx::bfloat16: return {kDLBfloat, 16, 1};
    case mx::float64: return {kDLFloat, 64, 1};
    case mx::complex64: return {kDLComplex, 64, 1};
    case mx::bool_: return {6, 8, 1}; // kDLBool, which headers from before DLPack 0.8 lack
    default: return {kDLUInt, static_cast<uint8_t>(8 * mx::size_of(dtype)), 1};
    }
}

Tensor::Tensor(void *memory, std::vector<int64_t> sizes, DLDataType type)
    : shape(std::move(sizes)), strides(packed_strides(shape)), dtype(type), data(static_cast<char *>(memory))
{
}

Tensor::Tensor(std::vector<int64_t> sizes, DLDataType type) : Tensor(nullptr, std::move(sizes), type)
{
    const auto bytes = static_cast<size_t>(product_of(shape) * itemsize());
    memory_ = std::make_shared<std::vector<std::max_align_t>>(bytes / sizeof(std::max_align_t) + 1);
    data = reinterpret_cast<char *>(memory_->data());
}

Tensor::Tensor(const mx::array &array)
    : shape(array.shape().begin(), array.shape().end()), strides(array.strides().begin(), array.strides().end()),
      dtype(dl_dtype(array.dtype())), data(const_cast<char *>(array.data<char>()))
{
    if (std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s < 0; })) *this = contiguous();
}

Tensor Tensor::contiguous() const
{
    Tensor result(shape, dtype);
    if (product_of(shape)) copy(result.data, data, *this, 0);
    return result;
}

Tensor Tensor::view(std::vector<int64_t> sizes, std::vector<int64_t> steps, int64_t offset, DLDataType type) const
{
    Tensor result(*this);
    result.shape = std::move(sizes);
    result.strides = std::move(steps);
    result.data += offset * itemsize();
    result.dtype = type;
    return result;
}

Tensor Tensor::matrix(int64_t index) const
{
    int64_t offset = 0;
    for (size_t i = shape.size() - 2; i--;) {
        offset += index % shape[i] * strides[i];
        index /= shape[i];
    }
    return view({shape.end() - 2, shape.end()}, {strides.end() - 2, strides.end()}, offset, dtype);
}

Tensor Tensor::transposed() const
{
    Tensor result(*this);
    std::swap(result.shape.end()[-1], result.shape.end()[-2]);
    std::swap(result.strides.end()[-1], result.strides.end()[-2]);
    return result;
}

DLTensor *Tensor::dl()
{
    tensor_.data = data;
    tensor_.device = {kDLCPU, 0};
    tensor_.ndim = static_cast<int>(shape.size());
    tensor_.dtype = dtype;
    tensor_.shape = shape.data();
    tensor_.strides = strides.data();
    return &tensor_;
}

int64_t Tensor::rows() const { return product_of({shape.begin(), shape.end() - 1}); }
int64_t Tensor::matrices() const { return product_of({shape.begin(), shape.end() - 2}); }

bool Tensor::row_contiguous() const
{
    const std::vector<int64_t> want = packed_strides(shape);
    for (size_t i = 0; i < shape.size(); i++)
        if (shape[i] != 1 && strides[i] != want[i]) return false;
    return true;
}

} // namespace samebits_mlx
