#include "constant.h"

#include <algorithm>
#include <utility>

namespace mobicuda::onnx_import {

std::string to_string(const DimValue& value) {
  if (!value.times_batch) return std::to_string(value.value);
  return value.value == 1 ? "N" : std::to_string(value.value) + "*N";
}

ConstantPtr make_floats(const Shape& shape, std::span<const float> values) {
  return std::make_shared<const Constant>(std::make_shared<const HostTensor>(HostTensor::of<float>(shape, values)));
}

ConstantPtr make_integers(const Shape& shape, std::vector<DimValue> values) {
  return std::make_shared<const Constant>(shape, std::move(values));
}

namespace {

template <class T>
void copy_positions(const HostTensor& from, std::span<const std::size_t> positions, HostTensor& to) {
  const std::span<const T> in = from.data<T>();
  const std::span<T> out = to.data<T>();
  for (std::size_t i = 0; i < positions.size(); ++i) out[i] = in[positions[i]];
}

std::int64_t elements_behind(const Shape& shape, std::size_t axis) {
  std::int64_t elements = 1;
  for (std::size_t i = axis + 1; i < shape.rank(); ++i) elements *= shape[i];
  return elements;
}

}  // namespace

std::shared_ptr<const QuantizedConstant> moved(const QuantizedConstant& source, const Shape& shape, std::size_t axis,
                                               std::span<const std::size_t> positions) {
  auto result = std::make_shared<QuantizedConstant>();
  result->integers = HostTensor(source.integers.dtype(), shape);
  result->scales = source.scales;
  result->zero_points = source.zero_points;
  result->axis = axis;
  if (source.integers.dtype() == DType::I32) {
    copy_positions<std::int32_t>(source.integers, positions, result->integers);
  } else if (source.integers.dtype() == DType::U8) {
    copy_positions<std::uint8_t>(source.integers, positions, result->integers);
  } else {
    copy_positions<std::int8_t>(source.integers, positions, result->integers);
  }
  return result;
}

std::shared_ptr<const QuantizedConstant> in_shape(const QuantizedConstant& source, const Shape& shape) {
  const Shape& before = source.integers.shape();
  std::size_t axis = 0;
  if (source.scales.size() > 1) {
    const auto same = [&](std::size_t at) {
      return shape[at] == before[source.axis] && elements_behind(shape, at) == elements_behind(before, source.axis);
    };
    while (axis < shape.rank() && !same(axis)) ++axis;
    if (axis == shape.rank()) return nullptr;
  }
  auto result = std::make_shared<QuantizedConstant>(source);
  result->integers = HostTensor(source.integers.dtype(), shape);
  std::ranges::copy(source.integers.bytes(), result->integers.bytes().begin());
  result->axis = axis;
  return result;
}

}  // namespace mobicuda::onnx_import
