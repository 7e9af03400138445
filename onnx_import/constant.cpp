#include "constant.h"

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

}  // namespace mobicuda::onnx_import
