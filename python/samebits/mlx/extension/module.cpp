// The extension module samebits.mlx._extension.
#include "extension.h"

#include <mlx/compile_impl.h>
#include <mlx/version.h>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace samebits_mlx;

namespace samebits_mlx
{

void check(samebits_status status)
{
    switch (status) {
    case SAMEBITS_OK: return;
    case SAMEBITS_ERR_MEMORY: throw std::bad_alloc();
    case SAMEBITS_ERR_UNSUPPORTED: throw NotImplemented(samebits_last_error());
    default: throw std::invalid_argument(samebits_last_error());
    }
}

samebits_context *context_of(int threads)
{
    static std::mutex mutex;
    static std::map<int, samebits_context *> contexts; // primitives of any age refer to them
    const std::lock_guard<std::mutex> lock(mutex);
    samebits_context *&context = contexts[threads];
    if (!context) {
        samebits_options options;
        samebits_options_default(&options);
        options.threads = threads;
        check(samebits_create(&context, &options));
    }
    return context;
}

} // namespace samebits_mlx

namespace
{

// The arrays of a call, before it is made: @= gives an array a new place in the graph.
struct Known {
    Ids ids;
};

Known known_of(const nb::args &args, const nb::kwargs &kwargs)
{
    Known known;
    const auto add = [&known](nb::handle value) {
        if (nb::isinstance<mx::array>(value)) known.ids.push_back(nb::cast<const mx::array &>(value).id());
    };
    for (nb::handle value : args) add(value);
    for (const auto &item : kwargs) add(item.second);
    return known;
}

void take_result(nb::handle out, const Known &known, const Settings &settings)
{
    std::vector<mx::array> outputs;
    if (nb::isinstance<mx::array>(out))
        outputs.push_back(nb::cast<const mx::array &>(out));
    else if (nb::isinstance<nb::tuple>(out) || nb::isinstance<nb::list>(out))
        for (nb::handle value : out)
            if (nb::isinstance<mx::array>(value)) outputs.push_back(nb::cast<const mx::array &>(value));
    take(outputs, known.ids, settings);
}

std::map<std::string, int64_t> copy_of(Counts &counts, std::map<std::string, int64_t> Counts::*which)
{
    const std::lock_guard<std::mutex> lock(counts.mutex);
    return counts.*which;
}

} // namespace

NB_MODULE(_extension, m)
{
    nb::module_::import_("mlx.core"); // whose types these functions take
    nb::register_exception_translator([](const std::exception_ptr &p, void *) {
        try {
            std::rethrow_exception(p);
        } catch (const NotImplemented &e) {
            PyErr_SetString(PyExc_NotImplementedError, e.what());
        }
    });
    m.attr("mlx_version") = std::to_string(MLX_VERSION_MAJOR) + "." + std::to_string(MLX_VERSION_MINOR) + "." +
                            std::to_string(MLX_VERSION_PATCH);
    m.attr("version") = SAMEBITS_VERSION_STRING;

    nb::class_<Counts>(m, "Counts")
        .def(nb::init<>())
        .def_prop_ro("invariant", [](Counts &c) { return copy_of(c, &Counts::invariant); })
        .def_prop_ro("stock", [](Counts &c) { return copy_of(c, &Counts::stock); });
    nb::class_<Settings>(m, "Settings")
        .def(
            "__init__",
            [](Settings *self, int64_t limit, bool strict, int threads, std::shared_ptr<Counts> counts) {
                new (self) Settings{limit, strict, context_of(threads), std::move(counts)};
            },
            nb::arg("limit"), nb::arg("strict"), nb::arg("threads"), nb::arg("counts").none());

    nb::class_<Known>(m, "Known");
    m.def("known_of", &known_of);
    m.def("take", &take_result);
    m.def("attention", &attention, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("scale"), nb::arg("mask_mode"),
          nb::arg("mask").none(), nb::arg("sinks").none(), nb::arg("settings"), nb::arg("stream").none() = nb::none());
    m.def("limit", &samebits_limit);
    m.def("set_limit", [](int64_t rows) { check(samebits_limit_set(rows)); });
    m.def("forget_compiled", [] { mx::detail::compile_clear_cache(mx::detail::compile_cache()); });
    m.def("set_packing_budget", &set_packing_budget);
    m.def("packed_bytes", &packed_bytes);
}
