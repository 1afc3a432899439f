// A linear layer from C++: weights packed once, then used for any number of rows.
#include <samebits/samebits.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

static void check(samebits_status status)
{
    if (status != SAMEBITS_OK) throw std::runtime_error(samebits_last_error());
}

struct Matrix {
    std::vector<float> data;
    int64_t shape[2];
    Matrix(int64_t rows, int64_t columns) : data(static_cast<size_t>(rows * columns)), shape{rows, columns} {}
    DLTensor view(int64_t first, int64_t rows)
    {
        part[0] = rows;
        part[1] = shape[1];
        DLTensor t{};
        t.data = data.data() + first * shape[1];
        t.device = DLDevice{kDLCPU, 0};
        t.ndim = 2;
        t.dtype = DLDataType{kDLFloat, 32, 1};
        t.shape = part;
        return t;
    }

  private:
    int64_t part[2];
};

struct ContextDeleter {
    void operator()(samebits_context *c) const { samebits_destroy(&c); }
};
struct WeightsDeleter {
    void operator()(samebits_weights *w) const { samebits_weights_destroy(&w); }
};

int main()
{
    const int64_t rows = 64, depth = 640, width = 256;
    Matrix x(rows, depth), w(width, depth), all(rows, width), parts(rows, width);
    for (size_t i = 0; i < x.data.size(); i++) x.data[i] = static_cast<float>(i * 7919 % 2003) / 1001.0f - 1.0f;
    for (size_t i = 0; i < w.data.size(); i++) w.data[i] = static_cast<float>(i * 6101 % 1999) / 999.0f - 1.0f;
    try {
        samebits_context *made = nullptr;
        check(samebits_create(&made, nullptr));
        const std::unique_ptr<samebits_context, ContextDeleter> context(made);

        const DLTensor weights_view = w.view(0, width);
        samebits_weights *packed = nullptr;
        check(samebits_weights_prepare(context.get(), &weights_view, SAMEBITS_FORMAT_F32, nullptr, &packed));
        const std::unique_ptr<samebits_weights, WeightsDeleter> weights(packed);

        samebits_epilogue epilogue;
        samebits_epilogue_default(&epilogue);
        epilogue.activation = SAMEBITS_ACTIVATION_SILU;
        const auto linear = [&](int64_t first, int64_t count, Matrix &out) {
            const DLTensor in = x.view(first, count);
            DLTensor result = out.view(first, count);
            check(samebits_linear_prepared(context.get(), &in, weights.get(), SAMEBITS_ORDER_PORTABLE_1, &epilogue,
                                           &result));
        };
        linear(0, rows, all);
        for (int64_t first = 0; first < rows; first += 7) linear(first, rows - first < 7 ? rows - first : 7, parts);

        const bool same = std::memcmp(all.data.data(), parts.data.data(), all.data.size() * sizeof(float)) == 0;
        std::printf("%lld rows at once and in chunks of 7: %s\n", static_cast<long long>(rows),
                    same ? "same bits" : "DIFFERENT");
        return same ? 0 : 1;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 2;
    }
}
