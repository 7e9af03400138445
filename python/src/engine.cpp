// Engines: made from ONNX and plan files, described, and written.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "arrays.h"
#include "bindings.h"
#include "engine_object.h"
#include "errors.h"
#include "log_sink.h"

namespace mobicuda::python {
namespace {

namespace nb = nanobind;
namespace fs = std::filesystem;
using namespace nb::literals;

constexpr const char* kBytesName = "<bytes>";  ///< what errors call a model that came from memory

std::span<const std::byte> span_of(const nb::bytes& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

std::unique_ptr<Backend> make_backend(const std::string& name) {
  return name == "custom" ? make_custom_backend() : make_cpu_backend();
}

void tell(const EngineOptions& options, LogLevel level, const std::string& text) {
  if (options.log) options.log(level, text);
}

/// The custom engine where a GPU can be used, else the CPU's. Nothing else decides: a model or precision that the
/// engine lacks is an error.
std::shared_ptr<const Engine> compile_auto(const Graph& graph, const EngineOptions& options) {
  std::string why_not;
  try {
    const auto engine = make_custom_backend()->compile(graph, options);
    tell(options, LogLevel::Info, "backend auto: the custom engine, on GPU " + std::to_string(options.device));
    return engine;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::device_unavailable || options.specialise == Specialise::Always) throw;
    why_not = error.what();
  }
  tell(options, LogLevel::Warning, "backend auto: the cpu engine, as no GPU can be used: " + why_not);
  try {
    return make_cpu_backend()->compile(graph, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    throw Error(error.code(), error.where(), error.message(),
                (error.hint().empty() ? "" : error.hint() + "; ") + "backend 'auto' chose the cpu engine: " + why_not);
  }
}

EngineObject compile(const Graph& graph, const std::string& backend, const EngineOptions& options) {
  const auto engine = backend == "auto" ? compile_auto(graph, options) : make_backend(backend)->compile(graph, options);
  return EngineObject(engine, graph.value(graph.input()).name, graph.value(graph.output()).name);
}

/// Runs `make` without the GIL, with a log that goes to `log`.
EngineObject with_log(const EngineOptions& options, nb::object log,
                      const std::function<EngineObject(const EngineOptions&)>& make) {
  LogSink sink(std::move(log));
  EngineOptions logged = options;
  logged.log = sink.callback();
  std::optional<EngineObject> made;
  try {
    const nb::gil_scoped_release no_gil;
    made.emplace(make(logged));
  } catch (const Error&) {
    sink.finish();  // what the callable raised came first
    throw;
  }
  sink.finish();
  return std::move(*made);
}

onnx_import::ImportOptions import_options(const EngineOptions& options, std::vector<std::int64_t> picture_shape) {
  onnx_import::ImportOptions import;
  import.picture_shape = std::move(picture_shape);
  import.log = options.log;
  return import;
}

EngineObject from_onnx_file(const fs::path& path, const std::string& backend, const EngineOptions& options,
                            const std::vector<std::int64_t>& picture_shape, nb::object log) {
  return with_log(options, std::move(log), [&](const EngineOptions& logged) {
    return compile(onnx_import::load(path, import_options(logged, picture_shape)), backend, logged);
  });
}

EngineObject from_onnx_bytes(const nb::bytes& model, const std::string& backend, const EngineOptions& options,
                             const std::vector<std::int64_t>& picture_shape, nb::object log) {
  const auto bytes = span_of(model);
  return with_log(options, std::move(log), [&](const EngineOptions& logged) {
    return compile(onnx_import::load_from_memory(bytes, kBytesName, import_options(logged, picture_shape)), backend,
                   logged);
  });
}

/// What was saved decides what it was compiled with; `options` decide how it runs.
EngineObject restore(const SavedEngine& saved, const std::string& name, EngineOptions options) {
  options.precision = saved.options.precision;
  options.max_batch = saved.options.max_batch;
  options.picture_input = saved.options.picture_input;
  try {
    return EngineObject(make_backend(saved.backend)->restore(saved, options),
                        saved.graph.value(saved.graph.input()).name, saved.graph.value(saved.graph.output()).name);
  } catch (const Error& error) {
    throw error.inside(name);
  }
}

EngineObject from_plan_file(const fs::path& path, const EngineOptions& options, nb::object log) {
  return with_log(options, std::move(log),
                  [&](const EngineOptions& logged) { return restore(plan_file::read(path), path.string(), logged); });
}

EngineObject from_plan_bytes(const nb::bytes& plan, const EngineOptions& options, nb::object log) {
  const auto bytes = span_of(plan);
  return with_log(options, std::move(log), [&](const EngineOptions& logged) {
    return restore(plan_file::read_from_memory(bytes, kBytesName), kBytesName, logged);
  });
}

nb::bytes serialize(const EngineObject& self) {
  const auto engine = self.engine();
  std::vector<std::byte> bytes;
  {
    const nb::gil_scoped_release no_gil;
    bytes = plan_file::save_to_memory(engine->saved());
  }
  return nb::bytes(bytes.data(), bytes.size());
}

void save(const EngineObject& self, const fs::path& path) {
  const auto engine = self.engine();
  const nb::gil_scoped_release no_gil;
  plan_file::save(*engine, path);
}

nb::object shape_tuple(const std::vector<std::int64_t>& extents) {
  nb::list list;
  for (const std::int64_t extent : extents) list.append(extent);
  return nb::tuple(list);
}

/// (name, dtype, extents of one image in the order of memory, layout or "")
nb::tuple tensor_info(const std::string& name, const TensorDesc& desc) {
  const std::string layout(desc.shape.rank() == 4 ? to_string(desc.layout) : "");
  return nb::make_tuple(to_text(name), dtype_name(desc.dtype), shape_tuple(image_extents(desc)), layout);
}

/// In the order of mobicuda.LayerInfo's fields.
nb::tuple layer_tuple(const LayerInfo& layer) {
  const auto dims = layer.output.dims();
  return nb::make_tuple(to_text(layer.name), to_text(layer.kernel), shape_tuple({dims.begin(), dims.end()}),
                        layer.flops, layer.activation_bytes, layer.weight_bytes, to_text(layer.reason),
                        to_text(layer.value));
}

nb::list layers(const EngineObject& self, std::int64_t n) {
  nb::list list;
  for (const LayerInfo& layer : self.engine()->layers(n)) list.append(layer_tuple(layer));
  return list;
}

}  // namespace

void bind_engine(nb::module_& module) {
  nb::class_<EngineObject>(module, "Engine")
      .def_prop_ro("backend", [](const EngineObject& self) { return to_text(self.engine()->backend()); })
      .def_prop_ro(
          "options", [](const EngineObject& self) { return self.engine()->options(); }, nb::rv_policy::move)
      .def_prop_ro("input",
                   [](const EngineObject& self) { return tensor_info(self.input_name(), self.engine()->input()); })
      .def_prop_ro("output",
                   [](const EngineObject& self) { return tensor_info(self.output_name(), self.engine()->output()); })
      .def_prop_ro("memory",
                   [](const EngineObject& self) {
                     const MemoryReport report = self.engine()->memory();
                     return nb::make_tuple(report.weight_bytes, report.arena_bytes, report.workspace_bytes,
                                           report.io_bytes);
                   })
      .def_prop_ro("upload_ms", [](const EngineObject& self) { return self.engine()->upload_ms(); })
      .def("layers", &layers, "n"_a)
      .def("serialize", &serialize)
      .def("save", &save, "path"_a);
  module.def("from_onnx_file", &from_onnx_file, "path"_a, "backend"_a, "options"_a, "picture_shape"_a, "log"_a.none());
  module.def("from_onnx_bytes", &from_onnx_bytes, "model"_a, "backend"_a, "options"_a, "picture_shape"_a,
             "log"_a.none());
  module.def("from_plan_file", &from_plan_file, "path"_a, "options"_a, "log"_a.none());
  module.def("from_plan_bytes", &from_plan_bytes, "plan"_a, "options"_a, "log"_a.none());
}

}  // namespace mobicuda::python
