#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/error.h>

#include "channels_last.h"
#include "elementwise.h"
#include "gemm.h"
#include "ops.h"

namespace mobicuda::onnx_import {

Constant gemm_weight(NodeImporter& node, const ConstantPtr& matrix, bool transpose, float factor) {
  if (!transpose && factor == 1.0F) return *matrix;
  node.count_memory(matrix->elements() * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t rows = matrix->shape()[0];
  const std::int64_t columns = matrix->shape()[1];
  auto result = std::make_shared<HostTensor>(DType::F32, transpose ? Shape{columns, rows} : Shape{rows, columns});
  const std::span<float> out = result->data<float>();
  const std::span<const float> in = matrix->floats();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t to = transpose ? column * rows + row : row * columns + column;
      out[static_cast<std::size_t>(to)] = factor * in[static_cast<std::size_t>(row * columns + column)];
    }
  }
  if (matrix->quantized() == nullptr || factor != 1.0F) return Constant(std::move(result));
  node.count_memory(matrix->elements());
  std::vector<std::size_t> positions(out.size());
  for (std::size_t to = 0; to < positions.size(); ++to) {
    const auto of_rows = static_cast<std::size_t>(rows);
    positions[to] = to % of_rows * static_cast<std::size_t>(columns) + to / of_rows;
  }
  const std::size_t axis = 1 - std::min<std::size_t>(matrix->quantized()->axis, 1);
  const Shape shape = result->shape();
  return Constant(std::move(result), moved(*matrix->quantized(), shape, axis, positions));
}

namespace {

void require_matrix(const NodeImporter& node, std::size_t position, const Shape& shape) {
  if (shape.rank() != 2) {
    throw node.unsupported_input(position, "must be a matrix, has shape " + to_string(shape));
  }
  if (shape.elements() == 0) throw node.invalid_input(position, "has no elements: " + to_string(shape));
}

// Input C of Gemm as a bias of `outputs` elements.
ValueId gemm_bias(NodeImporter& node, std::int64_t outputs, float beta) {
  const ConstantPtr constant = node.floats(2);
  const Shape& shape = constant->shape();
  const bool row = shape == Shape{outputs} || shape == Shape{1, outputs};
  if (!row && shape.elements() != 1) {
    throw node.unsupported_input(2, "must be a scalar or have one element an output (" + std::to_string(outputs) +
                                        "), has shape " + to_string(shape));
  }
  if (shape == Shape{outputs} && beta == 1.0F) return node.add_input_constant(2);
  node.count_memory(outputs * static_cast<std::int64_t>(sizeof(float)));
  std::vector<float> bias;
  for (std::int64_t i = 0; i < outputs; ++i) {
    bias.push_back(beta * constant->floats()[row ? static_cast<std::size_t>(i) : 0]);
  }
  return node.add_constant(node.proto().input(2), Shape{outputs}, bias);
}

// alpha * A * B + beta * C; A is the activation.
ValueId multiply(NodeImporter& node) {
  if (node.flag_attribute("transA", false)) {
    throw node.unsupported_attribute("transA", "1 is not supported", "it would mix the pictures of a batch");
  }
  require_matrix(node, 0, node.shape(0));
  const ConstantPtr matrix = node.floats(1);
  require_matrix(node, 1, matrix->shape());
  const bool transposed = node.flag_attribute("transB", false);
  const std::int64_t features = matrix->shape()[transposed ? 1 : 0];
  const std::int64_t outputs = matrix->shape()[transposed ? 0 : 1];
  if (features != node.shape(0)[1]) {
    throw node.invalid_input(
        1, "takes " + std::to_string(features) + " features, but the input has " + std::to_string(node.shape(0)[1]));
  }
  const Constant packed = gemm_weight(node, matrix, !transposed, node.float_attribute("alpha", 1.0F));
  const ValueId weight = node.add_constant(node.proto().input(1), packed.tensor(), packed.quantized());
  const float beta = node.float_attribute("beta", 1.0F);
  const ValueId bias = node.has_input(2) && beta != 0.0F ? gemm_bias(node, outputs, beta) : kNoValue;
  return node.add(Gemm{}, {node.activation(0), weight, bias});
}

void import_gemm(NodeImporter& node) { node.set_output(multiply(node)); }

// ONNX Runtime's act(alpha * A * B + beta * C), whose activation has its parameters in attributes.
void import_fused_gemm(NodeImporter& node) {
  const ValueId y = multiply(node);
  std::vector<std::optional<float>> parameters;
  for (const std::string_view name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    parameters.emplace_back();
    if (node.has_attribute(name)) parameters.back() = node.float_attribute(name, 0.0F);
  }
  node.set_output(add_fused_activation(node, y, parameters, "activation_alpha"));
}

// Matrices that are activations, one pair for each extent of the axes in front.
void multiply_matrices(NodeImporter& node) {
  const Shape& a = node.shape(0);
  const Shape& b = node.shape(1);
  bool fits = a.rank() == b.rank() && a.rank() >= 3;
  for (std::size_t axis = 0; fits && axis + 2 < a.rank(); ++axis) fits = a[axis] == b[axis];
  if (!fits) {
    throw node.error(
        ErrorCode::unsupported,
        "activations of shapes " + to_string(a) + " and " + to_string(b) + " cannot be multiplied as matrices",
        "they must have the same axes in front of the last two, the batch first");
  }
  if (a.dims().back() != b[b.rank() - 2]) {
    throw node.invalid_input(1, "has " + std::to_string(b[b.rank() - 2]) + " rows, but the first has " +
                                    std::to_string(a.dims().back()) + " columns");
  }
  node.set_output(node.add(BatchedMatMul{}, {node.activation(0), node.activation(1)}));
}

void import_matmul(NodeImporter& node) {
  if (!node.is_constant(0) && !node.is_constant(1)) {
    multiply_matrices(node);
    return;
  }
  const Shape shape = node.shape(0);
  if (shape.rank() < 2 || shape.elements() == 0) require_matrix(node, 0, shape);
  const ConstantPtr matrix = node.floats(1);
  require_matrix(node, 1, matrix->shape());
  const std::int64_t features = shape.dims().back();
  if (matrix->shape()[0] != features) {
    throw node.invalid_input(
        1, "takes " + std::to_string(matrix->shape()[0]) + " features, but the input has " + std::to_string(features));
  }
  const Constant transposed = gemm_weight(node, matrix, true, 1.0F);
  if (shape.rank() > 2) {  // a pointwise convolution, with the last axis as channels
    const std::int64_t outputs = matrix->shape()[1];
    const Shape shape_of_filter{outputs, features, 1, 1};
    const ValueId filter = node.add_constant(
        node.proto().input(1),
        std::make_shared<const HostTensor>(HostTensor::of<float>(shape_of_filter, transposed.floats())),
        transposed.quantized() == nullptr ? nullptr : in_shape(*transposed.quantized(), shape_of_filter));
    const ValueId image =
        node.add(Conv2d{}, {image_of_channels_last(node, node.activation(0)), filter, kNoValue, kNoValue});
    std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims.back() = outputs;
    node.set_output(to_channels_last(node, image, Shape(std::span<const std::int64_t>(dims))));
    return;
  }
  const ValueId weight = node.add_constant(node.proto().input(1), transposed.tensor(), transposed.quantized());
  const std::vector<ValueId> inputs{node.activation(0), weight, kNoValue};
  const ValueId output = node.add(Gemm{}, inputs);
  node.remember_matmul(output, inputs);
  node.set_output(output);
}

}  // namespace

Forms gemm_forms() {
  static constexpr OperatorForm kForms[] = {
      {"FusedGemm", 1, 1, 2, 3, "activation activation_alpha activation_beta activation_gamma alpha beta transA transB",
       import_fused_gemm, nullptr, kMicrosoftDomain},
      {"Gemm", 6, 6, 3, 3, "alpha beta broadcast transA transB", import_gemm},
      {"Gemm", 7, 10, 3, 3, "alpha beta transA transB", import_gemm},
      {"Gemm", 11, kNewestOpset, 2, 3, "alpha beta transA transB", import_gemm},
      {"MatMul", 6, kNewestOpset, 2, 2, "", import_matmul},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
