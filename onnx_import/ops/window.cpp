#include "window.h"

#include <algorithm>
#include <string>

#include <mobicuda/error.h>

#include "../text.h"

namespace mobicuda::onnx_import {
namespace {

using Pair = std::array<std::int64_t, 2>;

// How many axes the window slides along: those behind the batch and the channels.
std::size_t sliding_axes(const NodeImporter& node) { return node.shape(0).rank() - 2; }

void require_entries(const NodeImporter& node, std::string_view name, const std::vector<std::int64_t>& values,
                     std::size_t count) {
  if (values.size() == count) return;
  throw node.invalid_attribute(name, "must have " + std::to_string(count) + " entries for an input of shape " +
                                         to_string(node.shape(0)) + ", got " + to_string(values));
}

// One entry for each axis that the window slides along; a row has a height of 1.
std::optional<Pair> read_pair(const NodeImporter& node, std::string_view name) {
  const auto values = node.ints_attribute(name);
  if (!values) return std::nullopt;
  require_entries(node, name, *values, sliding_axes(node));
  for (const std::int64_t value : *values) {
    if (value <= 0) throw node.invalid_attribute(name, "must be > 0, got " + to_string(*values));
    if (value > node.state().options.limits.window) {
      throw node.unsupported_attribute(
          name, "the limit is " + std::to_string(node.state().options.limits.window) + ", got " + to_string(*values));
    }
  }
  return Pair{values->size() == 1 ? 1 : values->front(), values->back()};
}

Padding read_pads(const NodeImporter& node) {
  const auto values = node.ints_attribute("pads");
  if (!values) return {};
  require_entries(node, "pads", *values, 2 * sliding_axes(node));
  for (const std::int64_t value : *values) {
    if (value < 0) throw node.invalid_attribute("pads", "must be >= 0, got " + to_string(*values));
    if (value > node.state().options.limits.window) {
      throw node.unsupported_attribute(
          "pads", "the limit is " + std::to_string(node.state().options.limits.window) + ", got " + to_string(*values));
    }
  }
  if (values->size() == 2) return {0, values->front(), 0, values->back()};
  return {(*values)[0], (*values)[1], (*values)[2], (*values)[3]};
}

// What SAME adds along an axis so that the output has ceil(extent / stride) elements.
std::int64_t same_padding(std::int64_t extent, std::int64_t span, std::int64_t stride) {
  const std::int64_t outputs = (extent + stride - 1) / stride;
  return std::max<std::int64_t>((outputs - 1) * stride + span - extent, 0);
}

Padding resolve_pads(const NodeImporter& node, const Pair& span, const Pair& strides, const Shape& image) {
  const std::string mode = node.string_attribute("auto_pad", "NOTSET");
  const Padding explicit_pads = read_pads(node);
  if (mode == "NOTSET" || mode.empty()) return explicit_pads;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID") {
    throw node.invalid_attribute("auto_pad", "must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got " + in_quotes(mode));
  }
  if (explicit_pads.any()) throw node.invalid_attribute("auto_pad", mode + " contradicts the attribute 'pads'");
  if (mode == "VALID") return {};
  const std::int64_t vertical = same_padding(image[2], span[0], strides[0]);
  const std::int64_t horizontal = same_padding(image[3], span[1], strides[1]);
  // An odd pixel goes to the end with SAME_UPPER, to the beginning with SAME_LOWER.
  const std::int64_t round = mode == "SAME_LOWER" ? 1 : 0;
  const std::int64_t top = (vertical + round) / 2;
  const std::int64_t left = (horizontal + round) / 2;
  return {top, left, vertical - top, horizontal - left};
}

}  // namespace

void require_image(const NodeImporter& node, const Shape& shape) {
  if (shape.rank() != 4) {
    throw node.unsupported_input(0, "must be an image (N, C, H, W), has shape " + to_string(shape));
  }
}

Shape image_shape(const NodeImporter& node) {
  const Shape& shape = node.shape(0);
  if (shape.rank() == 3) return {shape[0], shape[1], 1, shape[2]};
  if (shape.rank() == 4) return shape;
  throw node.unsupported_input(0, "must be an image (N, C, H, W) or a row (N, C, W), has shape " + to_string(shape),
                               shape.rank() == 5 ? "3-D windows are not supported" : "");
}

ValueId as_image(NodeImporter& node) {
  const Shape shape = image_shape(node);
  return node.shape(0) == shape ? node.activation(0) : node.add(Reshape{shape}, {node.activation(0)});
}

void set_image(NodeImporter& node, ValueId image) {
  const Shape& shape = node.shape_of(image);
  const bool row = node.shape(0).rank() == 3;
  node.set_output(row ? node.add(Reshape{Shape{shape[0], shape[1], shape[3]}}, {image}) : image);
}

std::optional<Pair> read_kernel_shape(const NodeImporter& node) { return read_pair(node, "kernel_shape"); }

Window read_window(const NodeImporter& node, const Pair& kernel, const Shape& image) {
  Window window;
  window.kernel = kernel;
  window.strides = read_pair(node, "strides").value_or(Pair{1, 1});
  window.dilations = read_pair(node, "dilations").value_or(Pair{1, 1});
  const Pair span{(kernel[0] - 1) * window.dilations[0] + 1, (kernel[1] - 1) * window.dilations[1] + 1};
  window.pads = resolve_pads(node, span, window.strides, image);
  const Pair padded{image[2] + window.pads.top + window.pads.bottom, image[3] + window.pads.left + window.pads.right};
  for (const std::size_t axis : {std::size_t{0}, std::size_t{1}}) {
    if (span[axis] > padded[axis]) {
      throw node.invalid_attribute("kernel_shape", "a window of " + std::to_string(span[axis]) +
                                                       " does not fit the padded " + (axis == 0 ? "height" : "width") +
                                                       " of " + std::to_string(padded[axis]));
    }
  }
  return window;
}

}  // namespace mobicuda::onnx_import
