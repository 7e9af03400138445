#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/export.h>
#include <mobicuda/graph.h>

namespace mobicuda::onnx_import {

/// Caps on what a file may ask for; the defaults admit every classifier we know of.
struct ImportLimits {
  std::int64_t file_bytes = 2147483647;  ///< protobuf's own ceiling
  std::int64_t nodes = 65536;
  std::int64_t initializers = 65536;
  std::int64_t elements_per_tensor = kMaxElements;
  std::int64_t weight_bytes = std::int64_t{8} << 30;
  /// All constants of the network, while it is imported. They are held besides to 64 MiB, 8 times what was read and
  /// twice what nodes made, since a node may have a copy of its own of an initializer that thousands share.
  std::int64_t memory_bytes = std::int64_t{16} << 30;
  /// All constants that nodes make out of a few numbers, such as the weights of a ConstantOfShape: a few bytes of a
  /// file can ask for any size. Each takes 8 bytes with its copies, so by default such a file may take 128 MiB for
  /// them.
  std::int64_t generated_elements = std::int64_t{1} << 24;
  std::int64_t name_bytes = 4096;
  std::int64_t attribute_entries = 1024;
  std::int64_t window = kMaxWindow;  ///< kernel, stride, dilation, padding
};

struct ImportOptions {
  ImportLimits limits;
  /// Extents of dimensions that the file leaves open, other than the batch: (C, H, W) or (H, W, C) in
  /// the file's order. Empty: the file must fix them.
  std::vector<std::int64_t> picture_shape;
  LogCallback log;  ///< told of harmless oddities, e.g. an IR version newer than known
};

/// Reads an ONNX model file into a verified graph. External data is read from the model's folder only.
///
/// The batch dimension (axis 0 of the input), fixed or dynamic in the file, becomes free: an engine
/// runs any batch. Throws Error: io, invalid_model, unsupported, out_of_memory; the message names the
/// file, node, operator, opset, attribute and value. Never prints, never exits. Thread-safe.
MOBICUDA_API Graph load(const std::filesystem::path& path, const ImportOptions& options = {});

/// The same from memory. External data is refused unless `external_data_folder` is given.
MOBICUDA_API Graph load_from_memory(std::span<const std::byte> bytes, const std::string& name,
                                    const ImportOptions& options = {},
                                    const std::optional<std::filesystem::path>& external_data_folder = {});

/// An operator that the importer knows, with the opsets it understands. One of another domain than ONNX's own has its
/// domain in front: "com.microsoft.FusedConv".
struct OperatorSupport {
  std::string name;
  std::int64_t first_opset;
  std::int64_t last_opset;
};

/// All of them, by name; for documentation and `bench_engine --listOps`.
MOBICUDA_API std::vector<OperatorSupport> supported_operators();

}  // namespace mobicuda::onnx_import
