#include "scale_shift.h"

#include <string>

namespace mobicuda::onnx_import {

ValueId add_scale_shift(NodeImporter& node, ValueId x, std::span<const float> scale, std::span<const float> shift) {
  const Shape shape = node.shape_of(x);
  const std::int64_t channels = shape[1];
  const bool reshaped = shape.rank() != 2 && shape.rank() != 4;
  if (reshaped) x = node.add(Reshape{Shape{1, channels, 1, shape.elements() / channels}}, {x});
  const std::string name = node.proto().output(0);
  const ValueId scale_id = node.add_constant(name + "/scale", Shape{channels}, scale);
  const ValueId shift_id = node.add_constant(name + "/shift", Shape{channels}, shift);
  const ValueId y = node.add(ScaleShift{}, {x, scale_id, shift_id});
  return reshaped ? node.add(Reshape{shape}, {y}) : y;
}

}  // namespace mobicuda::onnx_import
