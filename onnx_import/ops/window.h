#pragma once

#include <array>
#include <cstdint>

#include "../node_importer.h"

namespace mobicuda::onnx_import {

/// The sliding window of a convolution or pool: attributes strides, dilations, pads, auto_pad.
struct Window {
  std::array<std::int64_t, 2> kernel{};
  std::array<std::int64_t, 2> strides{1, 1};
  std::array<std::int64_t, 2> dilations{1, 1};
  Padding pads;
};

/// The attribute kernel_shape, > 0: two extents, or one for a row, whose window is 1 high. Nothing when absent.
std::optional<std::array<std::int64_t, 2>> read_kernel_shape(const NodeImporter& node);

/// The rest of the window over an image, as image_shape() has it, with auto_pad resolved. Every extent is checked to be
/// positive, within ImportLimits::window, and to fit the padded image.
Window read_window(const NodeImporter& node, const std::array<std::int64_t, 2>& kernel, const Shape& image);

/// A pool over the first input: its attributes. Throws Error.
Pool2d read_pool(const NodeImporter& node, PoolKind kind);

/// Refuses anything but an image (N, C, H, W).
void require_image(const NodeImporter& node, const Shape& shape);

/// The first input's shape as an image: (N, C, H, W), or (N, C, 1, W) for a row (N, C, W). Throws Error for others.
Shape image_shape(const NodeImporter& node);
/// The first input with that shape.
ValueId as_image(NodeImporter& node);
/// Makes the image the node's output, without its height where the first input is a row.
void set_image(NodeImporter& node, ValueId image);

}  // namespace mobicuda::onnx_import
