// The library's options as a class; mobicuda/_options.py fills it in from keyword arguments.
#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <mobicuda/engine.h>

#include "bindings.h"
#include "errors.h"

namespace mobicuda::python {
namespace {

namespace nb = nanobind;

template <class T>
using Named = std::pair<std::string_view, T>;

constexpr std::array<Named<Precision>, 4> kPrecisions{{{"fp32", Precision::Fp32},
                                                       {"fp32_split", Precision::Fp32Split},
                                                       {"fp16", Precision::Fp16},
                                                       {"fp64", Precision::Fp64}}};
constexpr std::array<Named<HostTransfer>, 3> kHostTransfers{
    {{"auto", HostTransfer::Auto}, {"copy", HostTransfer::Copy}, {"direct", HostTransfer::Direct}}};
constexpr std::array<Named<Specialise>, 3> kSpecialise{
    {{"never", Specialise::Never}, {"auto", Specialise::Auto}, {"always", Specialise::Always}}};

/// A property whose value Python knows by name.
template <class Names, class T>
void bind_named(nb::class_<EngineOptions>& options, const char* property, const Names& names,
                T EngineOptions::*member) {
  options.def_prop_rw(
      property,
      [&names, member](const EngineOptions& self) -> std::string {
        for (const auto& [name, value] : names) {
          if (value == self.*member) return std::string(name);
        }
        return "";
      },
      [&names, member, property](EngineOptions& self, const std::string& given) {
        std::string known;
        for (const auto& [name, value] : names) {
          if (name == given) {
            self.*member = value;
            return;
          }
          known += (known.empty() ? "'" : ", '") + std::string(name) + "'";
        }
        raise_value_error(std::string(property) + " must be one of " + known + ", got '" + given + "'");
      });
}

}  // namespace

void bind_options(nb::module_& module) {
  nb::class_<PictureInput>(module, "PictureInput")
      .def(nb::init<std::array<float, 3>, std::array<float, 3>>())
      .def_ro("scale", &PictureInput::scale)
      .def_ro("shift", &PictureInput::shift);

  nb::class_<EngineOptions> options(module, "EngineOptions");
  options.def(nb::init<>())
      .def_rw("max_batch", &EngineOptions::max_batch)
      .def_rw("plan_batches", &EngineOptions::plan_batches, nb::arg().none())
      .def_rw("threads", &EngineOptions::threads)
      .def_rw("device", &EngineOptions::device)
      .def_rw("cuda_graph", &EngineOptions::cuda_graph)
      .def_rw("programmatic_launch", &EngineOptions::programmatic_launch)
      .def_rw("guarded_arena", &EngineOptions::guarded_arena)
      .def_rw("picture_input", &EngineOptions::picture_input, nb::arg().none())
      .def_rw("kernel_variants", &EngineOptions::kernel_variants)
      .def_rw("timing_cache", &EngineOptions::timing_cache)
      .def_rw("require_timing_cache", &EngineOptions::require_timing_cache)
      .def_rw("code_cache", &EngineOptions::code_cache, nb::arg().none())
      .def_rw("nvrtc_library", &EngineOptions::nvrtc_library)
      .def_rw("max_memory_bytes", &EngineOptions::max_memory_bytes);
  bind_named(options, "precision", kPrecisions, &EngineOptions::precision);
  bind_named(options, "host_transfer", kHostTransfers, &EngineOptions::host_transfer);
  bind_named(options, "specialise", kSpecialise, &EngineOptions::specialise);
}

}  // namespace mobicuda::python
