#include "initializer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "graph/half.h"
#include "text.h"

namespace mobicuda::onnx_import {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian and read as it is");

using schema::TensorProto;

// Which of a TensorProto's typed fields holds the elements when raw_data does not.
enum class Field { None, Floats, Doubles, Int32s, Int64s, Uint64s };

struct ElementType {
  std::int32_t onnx;
  std::string_view name;
  std::int64_t bytes;  // 0: elements are not whole bytes, or not numbers
  Field field;
};

constexpr std::array kElementTypes{
    ElementType{1, "FLOAT", 4, Field::Floats},       ElementType{2, "UINT8", 1, Field::Int32s},
    ElementType{3, "INT8", 1, Field::Int32s},        ElementType{4, "UINT16", 2, Field::Int32s},
    ElementType{5, "INT16", 2, Field::Int32s},       ElementType{6, "INT32", 4, Field::Int32s},
    ElementType{7, "INT64", 8, Field::Int64s},       ElementType{8, "STRING", 0, Field::None},
    ElementType{9, "BOOL", 1, Field::Int32s},        ElementType{10, "FLOAT16", 2, Field::Int32s},
    ElementType{11, "DOUBLE", 8, Field::Doubles},    ElementType{12, "UINT32", 4, Field::Uint64s},
    ElementType{13, "UINT64", 8, Field::Uint64s},    ElementType{14, "COMPLEX64", 0, Field::None},
    ElementType{15, "COMPLEX128", 0, Field::None},   ElementType{16, "BFLOAT16", 2, Field::Int32s},
    ElementType{17, "FLOAT8E4M3FN", 0, Field::None}, ElementType{18, "FLOAT8E4M3FNUZ", 0, Field::None},
    ElementType{19, "FLOAT8E5M2", 0, Field::None},   ElementType{20, "FLOAT8E5M2FNUZ", 0, Field::None},
    ElementType{21, "UINT4", 0, Field::None},        ElementType{22, "INT4", 0, Field::None},
    ElementType{23, "FLOAT4E2M1", 0, Field::None},   ElementType{24, "FLOAT8E8M0", 0, Field::None},
    ElementType{25, "UINT2", 0, Field::None},        ElementType{26, "INT2", 0, Field::None}};

const ElementType* find_type(std::int32_t onnx) {
  for (const ElementType& type : kElementTypes) {
    if (type.onnx == onnx) return &type;
  }
  return nullptr;
}

Error invalid_tensor(const std::string& message) { return {ErrorCode::invalid_model, "", message}; }

const ElementType& element_type(const TensorProto& tensor) {
  const ElementType* type = find_type(tensor.data_type());
  if (type == nullptr)
    throw invalid_tensor("data_type " + std::to_string(tensor.data_type()) + " is not an ONNX element type");
  if (type->field == Field::None) {
    throw Error(ErrorCode::unsupported, "", "elements of type " + std::string(type->name) + " are not supported");
  }
  return *type;
}

Shape checked_shape(const TensorProto& tensor, const ImportLimits& limits) {
  if (tensor.dims_size() > static_cast<int>(Shape::kMaxRank)) {
    throw Error(ErrorCode::unsupported, "",
                "rank must be <= " + std::to_string(Shape::kMaxRank) + ", got " + std::to_string(tensor.dims_size()));
  }
  std::int64_t elements = 1;
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0) throw invalid_tensor("dims must be >= 0, got " + std::to_string(dim));
    if (__builtin_mul_overflow(elements, dim, &elements)) throw invalid_tensor("the product of the dims overflows");
  }
  if (elements > limits.elements_per_tensor) {
    throw Error(
        ErrorCode::unsupported, "",
        "has " + std::to_string(elements) + " elements, the limit is " + std::to_string(limits.elements_per_tensor));
  }
  return Shape(std::span<const std::int64_t>(tensor.dims().data(), static_cast<std::size_t>(tensor.dims_size())));
}

int typed_fields(const TensorProto& tensor, Field except) {
  int count = 0;
  count += except != Field::Floats && tensor.float_data_size() > 0 ? 1 : 0;
  count += except != Field::Doubles && tensor.double_data_size() > 0 ? 1 : 0;
  count += except != Field::Int32s && tensor.int32_data_size() > 0 ? 1 : 0;
  count += except != Field::Int64s && tensor.int64_data_size() > 0 ? 1 : 0;
  count += except != Field::Uint64s && tensor.uint64_data_size() > 0 ? 1 : 0;
  count += tensor.string_data_size() > 0 ? 1 : 0;
  return count;
}

std::int64_t typed_size(const TensorProto& tensor, Field field) {
  switch (field) {
    case Field::Floats:
      return tensor.float_data_size();
    case Field::Doubles:
      return tensor.double_data_size();
    case Field::Int32s:
      return tensor.int32_data_size();
    case Field::Int64s:
      return tensor.int64_data_size();
    case Field::Uint64s:
      return tensor.uint64_data_size();
    case Field::None:
      break;
  }
  return 0;
}

std::int64_t parse_number(const std::string& key, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw invalid_tensor("external_data '" + key + "' must be a number, got " + in_quotes(text));
  }
  if (value < 0) throw invalid_tensor("external_data '" + key + "' must be >= 0, got " + std::to_string(value));
  return value;
}

ExternalLocation external_location(const TensorProto& tensor) {
  ExternalLocation place;
  std::vector<std::string> seen;
  for (const auto& entry : tensor.external_data()) {
    const std::string& key = entry.key();
    for (const std::string& other : seen) {
      if (other == key) throw invalid_tensor("external_data has the key " + in_quotes(key) + " twice");
    }
    seen.push_back(key);
    if (key == "location") {
      place.location = entry.value();
    } else if (key == "offset") {
      place.offset = parse_number(key, entry.value());
    } else if (key == "length") {
      place.length = parse_number(key, entry.value());
    } else if (key != "checksum") {
      throw invalid_tensor("external_data has the unknown key " + in_quotes(key));
    }
  }
  return place;
}

bool is_external(const TensorProto& tensor) { return tensor.data_location() == TensorProto::EXTERNAL; }

float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

// Calls sink(i, element) for each element as a T, out of raw bytes.
template <class T, class Sink>
void each_raw(std::span<const std::byte> raw, Sink sink) {
  for (std::size_t i = 0; i < raw.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    sink(i, value);
  }
}

template <class Values, class Sink>
void each_typed(const Values& values, Sink sink) {
  for (int i = 0; i < values.size(); ++i) sink(static_cast<std::size_t>(i), values.Get(i));
}

ConstantPtr decode_floats(const TensorProto& tensor, const Shape& shape, std::span<const std::byte> raw, bool typed) {
  auto result = std::make_shared<HostTensor>(DType::F32, shape);
  const std::span<float> out = result->data<float>();
  const auto half = [&](std::size_t i, auto bits) { out[i] = half_to_float(static_cast<std::uint16_t>(bits)); };
  const auto bfloat = [&](std::size_t i, auto bits) { out[i] = bfloat16_to_float(static_cast<std::uint16_t>(bits)); };
  const auto plain = [&](std::size_t i, auto value) { out[i] = static_cast<float>(value); };
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      typed ? each_typed(tensor.float_data(), plain) : each_raw<float>(raw, plain);
      break;
    case TensorProto::DOUBLE:
      typed ? each_typed(tensor.double_data(), plain) : each_raw<double>(raw, plain);
      break;
    case TensorProto::FLOAT16:
      typed ? each_typed(tensor.int32_data(), half) : each_raw<std::uint16_t>(raw, half);
      break;
    default:  // BFLOAT16
      typed ? each_typed(tensor.int32_data(), bfloat) : each_raw<std::uint16_t>(raw, bfloat);
      break;
  }
  return std::make_shared<const Constant>(std::shared_ptr<const HostTensor>(std::move(result)));
}

ConstantPtr decode_integers(const TensorProto& tensor, const Shape& shape, std::span<const std::byte> raw, bool typed) {
  if (shape.elements() > kMaxIntegerElements) {
    throw Error(ErrorCode::unsupported, "",
                "has " + std::to_string(shape.elements()) + " integer elements, the limit is " +
                    std::to_string(kMaxIntegerElements),
                "integer weights are not supported");
  }
  std::vector<DimValue> values(static_cast<std::size_t>(shape.elements()));
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): an INT8 is signed
  const auto store = [&](std::size_t i, auto value) { values[i].value = static_cast<std::int64_t>(value); };
  switch (tensor.data_type()) {
    case TensorProto::INT64:
      typed ? each_typed(tensor.int64_data(), store) : each_raw<std::int64_t>(raw, store);
      break;
    case TensorProto::UINT64:
      typed ? each_typed(tensor.uint64_data(), store) : each_raw<std::uint64_t>(raw, store);
      break;
    case TensorProto::UINT32:
      typed ? each_typed(tensor.uint64_data(), store) : each_raw<std::uint32_t>(raw, store);
      break;
    case TensorProto::INT16:
      typed ? each_typed(tensor.int32_data(), store) : each_raw<std::int16_t>(raw, store);
      break;
    case TensorProto::UINT16:
      typed ? each_typed(tensor.int32_data(), store) : each_raw<std::uint16_t>(raw, store);
      break;
    case TensorProto::INT8:
      typed ? each_typed(tensor.int32_data(), store) : each_raw<std::int8_t>(raw, store);
      break;
    case TensorProto::UINT8:
    case TensorProto::BOOL:
      typed ? each_typed(tensor.int32_data(), store) : each_raw<std::uint8_t>(raw, store);
      break;
    default:  // INT32
      typed ? each_typed(tensor.int32_data(), store) : each_raw<std::int32_t>(raw, store);
      break;
  }
  return make_integers(shape, std::move(values));
}

Shape shape_of(const TensorProto& tensor) {
  return Shape(std::span<const std::int64_t>(tensor.dims().data(), static_cast<std::size_t>(tensor.dims_size())));
}

// The bytes of elements that are not in a typed field: those of the file, or of another, which `outside` then holds.
std::span<const std::byte> raw_bytes(const TensorProto& tensor, const ExternalData& external, std::int64_t bytes,
                                     std::vector<std::byte>& outside) {
  if (!is_external(tensor)) return std::as_bytes(std::span(tensor.raw_data()));
  outside.resize(static_cast<std::size_t>(bytes));
  external.read(external_location(tensor), outside);
  return outside;
}

bool has_typed_field(const TensorProto& tensor) { return !is_external(tensor) && !tensor.has_raw_data(); }

}  // namespace

std::string data_type_name(std::int32_t data_type) {
  const ElementType* type = find_type(data_type);
  return type != nullptr ? std::string(type->name) : "type " + std::to_string(data_type);
}

bool is_float_type(std::int32_t data_type) {
  return data_type == TensorProto::FLOAT || data_type == TensorProto::FLOAT16 || data_type == TensorProto::BFLOAT16 ||
         data_type == TensorProto::DOUBLE;
}

bool is_integer_type(std::int32_t data_type) {
  const ElementType* type = find_type(data_type);
  return type != nullptr && type->field != Field::None && !is_float_type(data_type);
}

std::int64_t validate_tensor(const TensorProto& tensor, const ImportLimits& limits, const ExternalData& external) {
  const ElementType& type = element_type(tensor);
  const Shape shape = checked_shape(tensor, limits);
  const std::int64_t bytes = checked_multiply(shape.elements(), type.bytes);
  if (tensor.has_segment()) throw Error(ErrorCode::unsupported, "", "tensors in segments are not supported");
  if (is_external(tensor)) {
    if (tensor.has_raw_data() || typed_fields(tensor, Field::None) > 0) {
      throw invalid_tensor("has both external data and data in the file");
    }
    external.check(external_location(tensor), bytes);
    return bytes;
  }
  if (tensor.external_data_size() > 0) throw invalid_tensor("has external_data, but data_location is not EXTERNAL");
  if (typed_fields(tensor, type.field) > 0) {
    throw invalid_tensor("elements of type " + std::string(type.name) + " are in a data field for another type");
  }
  const std::int64_t typed = typed_size(tensor, type.field);
  if (tensor.has_raw_data()) {
    if (typed > 0) throw invalid_tensor("has both raw_data and a typed data field");
    const auto raw_bytes = static_cast<std::int64_t>(tensor.raw_data().size());
    if (raw_bytes != bytes) {
      throw invalid_tensor("raw_data has " + std::to_string(raw_bytes) + " bytes, but shape " + to_string(shape) +
                           " of " + std::string(type.name) + " needs " + std::to_string(bytes));
    }
  } else if (typed != shape.elements()) {
    throw invalid_tensor("has " + std::to_string(typed) + " elements, but shape " + to_string(shape) + " needs " +
                         std::to_string(shape.elements()));
  }
  return bytes;
}

bool is_byte_type(std::int32_t data_type) { return data_type == TensorProto::INT8 || data_type == TensorProto::UINT8; }

ConstantPtr decode_tensor(const TensorProto& tensor, const ExternalData& external, const LogCallback& log) {
  const Shape shape = shape_of(tensor);
  std::vector<std::byte> outside;
  const std::span<const std::byte> raw =
      raw_bytes(tensor, external, checked_multiply(shape.elements(), element_type(tensor).bytes), outside);
  if (tensor.data_type() == TensorProto::DOUBLE && log) {
    log(LogLevel::Warning, "tensor " + in_quotes(tensor.name()) + ": DOUBLE elements are rounded to float32");
  }
  const bool typed = has_typed_field(tensor);
  return is_float_type(tensor.data_type()) ? decode_floats(tensor, shape, raw, typed)
                                           : decode_integers(tensor, shape, raw, typed);
}

IntegersPtr decode_bytes(const TensorProto& tensor, const ExternalData& external) {
  auto result =
      std::make_shared<HostTensor>(tensor.data_type() == TensorProto::UINT8 ? DType::U8 : DType::I8, shape_of(tensor));
  if (has_typed_field(tensor)) {
    const std::span<std::byte> out = result->bytes();
    each_typed(tensor.int32_data(), [&](std::size_t i, std::int32_t value) {
      out[i] = static_cast<std::byte>(static_cast<std::uint8_t>(value));
    });
    return result;
  }
  std::vector<std::byte> outside;
  std::ranges::copy(raw_bytes(tensor, external, result->elements(), outside), result->bytes().begin());
  return result;
}

}  // namespace mobicuda::onnx_import
