// Weights packed once for many products.
//
// MLX writes a result into the memory of an operand that nobody else holds. So an array's memory stands for the same
// numbers only while someone holds it: an entry with packed weights does. Its own hold is the last one when the arrays
// are gone; it is then dropped.
#include "extension.h"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>

namespace samebits_mlx
{

namespace
{

using Data = std::shared_ptr<mx::array::Data>;

struct Entry {
    std::weak_ptr<mx::array::Data> seen; // of the first use, which holds nothing
    std::vector<Data> held;
    std::shared_ptr<Packed> packed;
    int64_t size = 0;
};

constexpr int64_t MIN_ELEMENTS = 1 << 14; // smaller dense weights are packed within the call
constexpr size_t LOOKED_AT = 8;           // entries whose arrays each call looks after

std::mutex mutex;
// Never destroyed: at the process's end MLX's allocator may be gone before.
auto &entries = *new std::unordered_map<std::string, Entry>;
auto &sequence = *new std::vector<std::string>; // their keys, gone round by `hand`
size_t hand = 0;
int64_t used = 0;
int64_t budget = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE) / 4;

std::string key_of(const std::vector<mx::array> &arrays, const std::string &how)
{
    std::string key = how;
    const auto add = [&key](const auto &value) { key.append(reinterpret_cast<const char *>(&value), sizeof value); };
    for (const mx::array &a : arrays) {
        add(a.data_shared_ptr().get());
        add(a.offset());
        add(a.dtype().val());
        for (auto n : a.shape()) add(n);
        for (auto n : a.strides()) add(n);
    }
    return key;
}

bool gone(const Entry &entry)
{
    if (!entry.packed) return entry.seen.expired();
    return std::any_of(entry.held.begin(), entry.held.end(), [](const Data &d) { return d.use_count() == 1; });
}

void look_after(size_t count)
{
    for (count = std::min(count, sequence.size()); count--;) {
        hand %= sequence.size();
        const auto entry = entries.find(sequence[hand]);
        if (!gone(entry->second)) {
            hand++;
            continue;
        }
        used -= entry->second.size;
        entries.erase(entry);
        std::swap(sequence[hand], sequence.back());
        sequence.pop_back();
        if (sequence.empty()) return;
    }
}

} // namespace

std::shared_ptr<Packed> packed(const std::vector<mx::array> &arrays, const std::string &how)
{
    const std::string key = key_of(arrays, how);
    const std::lock_guard<std::mutex> lock(mutex);
    look_after(LOOKED_AT);
    const auto found = entries.find(key);
    if (found == entries.end() || gone(found->second)) {
        if (found == entries.end())
            sequence.push_back(key);
        else
            used -= found->second.size;
        entries[key] = Entry{arrays[0].data_shared_ptr(), {}, nullptr, 0};
        return std::make_shared<Packed>();
    }
    Entry &entry = found->second;
    if (entry.packed) return entry.packed;
    int64_t size = 0;
    for (const mx::array &a : arrays) size += static_cast<int64_t>(a.nbytes());
    if (used + size > budget) look_after(sequence.size());
    if (used + size > budget) return std::make_shared<Packed>();
    for (const mx::array &a : arrays) entry.held.push_back(a.data_shared_ptr());
    entry.packed = std::make_shared<Packed>();
    entry.size = size;
    used += size;
    return entry.packed;
}

std::shared_ptr<Packed> packed_dense(const mx::array &b)
{
    // b (K, N) as the transpose of weights (N, K) that lie row by row.
    if (b.ndim() != 2 || b.strides()[0] != 1 || b.strides()[1] < 0) return nullptr;
    if (static_cast<int64_t>(b.size()) < MIN_ELEMENTS) return nullptr;
    std::shared_ptr<Packed> place = packed({b}, "dense");
    return place.use_count() > 1 ? place : nullptr;
}

void set_packing_budget(int64_t bytes)
{
    if (bytes < 0) throw std::invalid_argument("the budget is " + std::to_string(bytes) + " bytes; want 0 or more");
    const std::lock_guard<std::mutex> lock(mutex);
    budget = bytes;
    if (used <= budget) return;
    entries.clear();
    sequence.clear();
    used = 0;
}

int64_t packed_bytes()
{
    const std::lock_guard<std::mutex> lock(mutex);
    look_after(sequence.size());
    return used;
}

} // namespace samebits_mlx
