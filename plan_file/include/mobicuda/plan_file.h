#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/export.h>
#include <mobicuda/saved_engine.h>

namespace mobicuda::plan_file {

/// Caps on what a file may ask for; the defaults admit every classifier we know of.
struct Limits {
  std::int64_t file_bytes = std::int64_t{8} << 30;
  std::int64_t structure_bytes = std::int64_t{32} << 20;  ///< its objects in memory take many times as much
  std::int64_t nodes = 131072;                            ///< those of an ONNX file, and changes of layout
  std::int64_t values = 262144;
  std::int64_t elements_per_tensor = kMaxElements;
  std::int64_t text_bytes = 65536;
  std::int64_t window = kMaxWindow;  ///< kernel, stride, dilation, padding
};

/// Milliseconds of the parts of read().
struct ReadTimes {
  double read_ms = 0;   ///< the file
  double check_ms = 0;  ///< its checksum
  double parse_ms = 0;  ///< the structure
};

/// Writes a compiled engine to a file, in place of what was there. docs/plan_files.md has the format. Throws
/// Error(unsupported) where the implementation cannot be saved or the engine is over the Limits of read(), Error(io),
/// Error(out_of_memory).
MOBICUDA_API void save(const Engine& engine, const std::filesystem::path& path);
/// The file's bytes.
MOBICUDA_API std::vector<std::byte> save_to_memory(const SavedEngine& engine);

/// Reads a plan file. Throws Error: io, unsupported (another format, library version or byte order), invalid_model (not
/// a plan file, damaged, or contradicting itself), out_of_memory. Never prints, never exits. Thread-safe.
MOBICUDA_API SavedEngine read(const std::filesystem::path& path, ReadTimes* times = nullptr, const Limits& limits = {});
MOBICUDA_API SavedEngine read_from_memory(std::span<const std::byte> bytes, const std::string& name,
                                          const Limits& limits = {});

/// read() and Backend::restore(), with the file's name in errors.
MOBICUDA_API std::shared_ptr<const Engine> load(const Backend& backend, const std::filesystem::path& path,
                                                const EngineOptions& options);

}  // namespace mobicuda::plan_file
