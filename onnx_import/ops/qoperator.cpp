// Operators on integers, of ONNX and of ONNX Runtime: each becomes the operator on real numbers between Dequantize and
// Quantize, as the QDQ format writes it.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/error.h>

#include "../initializer.h"
#include "conv.h"
#include "gemm.h"
#include "ops.h"
#include "quantize.h"
#include "window.h"

namespace mobicuda::onnx_import {
namespace {

// Quantises a result as the scale and zero point from `position` on say.
void set_quantized(NodeImporter& node, ValueId real, std::size_t position) {
  node.set_output(node.add(Quantize{read_quantization(node, position)}, {real}));
}

ValueId add_dequantized(NodeImporter& node, std::size_t position, const Constant& constant) {
  return node.add_constant(node.proto().input(static_cast<int>(position)), constant.tensor(), constant.quantized());
}

// INT32 in units of x_scale * w_scale.
ValueId add_bias(NodeImporter& node, std::size_t position, float x_scale, const std::vector<float>& w_scales,
                 std::int64_t outputs) {
  const ConstantPtr constant = node.constant(position);
  if (constant->is_float()) throw node.invalid_input(position, "must be of INT32, is floating-point");
  require_bias(node, position, constant->shape(), outputs);
  node.count_memory(checked_multiply(outputs, static_cast<std::int64_t>(2 * sizeof(float))));
  auto quantized = std::make_shared<QuantizedConstant>();
  quantized->integers = read_int32(node, position, *constant);
  for (const float w_scale : w_scales) {
    quantized->scales.push_back(x_scale * w_scale);
    quantized->zero_points.push_back(0);
  }
  return add_dequantized(node, position, *dequantized_constant(std::move(quantized)));
}

void require_image_of_integers(const NodeImporter& node) {
  if (node.shape(0).rank() != 4) {
    throw node.unsupported_input(0, "must be an image (N, C, H, W), has shape " + to_string(node.shape(0)));
  }
}

// x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B
void import_qlinear_conv(NodeImporter& node) {
  require_image_of_integers(node);
  const Shape weight = node.bytes(3)->shape();
  const Conv2d op = read_convolution(node, 3, weight);
  const ConstantPtr weights = dequantize_constant(node, 3, 0);
  const ValueId x = dequantize_activation(node, 0);
  const float x_scale = read_quantization_scales(node, 1).front();
  const ValueId bias =
      node.has_input(8) ? add_bias(node, 8, x_scale, weights->quantized()->scales, weight[0]) : kNoValue;
  set_quantized(node, node.add(op, {x, add_dequantized(node, 3, *weights), bias, kNoValue}), 6);
}

// A times a constant matrix B with its scale and zero point behind it, (I, O) or transposed.
ValueId multiply_integers(NodeImporter& node, bool transposed, std::size_t bias_position) {
  if (node.shape(0).rank() != 2) {
    throw node.unsupported_input(0, "must be a matrix, has shape " + to_string(node.shape(0)));
  }
  const Shape matrix = node.bytes(3)->shape();
  if (matrix.rank() != 2 || matrix.elements() == 0) {
    throw node.unsupported_input(3, "must be a matrix, has shape " + to_string(matrix));
  }
  const std::int64_t features = matrix[transposed ? 1 : 0];
  const std::int64_t outputs = matrix[transposed ? 0 : 1];
  if (features != node.shape(0)[1]) {
    throw node.invalid_input(
        3, "takes " + std::to_string(features) + " features, but the input has " + std::to_string(node.shape(0)[1]));
  }
  const ConstantPtr weights = dequantize_constant(node, 3, transposed ? 0 : 1);
  const Constant by_output = gemm_weight(node, weights, !transposed, 1.0F);
  const ValueId x = dequantize_activation(node, 0);
  const float x_scale = read_quantization_scales(node, 1).front();
  const ValueId bias = node.has_input(bias_position)
                           ? add_bias(node, bias_position, x_scale, weights->quantized()->scales, outputs)
                           : kNoValue;
  return node.add(Gemm{}, {x, add_dequantized(node, 3, by_output), bias});
}

// a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point
void import_qlinear_matmul(NodeImporter& node) {
  set_quantized(node, multiply_integers(node, false, node.inputs()), 6);
}

// A, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point; without the last two real numbers
void import_qgemm(NodeImporter& node) {
  if (node.flag_attribute("transA", false)) {
    throw node.unsupported_attribute("transA", "1 is not supported", "it would mix the pictures of a batch");
  }
  if (node.float_attribute("alpha", 1.0F) != 1.0F) {
    throw node.unsupported_attribute("alpha", "must be 1", "fold the factor into the weight's scale");
  }
  const ValueId y = multiply_integers(node, node.flag_attribute("transB", false), 6);
  if (!node.has_input(7)) return node.set_output(y);
  set_quantized(node, y, 7);
}

// A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale, C_zero_point
void import_qlinear_add(NodeImporter& node) {
  for (const std::size_t position : {std::size_t{0}, std::size_t{3}}) {
    if (node.is_constant(position)) {
      throw node.unsupported_input(position, "is a constant, which is supported between activations only",
                                   "quantise in the QDQ format (scripts/quantize)");
    }
  }
  if (node.shape(0) != node.shape(3)) {
    throw node.unsupported_input(
        3, "must have the shape of the first, " + to_string(node.shape(0)) + ", has " + to_string(node.shape(3)));
  }
  const ValueId a = dequantize_activation(node, 0);
  const ValueId b = dequantize_activation(node, 3);
  set_quantized(node, node.add(Add{}, {a, b}), 6);
}

void refuse_channels_last(const NodeImporter& node) {
  if (node.attribute("channels_last", 0) == 0) return;
  throw node.unsupported_attribute("channels_last", "1 is not supported",
                                   "quantise without ONNX Runtime's layout optimisation");
}

// X, x_scale, x_zero_point, y_scale, y_zero_point
void import_qlinear_global_average_pool(NodeImporter& node) {
  refuse_channels_last(node);
  require_image_of_integers(node);
  set_quantized(node, node.add(GlobalAveragePool{}, {dequantize_activation(node, 0)}), 3);
}

void import_qlinear_average_pool(NodeImporter& node) {
  refuse_channels_last(node);
  require_image_of_integers(node);
  const Pool2d op = read_pool(node, PoolKind::Average);
  set_quantized(node, node.add(op, {dequantize_activation(node, 0)}), 3);
}

// Y_scale, Y_zero_point, then each part with its scale and zero point
void import_qlinear_concat(NodeImporter& node) {
  if (node.inputs() % 3 != 2) {
    throw node.error(ErrorCode::invalid_model,
                     "must have 2 inputs and 3 for each part, has " + std::to_string(node.inputs()));
  }
  if (!node.has_attribute("axis")) throw node.invalid_attribute("axis", "is missing");
  std::vector<ValueId> parts;
  for (std::size_t position = 2; position < node.inputs(); position += 3) {
    parts.push_back(dequantize_activation(node, position));
  }
  Concat op;
  op.axis = static_cast<std::int64_t>(normalize_axis(node, node.attribute("axis", 0), node.shape_of(parts[0]).rank()));
  set_quantized(node, node.add(op, std::move(parts)), 0);
}

}  // namespace

Forms qoperator_forms() {
  static constexpr OperatorForm kForms[] = {
      {"QLinearConv", 10, kNewestOpset, 8, 9, "auto_pad dilations group kernel_shape pads strides",
       import_qlinear_conv},
      {"QLinearMatMul", 10, kNewestOpset, 8, 8, "", import_qlinear_matmul},
      {"QGemm", 1, 1, 6, 9, "alpha transA transB", import_qgemm, nullptr, kMicrosoftDomain},
      {"QLinearAdd", 1, 1, 7, 8, "", import_qlinear_add, nullptr, kMicrosoftDomain},
      {"QLinearAveragePool", 1, 1, 4, 5, "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides",
       import_qlinear_average_pool, nullptr, kMicrosoftDomain},
      {"QLinearConcat", 1, 1, 3, kAnyInputs, "axis", import_qlinear_concat, nullptr, kMicrosoftDomain},
      {"QLinearGlobalAveragePool", 1, 1, 4, 5, "channels_last", import_qlinear_global_average_pool, nullptr,
       kMicrosoftDomain},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
