#include "c_api/options.h"

#include <cstddef>
#include <span>
#include <string>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/custom_backend.h>

#include "c_api/sized_struct.h"

namespace mobicuda::c_api {

namespace {

constexpr const char* kEngineOptions = "mobicuda_engine_options";
constexpr const char* kImportOptions = "mobicuda_import_options";
constexpr std::size_t kMaxKernelVariants = 1024;  // there are fewer kernels

[[noreturn]] void refuse(const char* structure, const std::string& message) {
  throw Error(ErrorCode::invalid_argument, structure, message);
}

[[noreturn]] void refuse_value(const char* field, std::int32_t value) {
  refuse(kEngineOptions, std::string(field) + ": there is no value " + std::to_string(value));
}

std::optional<std::string_view> backend_name(std::int32_t value) {
  switch (value) {
    case MOBICUDA_BACKEND_DEFAULT:
      return std::nullopt;
    case MOBICUDA_BACKEND_CUSTOM:
      return "custom";
    case MOBICUDA_BACKEND_CPU:
      return "cpu";
    default:
      refuse_value("backend", value);
  }
}

std::optional<Precision> precision_of(std::int32_t value) {
  switch (value) {
    case MOBICUDA_PRECISION_DEFAULT:
      return std::nullopt;
    case MOBICUDA_PRECISION_FP32:
      return Precision::Fp32;
    case MOBICUDA_PRECISION_TF32:
      return Precision::Tf32;
    case MOBICUDA_PRECISION_FP16:
      return Precision::Fp16;
    case MOBICUDA_PRECISION_FP64:
      return Precision::Fp64;
    case MOBICUDA_PRECISION_FP32_SPLIT:
      return Precision::Fp32Split;
    default:
      refuse_value("precision", value);
  }
}

HostTransfer host_transfer_of(std::int32_t value) {
  switch (value) {
    case MOBICUDA_TRANSFER_AUTO:
      return HostTransfer::Auto;
    case MOBICUDA_TRANSFER_COPY:
      return HostTransfer::Copy;
    case MOBICUDA_TRANSFER_DIRECT:
      return HostTransfer::Direct;
    default:
      refuse_value("host_transfer", value);
  }
}

Specialise specialise_of(std::int32_t value) {
  switch (value) {
    case MOBICUDA_SPECIALISE_AUTO:
      return Specialise::Auto;
    case MOBICUDA_SPECIALISE_NEVER:
      return Specialise::Never;
    case MOBICUDA_SPECIALISE_ALWAYS:
      return Specialise::Always;
    default:
      refuse_value("specialise", value);
  }
}

std::optional<std::vector<std::int64_t>> plan_batches_of(const mobicuda_engine_options& given, std::int64_t max_batch) {
  if (given.plan_batches == nullptr) {
    if (given.plan_batch_count != 0) refuse(kEngineOptions, "plan_batches is NULL, but plan_batch_count is not 0");
    return std::nullopt;
  }
  if (given.plan_batch_count > static_cast<std::size_t>(max_batch)) {
    refuse(kEngineOptions, "plan_batch_count: must be at most max_batch (" + std::to_string(max_batch) + "), got " +
                               std::to_string(given.plan_batch_count));
  }
  return std::vector<std::int64_t>(given.plan_batches, given.plan_batches + given.plan_batch_count);
}

std::map<std::string, std::string> kernel_variants_of(const mobicuda_engine_options& given) {
  if (given.kernel_variant_count > kMaxKernelVariants) {
    refuse(kEngineOptions,
           "kernel_variant_count: there are not " + std::to_string(given.kernel_variant_count) + " kernels");
  }
  if (given.kernel_variants == nullptr && given.kernel_variant_count != 0) {
    refuse(kEngineOptions, "kernel_variants is NULL, but kernel_variant_count is not 0");
  }
  std::map<std::string, std::string> variants;
  for (std::size_t i = 0; i < given.kernel_variant_count; ++i) {
    const mobicuda_kernel_variant& one = given.kernel_variants[i];
    if (one.kernel == nullptr || one.variant == nullptr) {
      refuse(kEngineOptions, "kernel_variants[" + std::to_string(i) + "]: kernel or variant is NULL");
    }
    if (!variants.emplace(one.kernel, one.variant).second) {
      refuse(kEngineOptions, "kernel_variants: '" + std::string(one.kernel) + "' is named twice");
    }
  }
  return variants;
}

LogCallback log_of(const mobicuda_engine_options& given) {
  if (given.log == nullptr) return {};
  return [log = given.log, user_data = given.log_user_data](LogLevel level, std::string_view message) {
    log(level == LogLevel::Warning ? MOBICUDA_LOG_WARNING : MOBICUDA_LOG_INFO, std::string(message).c_str(), user_data);
  };
}

}  // namespace

EngineOptions RequestedOptions::for_network() const {
  EngineOptions complete = options;
  complete.precision = precision.value_or(complete.precision);
  complete.max_batch = max_batch.value_or(complete.max_batch);
  return complete;
}

EngineOptions RequestedOptions::for_plan(const SavedEngine& saved) const {
  EngineOptions complete = options;
  complete.precision = precision.value_or(saved.options.precision);
  complete.max_batch = max_batch.value_or(saved.options.max_batch);
  if (!complete.picture_input) complete.picture_input = saved.options.picture_input;
  return complete;
}

RequestedOptions requested_options(const mobicuda_engine_options* given) {
  const mobicuda_engine_options known = read_options(kEngineOptions, given);
  if (known.reserved != 0) refuse(kEngineOptions, "reserved: must be 0, got " + std::to_string(known.reserved));
  if (known.max_batch < 0)
    refuse(kEngineOptions, "max_batch: must be at least 1, got " + std::to_string(known.max_batch));
  if (known.max_memory_bytes < 0) {
    refuse(kEngineOptions, "max_memory_bytes: must not be negative, got " + std::to_string(known.max_memory_bytes));
  }
  RequestedOptions requested;
  requested.backend = backend_name(known.backend);
  requested.precision = precision_of(known.precision);
  if (known.max_batch != 0) requested.max_batch = known.max_batch;
  EngineOptions& options = requested.options;
  options.plan_batches = plan_batches_of(known, known.max_batch == 0 ? options.max_batch : known.max_batch);
  options.threads = known.threads;
  options.device = known.device;
  options.cuda_graph = known.no_cuda_graph == 0;
  options.programmatic_launch = known.no_programmatic_launch == 0;
  options.guarded_arena = known.guarded_arena != 0;
  if (known.picture_input != 0) {
    options.picture_input.emplace();
    std::copy_n(known.picture_scale, 3, options.picture_input->scale.begin());
    std::copy_n(known.picture_shift, 3, options.picture_input->shift.begin());
  }
  options.host_transfer = host_transfer_of(known.host_transfer);
  options.kernel_variants = kernel_variants_of(known);
  if (known.timing_cache != nullptr) options.timing_cache = known.timing_cache;
  options.require_timing_cache = known.require_timing_cache != 0;
  options.specialise = specialise_of(known.specialise);
  if (known.code_cache != nullptr) options.code_cache = known.code_cache;
  if (known.nvrtc_library != nullptr) options.nvrtc_library = known.nvrtc_library;
  options.max_memory_bytes = known.max_memory_bytes;
  options.log = log_of(known);
  return requested;
}

onnx_import::ImportOptions import_options(const mobicuda_import_options& known, const LogCallback& log) {
  onnx_import::ImportOptions options;
  options.log = log;
  if (known.picture_shape == nullptr && known.picture_shape_count != 0) {
    refuse(kImportOptions, "picture_shape is NULL, but picture_shape_count is not 0");
  }
  if (known.picture_shape_count > Shape::kMaxRank) {
    refuse(kImportOptions, "picture_shape_count: must be at most " + std::to_string(Shape::kMaxRank) + ", got " +
                               std::to_string(known.picture_shape_count));
  }
  options.picture_shape.assign(known.picture_shape, known.picture_shape + known.picture_shape_count);
  const auto limit = [](std::int64_t& target, std::int64_t value, const char* field) {
    if (value < 0) refuse(kImportOptions, std::string(field) + ": must not be negative, got " + std::to_string(value));
    if (value != 0) target = value;
  };
  onnx_import::ImportLimits& limits = options.limits;
  limit(limits.file_bytes, known.file_bytes, "file_bytes");
  limit(limits.nodes, known.nodes, "nodes");
  limit(limits.initializers, known.initializers, "initializers");
  limit(limits.elements_per_tensor, known.elements_per_tensor, "elements_per_tensor");
  limit(limits.weight_bytes, known.weight_bytes, "weight_bytes");
  limit(limits.memory_bytes, known.memory_bytes, "memory_bytes");
  limit(limits.generated_elements, known.generated_elements, "generated_elements");
  limit(limits.name_bytes, known.name_bytes, "name_bytes");
  limit(limits.attribute_entries, known.attribute_entries, "attribute_entries");
  limit(limits.window, known.window, "window");
  return options;
}

std::unique_ptr<Backend> make_backend(std::string_view name) {
  if (name == "custom") return make_custom_backend();
  if (name == "cpu") return make_cpu_backend();
  throw Error(ErrorCode::unsupported, "", "the C interface has no implementation '" + std::string(name) + "'");
}

std::int32_t precision_number(Precision precision) noexcept {
  switch (precision) {
    case Precision::Fp32:
      return MOBICUDA_PRECISION_FP32;
    case Precision::Tf32:
      return MOBICUDA_PRECISION_TF32;
    case Precision::Fp16:
      return MOBICUDA_PRECISION_FP16;
    case Precision::Fp64:
      return MOBICUDA_PRECISION_FP64;
    case Precision::Fp32Split:
      return MOBICUDA_PRECISION_FP32_SPLIT;
  }
  return MOBICUDA_PRECISION_DEFAULT;
}

}  // namespace mobicuda::c_api
