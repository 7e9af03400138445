#include "graph/logical_floats.h"

#include <cstring>
#include <string>

#include <mobicuda/error.h>

#include "graph/half.h"
#include "graph/integer_arithmetic.h"

namespace mobicuda {
namespace {

template <class T>
T load(const std::byte* stored, std::size_t index) {
  T value;
  std::memcpy(&value, stored + index * sizeof(T), sizeof(T));
  return value;
}

// get(i) is the i-th stored element as float.
template <class Get>
void in_logical_order(const TensorDesc& picture, std::int64_t n, std::span<float> floats, Get get) {
  const Shape& shape = picture.shape;
  if (shape.rank() != 4 || picture.layout == Layout::NCHW) {
    for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = get(i);
    return;
  }
  const auto channels = static_cast<std::size_t>(shape[1]);
  const auto pixels = static_cast<std::size_t>(shape[2] * shape[3]);
  std::size_t next = 0;
  for (std::size_t one = 0; one < static_cast<std::size_t>(n); ++one) {
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
        floats[next++] = get((one * pixels + pixel) * channels + c);
      }
    }
  }
}

}  // namespace

void to_logical_floats(std::span<const std::byte> stored, const TensorDesc& picture, std::int64_t n,
                       std::span<float> floats) {
  const std::byte* data = stored.data();
  switch (picture.dtype) {
    case DType::F32:
      return in_logical_order(picture, n, floats, [data](std::size_t i) { return load<float>(data, i); });
    case DType::F16:
      return in_logical_order(picture, n, floats,
                              [data](std::size_t i) { return half_to_float(load<std::uint16_t>(data, i)); });
    case DType::F64:
      return in_logical_order(picture, n, floats,
                              [data](std::size_t i) { return static_cast<float>(load<double>(data, i)); });
    case DType::I8:
      return in_logical_order(picture, n, floats, [&](std::size_t i) {
        return dequantized(load<std::int8_t>(data, i) - picture.quantization.zero_point, picture.quantization.scale);
      });
    case DType::U8:
      return in_logical_order(picture, n, floats, [&](std::size_t i) {
        return dequantized(load<std::uint8_t>(data, i) - picture.quantization.zero_point, picture.quantization.scale);
      });
    default:
      throw Error(ErrorCode::internal, "layer output", "is " + std::string(to_string(picture.dtype)));
  }
}

}  // namespace mobicuda
