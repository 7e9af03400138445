#include "channels_last.h"

namespace mobicuda::onnx_import {

bool is_channels_last(const NodeImporter& node, ValueId value) { return node.state().images.contains(value); }

ValueId image_of_channels_last(NodeImporter& node, ValueId value) {
  if (const auto found = node.state().images.find(value); found != node.state().images.end()) return found->second;
  const Shape shape = node.shape_of(value);
  const std::int64_t channels = shape.dims().back();
  ValueId image = value;
  if (shape.rank() == 2) {
    image = node.add(Reshape{Shape{shape[0], channels, 1, 1}}, {value});
  } else {
    if (shape.rank() != 4) {
      image = node.add(Reshape{Shape{shape[0], 1, shape.elements() / channels, channels}}, {value});
    }
    image = node.add(Transpose{{0, 3, 1, 2}}, {image});
  }
  node.remember_image(value, image);
  return image;
}

ValueId to_channels_last(NodeImporter& node, ValueId image, const Shape& shape) {
  ValueId value = image;
  if (shape.rank() != 2) value = node.add(Transpose{{0, 2, 3, 1}}, {value});
  if (node.shape_of(value) != shape) value = node.add(Reshape{shape}, {value});
  node.remember_image(value, image);
  return value;
}

std::size_t axis_of_image(std::size_t rank, std::size_t axis) {
  constexpr std::size_t kChannels = 1;
  constexpr std::size_t kColumns = 3;
  if (axis == rank - 1) return kChannels;
  if (rank == 4) return axis + 1;
  return rank == 3 ? kColumns : 0;
}

}  // namespace mobicuda::onnx_import
