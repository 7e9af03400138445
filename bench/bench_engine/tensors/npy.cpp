#include "bench_engine/tensors/npy.h"

#include <charconv>
#include <cstring>

#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kVersionBytes = 2;
constexpr std::size_t kMaxRank = 32;  // NumPy's own limit until version 2
constexpr std::size_t kDataAlignment = 64;

std::string_view without_spaces(std::string_view text) {
  const auto start = text.find_first_not_of(' ');
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

// The Python dictionary in front of the data.
class Header {
 public:
  Header(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  // What is written after 'key':
  std::string_view after(std::string_view key) const {
    const std::string quoted = "'" + std::string(key) + "':";
    const auto at = text_.find(quoted);
    if (at == std::string_view::npos) throw UsageError(name_ + ": damaged .npy header, it lacks " + quoted);
    return without_spaces(text_.substr(at + quoted.size()));
  }

  std::string_view type() const {
    const std::string_view value = after("descr");
    const auto end = value.find('\'', 1);
    if (!value.starts_with('\'') || end == std::string_view::npos) return value;
    return value.substr(1, end - 1);
  }

  std::vector<std::int64_t> shape() const {
    std::string_view rest = after("shape");
    std::vector<std::int64_t> dims;
    if (!rest.starts_with('(')) throw damaged_shape();
    rest = without_spaces(rest.substr(1));
    while (!rest.starts_with(')')) {
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
      if (error != std::errc() || extent < 0 || dims.size() == kMaxRank) throw damaged_shape();
      dims.push_back(extent);
      rest = without_spaces(rest.substr(static_cast<std::size_t>(end - rest.data())));
      if (rest.starts_with(',')) {
        rest = without_spaces(rest.substr(1));
      } else if (!rest.starts_with(')')) {
        throw damaged_shape();
      }
    }
    return dims;
  }

 private:
  UsageError damaged_shape() const {
    return UsageError(name_ + ": damaged .npy header, 'shape' is no tuple of extents");
  }

  std::string_view text_;
  const std::string& name_;
};

// The dictionary; `start` becomes where the data begins.
std::string_view find_header(std::string_view bytes, const std::string& name, std::size_t& start) {
  if (!bytes.starts_with(kMagic)) throw UsageError(name + ": not a .npy file, it does not begin with \\x93NUMPY");
  const std::size_t length_at = kMagic.size() + kVersionBytes;
  if (bytes.size() < length_at + 2) throw UsageError(name + ": ends within the .npy header");
  const int version = static_cast<unsigned char>(bytes[kMagic.size()]);
  if (version < 1 || version > 3) {
    throw UsageError(name + ": .npy version " + std::to_string(version) + ", expected 1 to 3");
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size() < length_at + length_bytes) throw UsageError(name + ": ends within the .npy header");
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[length_at + i])) << (8 * i);
  }
  start = length_at + length_bytes + length;
  if (start > bytes.size()) throw UsageError(name + ": ends within the .npy header");
  return bytes.substr(length_at + length_bytes, length);
}

}  // namespace

std::optional<std::size_t> checked_elements(std::span<const std::int64_t> shape) {
  std::size_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, static_cast<std::size_t>(extent), &elements)) return {};
  }
  return elements;
}

FileTensor parse_npy(std::string_view bytes, const std::string& name) {
  std::size_t start = 0;
  const Header header(find_header(bytes, name, start), name);
  FileTensor tensor;
  const std::string_view type = header.type();
  tensor.bytes = type == "|u1";
  if (type != "<f4" && !tensor.bytes) {
    throw UsageError(name + ": expected float32 ('<f4') or uint8 ('|u1'), got " + excerpt(type) +
                     "; array.astype('<f4') converts");
  }
  if (!header.after("fortran_order").starts_with("False")) {
    throw UsageError(name + ": expected C order, got Fortran order; numpy.ascontiguousarray converts");
  }
  tensor.shape = header.shape();
  const std::size_t width = tensor.bytes ? 1 : sizeof(float);
  const auto elements = checked_elements(*tensor.shape);
  const std::string_view data = bytes.substr(start);
  if (!elements || data.size() % width != 0 || *elements != data.size() / width) {
    throw UsageError(name + ": its header says shape " + shape_text(*tensor.shape) + ", but " +
                     std::to_string(data.size()) + " bytes of data follow: truncated or damaged");
  }
  tensor.values.resize(*elements);
  if (tensor.bytes) {
    for (std::size_t i = 0; i < *elements; ++i) tensor.values[i] = static_cast<unsigned char>(data[i]);
  } else if (*elements > 0) {
    std::memcpy(tensor.values.data(), data.data(), data.size());
  }
  return tensor;
}

std::string npy_header(std::span<const std::int64_t> shape) {
  std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const std::int64_t extent : shape) dictionary += std::to_string(extent) + ", ";
  dictionary += "), }";
  constexpr std::size_t kLengthBytes = 2;
  const std::size_t before = kMagic.size() + kVersionBytes + kLengthBytes;
  while ((before + dictionary.size() + 1) % kDataAlignment != 0) dictionary += ' ';
  dictionary += '\n';
  std::string header(kMagic);
  header += {'\x01', '\0', static_cast<char>(dictionary.size() & 0xFF), static_cast<char>(dictionary.size() >> 8)};
  return header + dictionary;
}

}  // namespace mobicuda::bench
