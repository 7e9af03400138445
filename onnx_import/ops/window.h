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

/// The attribute kernel_shape: two extents, > 0. Nothing when absent.
std::optional<std::array<std::int64_t, 2>> read_kernel_shape(const NodeImporter& node);

/// The rest of the window over an image (N, C, H, W), with auto_pad resolved. Every extent is checked to be
/// positive, within ImportLimits::window, and to fit the padded image.
Window read_window(const NodeImporter& node, const std::array<std::int64_t, 2>& kernel, const Shape& image);

/// Refuses anything but an image (N, C, H, W).
void require_image(const NodeImporter& node, const Shape& shape);

}  // namespace mobicuda::onnx_import
