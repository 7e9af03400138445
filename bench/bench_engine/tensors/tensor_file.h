#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mobicuda::bench {

/// A tensor out of a file, its numbers as float whatever their type was.
struct FileTensor {
  std::optional<std::vector<std::int64_t>> shape;  ///< absent where the format has none: text and raw
  bool bytes = false;                              ///< the file holds uint8
  std::vector<float> values;
};

enum class TensorFormat { Npy, TensorProto, Text, Raw };

/// By the name's ending: .npy, .pb (an ONNX TensorProto), .txt (numbers separated by white space); raw
/// little-endian float32 otherwise.
TensorFormat tensor_format(const std::filesystem::path& path);

/// Reads a file of float32, or of uint8 where the format can tell. Throws UsageError saying `option`, the file,
/// what was expected, what it holds and what helps.
FileTensor load_tensor(const std::filesystem::path& path, const std::string& option);

/// Writes float32; text has one number a line, with as many digits as give the same float back.
/// `values` has as many elements as `shape`. Throws Error(io).
void save_tensor(const std::filesystem::path& path, std::span<const std::int64_t> shape, std::span<const float> values);

/// How many elements of shape `item` (a picture's input or output) the tensor holds, whose shape must be that of
/// one item, or of several with their number in front; extents of 1 may differ. Throws UsageError as load_tensor.
std::size_t count_items(const FileTensor& tensor, std::span<const std::int64_t> item, const std::string& what);

/// The beginning of a piece of a file, for messages: what cannot be printed becomes '?'.
std::string excerpt(std::string_view text);

/// "[8, 3, 224, 224]"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace mobicuda::bench
