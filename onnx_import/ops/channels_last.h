#pragma once

#include "../node_importer.h"

namespace mobicuda::onnx_import {

// To the graph, channels are axis 1. Files that come from other layouts, and all that works on tokens, have them last:
// (N, H, W, C) or (N, T, C). What is computed of such a value is computed of an image with the same elements, and
// turned round behind it; where the file turns it round as well, or computes on, the image itself is read, and the
// turned value is dropped if nothing reads it.

/// The image of a value whose last axis is channels: (N, C, H, W) of (N, H, W, C), else (N, C, 1, T) with T elements
/// for each channel.
ValueId image_of_channels_last(NodeImporter& node, ValueId value);

/// The value of `shape` whose image that is.
ValueId to_channels_last(NodeImporter& node, ValueId image, const Shape& shape);

/// Whether the value's image is known.
bool is_channels_last(const NodeImporter& node, ValueId value);

/// The axis of its image that an axis > 0 of a value with so many axes is; 0 where it is part of one.
std::size_t axis_of_image(std::size_t rank, std::size_t axis);

/// function(x), element by element: of the image where x has one.
template <class Function>
ValueId by_element(NodeImporter& node, ValueId x, Function function) {
  if (!is_channels_last(node, x)) return function(x);
  const Shape shape = node.shape_of(x);
  return to_channels_last(node, function(image_of_channels_last(node, x)), shape);
}

}  // namespace mobicuda::onnx_import
