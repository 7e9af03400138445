#include "bench_engine/tensors/tensor_file.h"

#include <mobicuda_onnx.pb.h>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include <mobicuda/error.h>

#include "bench_engine/model/exit_codes.h"
#include "bench_engine/tensors/npy.h"

namespace mobicuda::bench {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers and are read as they are");

// Protobuf's own limit, and far more than a batch of pictures.
constexpr std::uintmax_t kMaxFileBytes = std::numeric_limits<std::int32_t>::max();

std::string read_bytes(const std::filesystem::path& path, const std::string& name) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw UsageError(name + ": cannot be read: " + error.message());
  if (size > kMaxFileBytes) {
    throw UsageError(name + ": expected at most " + std::to_string(kMaxFileBytes) + " bytes, got " +
                     std::to_string(size) + "; a batch of pictures is enough");
  }
  std::string bytes(size, '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!stream) throw UsageError(name + ": cannot be read");
  return bytes;
}

FileTensor parse_raw(std::string_view bytes, const std::string& name) {
  if (bytes.size() % sizeof(float) != 0) {
    throw UsageError(name + ": expected raw float32, got " + std::to_string(bytes.size()) +
                     " bytes, no multiple of 4; other formats are told by .npy, .pb or .txt");
  }
  FileTensor tensor;
  tensor.values.resize(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(tensor.values.data(), bytes.data(), bytes.size());
  return tensor;
}

FileTensor parse_text(const std::string& bytes, const std::string& name) {
  FileTensor tensor;
  std::istringstream stream(bytes);
  std::string word;
  while (stream >> word) {
    char* end = nullptr;
    errno = 0;
    const float value = std::strtof(word.c_str(), &end);
    // A number too small for a float is 0 or subnormal, which is what it was before printing.
    const bool too_large = errno == ERANGE && std::isinf(value);
    if (end != word.c_str() + word.size() || too_large) {
      throw UsageError(name + ": number " + std::to_string(tensor.values.size()) + ": '" + excerpt(word) +
                       "' is not a number" + (too_large ? " that fits float32" : ""));
    }
    tensor.values.push_back(value);
  }
  return tensor;
}

FileTensor parse_tensor_proto(const std::string& bytes, const std::string& name) {
  using Proto = onnx_schema::TensorProto;
  Proto proto;
  if (!proto.ParseFromString(bytes)) throw UsageError(name + ": not an ONNX TensorProto");
  FileTensor tensor;
  tensor.bytes = proto.data_type() == Proto::UINT8;
  if (proto.data_type() != Proto::FLOAT && !tensor.bytes) {
    throw UsageError(name + ": expected an ONNX TensorProto of FLOAT or UINT8, got data_type " +
                     std::to_string(proto.data_type()) + "; onnx.numpy_helper.from_array(array.astype('float32'))");
  }
  if (proto.data_location() == Proto::EXTERNAL) {
    throw UsageError(name + ": its data are in another file; save the tensor without external data");
  }
  tensor.shape.emplace(proto.dims().begin(), proto.dims().end());
  if (!proto.has_raw_data()) {
    if (tensor.bytes) {
      tensor.values.assign(proto.int32_data().begin(), proto.int32_data().end());
    } else {
      tensor.values.assign(proto.float_data().begin(), proto.float_data().end());
    }
  } else if (tensor.bytes) {
    for (const char byte : proto.raw_data()) tensor.values.push_back(static_cast<unsigned char>(byte));
  } else {
    tensor.values = parse_raw(proto.raw_data(), name).values;
  }
  if (checked_elements(*tensor.shape) != tensor.values.size()) {
    throw UsageError(name + ": its dims are " + shape_text(*tensor.shape) + ", but it holds " +
                     std::to_string(tensor.values.size()) + " numbers: truncated or damaged");
  }
  return tensor;
}

std::string text_of(std::span<const float> values) {
  std::ostringstream text;
  text.precision(std::numeric_limits<float>::max_digits10);
  for (const float value : values) text << value << '\n';
  return text.str();
}

std::string content_of(TensorFormat format, std::span<const std::int64_t> shape, std::span<const float> values) {
  std::string raw(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  switch (format) {
    case TensorFormat::Npy:
      return npy_header(shape) + raw;
    case TensorFormat::Text:
      return text_of(values);
    case TensorFormat::Raw:
      return raw;
    case TensorFormat::TensorProto:
      break;
  }
  onnx_schema::TensorProto proto;
  proto.set_data_type(onnx_schema::TensorProto::FLOAT);
  for (const std::int64_t extent : shape) proto.add_dims(extent);
  proto.set_raw_data(raw);
  return proto.SerializeAsString();
}

std::vector<std::int64_t> without_ones(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> kept;
  for (const std::int64_t extent : shape) {
    if (extent != 1) kept.push_back(extent);
  }
  return kept;
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string shown(text.substr(0, kShown));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return shown;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(extent);
  return text + ']';
}

TensorFormat tensor_format(const std::filesystem::path& path) {
  const auto ending = path.extension();
  if (ending == ".npy") return TensorFormat::Npy;
  if (ending == ".pb") return TensorFormat::TensorProto;
  if (ending == ".txt") return TensorFormat::Text;
  return TensorFormat::Raw;
}

FileTensor load_tensor(const std::filesystem::path& path, const std::string& option) {
  const std::string name = option + ' ' + path.string();
  const std::string bytes = read_bytes(path, name);
  switch (tensor_format(path)) {
    case TensorFormat::Npy:
      return parse_npy(bytes, name);
    case TensorFormat::TensorProto:
      return parse_tensor_proto(bytes, name);
    case TensorFormat::Text:
      return parse_text(bytes, name);
    case TensorFormat::Raw:
      break;
  }
  return parse_raw(bytes, name);
}

void save_tensor(const std::filesystem::path& path, std::span<const std::int64_t> shape,
                 std::span<const float> values) {
  std::ofstream stream(path, std::ios::binary);
  stream << content_of(tensor_format(path), shape, values);
  stream.close();
  if (!stream) throw Error(ErrorCode::io, path.string(), "cannot be written");
}

std::size_t count_items(const FileTensor& tensor, std::span<const std::int64_t> item, const std::string& what) {
  const auto wanted = without_ones(item);
  const std::size_t elements = checked_elements(item).value_or(0);
  const std::string expected = what + ": expected shape [N, " + shape_text(item).substr(1);
  if (tensor.shape && (tensor.shape->empty() || without_ones(std::span(*tensor.shape).subspan(1)) != wanted) &&
      without_ones(*tensor.shape) != wanted) {
    throw UsageError(expected + ", got " + shape_text(*tensor.shape) + "; transpose or reshape it");
  }
  if (tensor.values.empty() || elements == 0 || tensor.values.size() % elements != 0) {
    throw UsageError(expected + ", got " + std::to_string(tensor.values.size()) +
                     " numbers, which are not whole pictures of " + std::to_string(elements));
  }
  return tensor.values.size() / elements;
}

}  // namespace mobicuda::bench
