#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "file_descriptor.h"

namespace mobicuda::onnx_import {

/// How a path is kept inside the model's folder: by the kernel, or by us where the kernel is older than 5.6.
enum class OpenMethod { Openat2, EachComponent };

/// Opens a regular file below `folder` for reading. Refuses absolute paths, "..", links of either kind and
/// everything that is not a regular file. Throws Error (invalid_model, io). The only function that opens a file
/// named by a model.
FileDescriptor open_beneath(const FileDescriptor& folder, const std::string& location,
                            OpenMethod method = OpenMethod::Openat2);

/// The `external_data` entries of a tensor, parsed.
struct ExternalLocation {
  std::string location;
  std::int64_t offset = 0;
  std::optional<std::int64_t> length;  ///< absent: up to the file's end
};

/// The folder that a model's external data may come from.
class ExternalData {
 public:
  /// No folder: every read is refused.
  ExternalData() = default;
  explicit ExternalData(const std::filesystem::path& folder) : folder_(folder) {}

  /// Fills `bytes` from the file. Throws Error when the place does not lie inside the file or has not that size.
  void read(const ExternalLocation& place, std::span<std::byte> bytes) const;
  /// Checks all that read() would, short of reading: for use before memory is allocated.
  void check(const ExternalLocation& place, std::int64_t bytes) const;

 private:
  FileDescriptor open(const ExternalLocation& place, std::int64_t bytes) const;

  std::optional<std::filesystem::path> folder_;
};

}  // namespace mobicuda::onnx_import
