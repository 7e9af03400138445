#include <array>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "conv.h"
#include "elementwise.h"
#include "ops.h"
#include "window.h"

namespace mobicuda::onnx_import {

Conv2d read_convolution(NodeImporter& node, std::size_t position, const Shape& weight) {
  const Shape image = image_shape(node);
  const bool row = node.shape(0).rank() == 3;
  if (weight.rank() != (row ? 3 : 4)) {
    throw node.invalid_input(position, std::string("must have rank ") +
                                           (row ? "3 (O, I/group, kW)" : "4 (O, I/group, kH, kW)") + ", has shape " +
                                           to_string(weight));
  }
  for (const std::int64_t extent : weight.dims()) {
    if (extent == 0) throw node.invalid_input(position, "has no elements: " + to_string(weight));
  }
  const std::array<std::int64_t, 2> kernel{row ? 1 : weight[2], weight[row ? 2 : 3]};
  for (const std::int64_t extent : kernel) {
    if (extent > node.state().options.limits.window) {
      throw node.unsupported_input(position, "the limit of a window is " +
                                                 std::to_string(node.state().options.limits.window) + ", has shape " +
                                                 to_string(weight));
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
    throw node.invalid_input(position, "has " + std::to_string(weight[1]) + " channels a group, but the input has " +
                                           std::to_string(image[1] / groups));
  }
  const Window window = read_window(node, kernel, image);
  Conv2d op;
  op.strides = window.strides;
  op.dilations = window.dilations;
  op.pads = window.pads;
  op.groups = groups;
  return op;
}

void require_bias(const NodeImporter& node, std::size_t position, const Shape& shape, std::int64_t outputs) {
  if (shape == Shape{outputs}) return;
  throw node.invalid_input(position, "must have shape " + std::to_string(outputs) +
                                         ", one element an output channel; has " + to_string(shape));
}

namespace {

// (O, I, kW) as (O, I, 1, kW).
ValueId row_weight(NodeImporter& node, const Constant& weights) {
  const Shape& shape = weights.shape();
  node.count_elements(weights.elements(), false);
  const Shape image{shape[0], shape[1], 1, shape[2]};
  return node.add_constant(node.proto().input(1),
                           std::make_shared<const HostTensor>(HostTensor::of<float>(image, weights.floats())),
                           weights.quantized() == nullptr ? nullptr : in_shape(*weights.quantized(), image));
}

// Inputs X, W, B (optional), Z (of FusedConv, optional). The weight of a row becomes that of an image of height 1.
ValueId convolve(NodeImporter& node) {
  const ConstantPtr weights = node.floats(1);
  const Shape& weight = weights->shape();
  const Conv2d op = read_convolution(node, 1, weight);
  ValueId bias = kNoValue;
  if (node.has_input(2)) {
    require_bias(node, 2, node.floats(2)->shape(), weight[0]);
    bias = node.add_input_constant(2);
  }
  const ValueId weight_id = node.shape(0).rank() == 3 ? row_weight(node, *weights) : node.add_input_constant(1);
  return node.add(op, {as_image(node), weight_id, bias, kNoValue});
}

void import_conv(NodeImporter& node) { set_image(node, convolve(node)); }

// ONNX Runtime's act(conv(X, W) + B + Z).
void import_fused_conv(NodeImporter& node) {
  ValueId y = convolve(node);
  if (node.has_input(3)) {
    if (node.shape(3) != node.shape_of(y) || node.shape(0).rank() != 4) {
      throw node.unsupported_input(3, "must have the shape of the convolution's output, " +
                                          to_string(node.shape_of(y)) + ", has " + to_string(node.shape(3)));
    }
    y = node.add(Add{}, {y, node.activation(3)});
  }
  if (node.has_attribute("activation")) {
    const std::vector<float> parameters = node.floats_attribute("activation_params");
    const std::vector<std::optional<float>> given(parameters.begin(), parameters.end());
    y = add_fused_activation(node, y, given, "activation_params");
  }
  set_image(node, y);
}

}  // namespace

Forms conv_forms() {
  static constexpr OperatorForm kForms[] = {
      {"Conv", 6, kNewestOpset, 2, 3, "auto_pad dilations group kernel_shape pads strides", import_conv},
      {"FusedConv", 1, 1, 2, 4, "activation activation_params auto_pad dilations group kernel_shape pads strides",
       import_fused_conv, nullptr, kMicrosoftDomain},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
