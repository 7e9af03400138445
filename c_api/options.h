#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <mobicuda/engine.h>
#include <mobicuda/mobicuda_c.h>
#include <mobicuda/onnx_import.h>
#include <mobicuda/saved_engine.h>

namespace mobicuda::c_api {

/// What a caller asks for, with what it left open left open: a plan decides that itself.
struct RequestedOptions {
  std::optional<std::string_view> backend;  ///< as Backend::name() has it
  std::optional<Precision> precision;
  std::optional<std::int64_t> max_batch;
  EngineOptions options;  ///< all else

  /// For a network out of an ONNX file.
  EngineOptions for_network() const;
  /// For a plan.
  EngineOptions for_plan(const SavedEngine& saved) const;
};

/// Both throw Error(invalid_argument) that names the field, and Error(unsupported) on fields of later versions.
RequestedOptions requested_options(const mobicuda_engine_options* given);
onnx_import::ImportOptions import_options(const mobicuda_import_options& known, const LogCallback& log);

/// Throws Error(unsupported) on implementations that this interface does not have.
std::unique_ptr<Backend> make_backend(std::string_view name);

std::int32_t precision_number(Precision precision) noexcept;

}  // namespace mobicuda::c_api
