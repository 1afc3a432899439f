// Finds the products in a graph that MLX has just made.
#include "extension.h"

#include <sstream>
#include <string_view>
#include <unordered_set>

namespace samebits_mlx
{

namespace
{

struct Operation {
    const char *primitive, *name;
};

// Kinds in the sequence of the enumerators.
constexpr Operation products[] = {{"Matmul", "matmul"},
                                  {"AddMM", "addmm"},
                                  {"QuantizedMatmul", "quantized_matmul"},
                                  {"GatherMM", "gather_mm"},
                                  {"GatherQMM", "gather_qmm"}};

// What may move and has no order here.
constexpr Operation moving[] = {{"Convolution", "convolution"},  {"BlockMaskedMM", "block_masked_mm"},
                                {"SegmentedMM", "segmented_mm"}, {"QQMatmul", "qqmm"},
                                {"GatherQQMM", "gather_qqmm"},   {"GatedDeltaUpdate", "gated_delta_update"}};

constexpr size_t MAX_DIMS = 8;

std::string dtypes_of(const std::vector<mx::array> &arrays)
{
    std::ostringstream text;
    for (size_t i = 0; i < arrays.size(); i++)
        if (i == 0 || arrays[i].dtype() != arrays[i - 1].dtype()) text << (i ? "/" : "") << arrays[i].dtype();
    return text.str();
}

void count_stock(const std::string &name, const std::vector<mx::array> &inputs, const Settings &settings)
{
    if (settings.counts) settings.counts->add(&Counts::stock, name + " " + dtypes_of(inputs));
}

bool has_order(Kind kind, const mx::array &out)
{
    const mx::Dtype dtype = out.dtype();
    if (out.primitive().device() != mx::Device::cpu || out.ndim() > MAX_DIMS) return false;
    if (dtype == mx::complex64) return kind == Kind::matmul;
    if (dtype == mx::float64) return kind == Kind::matmul || kind == Kind::addmm;
    return dtype == mx::float32 || dtype == mx::float16 || dtype == mx::bfloat16;
}

void take_one(mx::array &node, const Settings &settings)
{
    const std::string_view name = node.primitive().name();
    for (int i = 0; i < static_cast<int>(std::size(products)); i++) {
        if (name != products[i].primitive) continue;
        if (!has_order(static_cast<Kind>(i), node)) {
            refuse(products[i].name, node.inputs(), settings);
            return;
        }
        // Above the limit too: a graph of a function compiled for any shape may be run with fewer rows.
        node.primitive_ptr() = std::make_shared<Product>(static_cast<Kind>(i), node.primitive_ptr(), settings);
        if (!settings.counts) return;
        if (above_limit(static_cast<Kind>(i), node.inputs(), settings))
            count_stock(products[i].name, node.inputs(), settings);
        else
            settings.counts->add(&Counts::invariant, products[i].name);
        return;
    }
    for (const Operation &operation : moving)
        if (name == operation.primitive) refuse(operation.name, node.inputs(), settings);
}

} // namespace

void Counts::add(std::map<std::string, int64_t> Counts::*which, const std::string &name)
{
    const std::lock_guard<std::mutex> lock(mutex);
    (this->*which)[name]++;
}

void refuse(const std::string &name, const std::vector<mx::array> &inputs, const Settings &settings)
{
    if (!settings.strict) return count_stock(name, inputs, settings);
    std::ostringstream shapes;
    for (size_t i = 0; i < inputs.size(); i++) shapes << (i ? ", " : "") << inputs[i].shape();
    throw NotImplemented("samebits has no " + name + " of " + dtypes_of(inputs) + ", shapes " + shapes.str() +
                         ": its bits may depend on the batch; leave the strict mode to run MLX's own");
}

Ids ids_of(const std::vector<mx::array> &arrays)
{
    Ids ids;
    for (const mx::array &array : arrays) ids.push_back(array.id());
    return ids;
}

void take(const std::vector<mx::array> &outputs, const Ids &known, const Settings &settings)
{
    std::unordered_set<std::uintptr_t> seen(known.begin(), known.end());
    std::vector<mx::array> open(outputs);
    while (!open.empty()) {
        mx::array node = std::move(open.back());
        open.pop_back();
        if (!seen.insert(node.id()).second || !node.has_primitive() || node.status() != mx::array::Status::unscheduled)
            continue;
        take_one(node, settings);
        open.insert(open.end(), node.inputs().begin(), node.inputs().end());
    }
}

void take(const std::vector<mx::array> &outputs, const std::vector<mx::array> &known, const Settings &settings)
{
    take(outputs, ids_of(known), settings);
}

} // namespace samebits_mlx
