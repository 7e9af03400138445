#include <array>
#include <string>

#include <mobicuda/error.h>

#include "ops.h"
#include "window.h"

namespace mobicuda::onnx_import {
namespace {

// Inputs X, W, B (optional).
void import_conv(NodeImporter& node) {
  const Shape image = node.shape(0);
  require_image(node, image);
  const Shape weight = node.floats(1)->shape();
  if (weight.rank() != 4) {
    throw node.invalid_input(1, "must have rank 4 (O, I/group, kH, kW), has shape " + to_string(weight));
  }
  for (const std::int64_t extent : weight.dims()) {
    if (extent == 0) throw node.invalid_input(1, "has no elements: " + to_string(weight));
  }
  const std::array<std::int64_t, 2> kernel{weight[2], weight[3]};
  for (const std::int64_t extent : kernel) {
    if (extent > node.state().options.limits.window) {
      throw node.unsupported_input(1, "the limit of a window is " + std::to_string(node.state().options.limits.window) +
                                          ", has shape " + to_string(weight));
    }
  }
  if (const auto declared = read_kernel_shape(node); declared && *declared != kernel) {
    throw node.invalid_attribute("kernel_shape",
                                 to_string(*declared) + " contradicts the weight's shape " + to_string(weight));
  }
  const std::int64_t groups = node.attribute("group", 1);
  if (groups <= 0) throw node.invalid_attribute("group", "must be > 0, got " + std::to_string(groups));
  if (image[1] % groups != 0 || weight[0] % groups != 0) {
    throw node.invalid_attribute("group", "must divide " + std::to_string(image[1]) + " input and " +
                                              std::to_string(weight[0]) + " output channels, got " +
                                              std::to_string(groups));
  }
  if (weight[1] != image[1] / groups) {
    throw node.invalid_input(1, "has " + std::to_string(weight[1]) + " channels a group, but the input has " +
                                    std::to_string(image[1] / groups));
  }
  const Window window = read_window(node, kernel, image);

  ValueId bias = kNoValue;
  if (node.has_input(2)) {
    if (const Shape& shape = node.floats(2)->shape(); shape != Shape{weight[0]}) {
      throw node.invalid_input(2, "must have shape " + std::to_string(weight[0]) +
                                      ", one element an output channel; has " + to_string(shape));
    }
    bias = node.add_input_constant(2);
  }
  Conv2d op;
  op.strides = window.strides;
  op.dilations = window.dilations;
  op.pads = window.pads;
  op.groups = groups;
  node.set_output(node.add(op, {node.activation(0), node.add_input_constant(1), bias, kNoValue}));
}

}  // namespace

Forms conv_forms() {
  static constexpr OperatorForm kForms[] = {
      {"Conv", 6, kNewestOpset, 2, 3, "auto_pad dilations group kernel_shape pads strides", import_conv},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
