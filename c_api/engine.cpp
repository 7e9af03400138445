#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/onnx_import.h>
#include <mobicuda/plan_file.h>
#include <mobicuda/version.h>

#include "c_api/call.h"
#include "c_api/options.h"
#include "c_api/sized_struct.h"

namespace mobicuda::c_api {

namespace {

// The caller's to destroy.
mobicuda_engine* new_handle(std::shared_ptr<const Engine> engine) {
  return new mobicuda_engine{.engine = std::move(engine)};
}

std::shared_ptr<const Engine> compile(const Graph& graph, const RequestedOptions& requested) {
  return make_backend(requested.backend.value_or("custom"))->compile(graph, requested.for_network());
}

std::shared_ptr<const Engine> restore(const SavedEngine& saved, const RequestedOptions& requested,
                                      const std::string& name) {
  try {
    return make_backend(requested.backend.value_or(saved.backend))->restore(saved, requested.for_plan(saved));
  } catch (const Error& error) {
    throw error.inside(name);
  }
}

// mobicuda_tensor_info and mobicuda_layer_info have the same fields for a shape.
template <class Info>
void fill_shape(const Shape& shape, Info& info) {
  static_assert(Shape::kMaxRank == MOBICUDA_MAX_RANK);
  info.rank = shape.rank();
  std::ranges::copy(shape.dims(), info.shape);
}

void fill_tensor(const char* function, const TensorDesc& desc, mobicuda_tensor_info* given) {
  require(function, given, "info");
  mobicuda_tensor_info info{};
  info.dtype = desc.dtype == DType::U8 ? MOBICUDA_U8 : MOBICUDA_F32;
  info.layout = desc.layout == Layout::NHWC ? MOBICUDA_NHWC : MOBICUDA_NCHW;
  fill_shape(desc.shape, info);
  info.elements = desc.shape.elements();
  write_info("mobicuda_tensor_info", info, given);
}

}  // namespace

}  // namespace mobicuda::c_api

using namespace mobicuda;         // NOLINT(google-build-using-namespace): the functions below are outside of any
using namespace mobicuda::c_api;  // NOLINT(google-build-using-namespace)

const char* mobicuda_version() { return version().data(); }
int32_t mobicuda_version_number() { return MOBICUDA_VERSION_NUMBER; }

mobicuda_status mobicuda_engine_load_onnx(const char* path, const mobicuda_import_options* import,
                                          const mobicuda_engine_options* options, mobicuda_engine** engine) {
  return call(__func__, [&, function = __func__] {
    require(function, engine, "engine");
    *engine = nullptr;
    require(function, path, "path");
    const RequestedOptions requested = requested_options(options);
    const auto known = read_options("mobicuda_import_options", import);
    if (known.external_data_folder != nullptr) {
      throw Error(ErrorCode::invalid_argument, "mobicuda_import_options",
                  "external_data_folder: a file's external data is read from its own folder", "leave it NULL");
    }
    const Graph graph = onnx_import::load(path, import_options(known, requested.options.log));
    *engine = new_handle(compile(graph, requested));
  });
}

mobicuda_status mobicuda_engine_load_onnx_bytes(const void* bytes, size_t size, const char* name,
                                                const mobicuda_import_options* import,
                                                const mobicuda_engine_options* options, mobicuda_engine** engine) {
  return call(__func__, [&, function = __func__] {
    require(function, engine, "engine");
    *engine = nullptr;
    const auto model = buffer(function, static_cast<const std::byte*>(bytes), size, "bytes");
    const RequestedOptions requested = requested_options(options);
    const auto known = read_options("mobicuda_import_options", import);
    std::optional<std::filesystem::path> folder;
    if (known.external_data_folder != nullptr) folder = known.external_data_folder;
    const Graph graph = onnx_import::load_from_memory(model, name == nullptr ? "ONNX bytes" : name,
                                                      import_options(known, requested.options.log), folder);
    *engine = new_handle(compile(graph, requested));
  });
}

mobicuda_status mobicuda_engine_load_plan(const char* path, const mobicuda_engine_options* options,
                                          mobicuda_engine** engine) {
  return call(__func__, [&, function = __func__] {
    require(function, engine, "engine");
    *engine = nullptr;
    require(function, path, "path");
    const RequestedOptions requested = requested_options(options);
    *engine = new_handle(restore(plan_file::read(path), requested, path));
  });
}

mobicuda_status mobicuda_engine_load_plan_bytes(const void* bytes, size_t size, const char* name,
                                                const mobicuda_engine_options* options, mobicuda_engine** engine) {
  return call(__func__, [&, function = __func__] {
    require(function, engine, "engine");
    *engine = nullptr;
    const auto plan = buffer(function, static_cast<const std::byte*>(bytes), size, "bytes");
    const RequestedOptions requested = requested_options(options);
    const std::string shown = name == nullptr ? "plan bytes" : name;
    *engine = new_handle(restore(plan_file::read_from_memory(plan, shown), requested, shown));
  });
}

mobicuda_status mobicuda_engine_save_plan(const mobicuda_engine* engine, const char* path) {
  return call(__func__, [&, function = __func__] {
    const auto& saved = engine_of(function, engine);
    require(function, path, "path");
    plan_file::save(*saved, path);
  });
}

mobicuda_status mobicuda_engine_serialize(const mobicuda_engine* engine, void** bytes, size_t* size) {
  return call(__func__, [&, function = __func__] {
    const auto& saved = engine_of(function, engine);
    require(function, bytes, "bytes");
    require(function, size, "size");
    const std::vector<std::byte> plan = plan_file::save_to_memory(saved->saved());
    void* copy = std::malloc(plan.size());  // NOLINT(cppcoreguidelines-no-malloc): C callers' to free
    if (copy == nullptr) {
      throw Error(ErrorCode::out_of_memory, function, "no host memory for " + std::to_string(plan.size()) + " bytes");
    }
    std::memcpy(copy, plan.data(), plan.size());
    *bytes = copy;
    *size = plan.size();
  });
}

void mobicuda_free_bytes(void* bytes) { std::free(bytes); }  // NOLINT(cppcoreguidelines-no-malloc)

void mobicuda_engine_destroy(mobicuda_engine* engine) {
  if (engine == nullptr || engine->kind != HandleKind::Engine) return;
  delete engine;
}

mobicuda_status mobicuda_engine_get_info(const mobicuda_engine* engine, mobicuda_engine_info* info) {
  return call(__func__, [&, function = __func__] {
    const Engine& from = *engine_of(function, engine);
    require(function, info, "info");
    mobicuda_engine_info filled{};
    filled.backend = from.backend().data();  // literals: they end with NUL
    filled.precision = precision_number(from.options().precision);
    filled.device = from.options().device;
    filled.max_batch = from.options().max_batch;
    filled.upload_ms = from.upload_ms();
    write_info("mobicuda_engine_info", filled, info);
  });
}

mobicuda_status mobicuda_engine_get_input(const mobicuda_engine* engine, mobicuda_tensor_info* info) {
  return call(__func__,
              [&, function = __func__] { fill_tensor(function, engine_of(function, engine)->input(), info); });
}

mobicuda_status mobicuda_engine_get_output(const mobicuda_engine* engine, mobicuda_tensor_info* info) {
  return call(__func__,
              [&, function = __func__] { fill_tensor(function, engine_of(function, engine)->output(), info); });
}

mobicuda_status mobicuda_engine_get_memory(const mobicuda_engine* engine, mobicuda_memory_report* report) {
  return call(__func__, [&, function = __func__] {
    const MemoryReport memory = engine_of(function, engine)->memory();
    require(function, report, "report");
    mobicuda_memory_report filled{};
    filled.weight_bytes = memory.weight_bytes;
    filled.arena_bytes = memory.arena_bytes;
    filled.workspace_bytes = memory.workspace_bytes;
    filled.io_bytes = memory.io_bytes;
    write_info("mobicuda_memory_report", filled, report);
  });
}

mobicuda_status mobicuda_engine_get_layer_count(const mobicuda_engine* engine, int64_t n, size_t* count) {
  return call(__func__, [&, function = __func__] {
    const Engine& from = *engine_of(function, engine);
    require(function, count, "count");
    *count = from.layers(n).size();
  });
}

mobicuda_status mobicuda_engine_get_layer(const mobicuda_engine* engine, int64_t n, size_t layer,
                                          mobicuda_layer_info* info) {
  return call(__func__, [&, function = __func__] {
    const std::span<const LayerInfo> layers = engine_of(function, engine)->layers(n);
    require(function, info, "info");
    if (layer >= layers.size()) {
      throw Error(ErrorCode::invalid_argument, function,
                  "layer: must be less than " + std::to_string(layers.size()) + ", got " + std::to_string(layer));
    }
    const LayerInfo& from = layers[layer];
    mobicuda_layer_info filled{};
    filled.name = from.name.c_str();
    filled.kernel = from.kernel.c_str();
    filled.reason = from.reason.c_str();
    filled.value = from.value.c_str();
    fill_shape(from.output, filled);
    filled.flops = from.flops;
    filled.activation_bytes = from.activation_bytes;
    filled.weight_bytes = from.weight_bytes;
    write_info("mobicuda_layer_info", filled, info);
  });
}
