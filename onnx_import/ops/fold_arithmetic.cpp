// Arithmetic on constants, with NumPy broadcasting: floating-point, or exact on shapes.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "../initializer.h"
#include "ops.h"
#include "shape_math.h"

namespace mobicuda::onnx_import {
namespace {

struct BinaryOp {
  float (*floats)(float, float);
  DimValue (*integers)(const NodeImporter&, const DimValue&, const DimValue&);
};

constexpr BinaryOp kMin{[](float a, float b) { return std::min(a, b); }, minimum};
constexpr BinaryOp kMax{[](float a, float b) { return std::max(a, b); }, maximum};

Dims broadcast_dims(const NodeImporter& node, const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  Dims dims;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t left = axis + a.rank() < rank ? 1 : a[axis + a.rank() - rank];
    const std::int64_t right = axis + b.rank() < rank ? 1 : b[axis + b.rank() - rank];
    if (left != right && left != 1 && right != 1) {
      throw node.error(ErrorCode::invalid_model,
                       "shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast");
    }
    dims.push_back({left == 1 ? right : left, false});
  }
  return dims;
}

// Position in an operand of the element that position `index` of the broadcast result reads.
std::size_t source_position(const Shape& result, const Shape& operand, std::int64_t index) {
  std::int64_t position = 0;
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < operand.rank(); ++i) {
    const std::size_t axis = result.rank() - 1 - i;
    const std::int64_t extent = operand[operand.rank() - 1 - i];
    const std::int64_t coordinate = index % result[axis];
    index /= result[axis];
    if (extent != 1) position += coordinate * stride;
    stride *= extent;
  }
  return static_cast<std::size_t>(position);
}

ConstantPtr combine(NodeImporter& node, const Constant& a, const Constant& b, const BinaryOp& op) {
  if (a.is_float() != b.is_float()) {
    throw node.error(ErrorCode::invalid_model, "operands must have one type, got a float and an integer tensor");
  }
  const Shape shape = constant_shape(node, broadcast_dims(node, a.shape(), b.shape()));
  node.count_generated(shape.elements(), !a.is_float());
  if (a.is_float()) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      values.push_back(op.floats(a.floats()[source_position(shape, a.shape(), i)],
                                 b.floats()[source_position(shape, b.shape(), i)]));
    }
    return make_floats(shape, values);
  }
  std::vector<DimValue> values;
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    values.push_back(op.integers(node, a.integers()[source_position(shape, a.shape(), i)],
                                 b.integers()[source_position(shape, b.shape(), i)]));
  }
  return make_integers(shape, std::move(values));
}

void fold_binary(NodeImporter& node, const BinaryOp& op) {
  if (node.attribute("broadcast", 0) != 0 && node.has_attribute("axis")) {
    throw node.unsupported_attribute("axis", "is not supported between constants");
  }
  ConstantPtr result = node.constant(0);
  for (std::size_t position = 1; position < node.inputs(); ++position) {
    result = combine(node, *result, *node.constant(position), op);
  }
  node.set_output(result);
}

void fold_unary(NodeImporter& node, float (*function)(float)) {
  const ConstantPtr source = node.floats(0);
  node.count_generated(source->elements(), false);
  std::vector<float> values;
  for (const float value : source->floats()) values.push_back(function(value));
  node.set_output(make_floats(source->shape(), values));
}

// A float as the integer that ONNX's Cast makes of it.
DimValue truncated(const NodeImporter& node, float value) {
  constexpr float kLimit = 0x1p63F;
  if (!(value >= -kLimit && value < kLimit)) {
    throw node.error(ErrorCode::invalid_model, "a cast of " + std::to_string(value) + " to an integer overflows");
  }
  return {static_cast<std::int64_t>(value), false};
}

}  // namespace

void fold_add(NodeImporter& node) {
  fold_binary(node, {[](float a, float b) { return a + b; }, add});
}
void fold_sub(NodeImporter& node) {
  fold_binary(node, {[](float a, float b) { return a - b; }, subtract});
}
void fold_mul(NodeImporter& node) {
  fold_binary(node, {[](float a, float b) { return a * b; }, multiply});
}
void fold_div(NodeImporter& node) {
  fold_binary(node, {[](float a, float b) { return a / b; }, divide});
}
void fold_min(NodeImporter& node) { fold_binary(node, kMin); }
void fold_max(NodeImporter& node) { fold_binary(node, kMax); }

void fold_relu(NodeImporter& node) {
  fold_unary(node, [](float value) { return std::max(value, 0.0F); });
}

// max, then min: where the bounds contradict each other, the upper one wins.
void fold_clip(NodeImporter& node) {
  ConstantPtr result = node.constant(0);
  for (const std::size_t position : {std::size_t{1}, std::size_t{2}}) {
    if (!node.has_input(position)) continue;
    if (node.constant(position)->elements() != 1) throw node.invalid_input(position, "must be one number");
    result = combine(node, *result, *node.constant(position), position == 1 ? kMax : kMin);
  }
  node.set_output(result);
}

void fold_cast(NodeImporter& node) {
  const ConstantPtr source = node.constant(0);
  const std::int64_t to = node.attribute("to", 0);
  const auto type = static_cast<std::int32_t>(std::clamp<std::int64_t>(to, -1, 1000));
  if (!is_float_type(type) && !is_integer_type(type)) {
    throw node.unsupported_attribute("to", "a cast to " + data_type_name(type) + " is not supported");
  }
  const bool to_bool = type == schema::TensorProto::BOOL;
  if (source->is_float() == is_float_type(type) && !to_bool) {
    node.set_output(source);
    return;
  }
  if (is_float_type(type)) {
    std::vector<float> values;
    for (const DimValue& value : source->integers()) {
      if (value.times_batch) throw node.unsupported_input(0, "depends on the batch size: " + to_string(value));
      values.push_back(static_cast<float>(value.value));
    }
    node.set_output(make_floats(source->shape(), values));
    return;
  }
  node.count_generated(source->elements(), true);
  std::vector<DimValue> values;
  if (source->is_float()) {
    for (const float value : source->floats()) {
      values.push_back(to_bool ? DimValue{value != 0.0F ? 1 : 0, false} : truncated(node, value));
    }
  } else {
    for (const DimValue& value : source->integers()) values.push_back({value.value != 0 ? 1 : 0, false});
  }
  node.set_output(make_integers(source->shape(), std::move(values)));
}

namespace {

void fold_neg(NodeImporter& node) {
  const ConstantPtr source = node.constant(0);
  if (source->is_float()) {
    fold_unary(node, [](float value) { return -value; });
    return;
  }
  std::vector<DimValue> values;
  for (const DimValue& value : source->integers()) values.push_back(subtract(node, {}, value));
  node.set_output(make_integers(source->shape(), std::move(values)));
}

void fold_ceil(NodeImporter& node) {
  fold_unary(node, [](float value) { return std::ceil(value); });
}

void fold_floor(NodeImporter& node) {
  fold_unary(node, [](float value) { return std::floor(value); });
}

void fold_sqrt(NodeImporter& node) {
  fold_unary(node, [](float value) { return std::sqrt(value); });
}

}  // namespace

Forms fold_arithmetic_forms() {
  static constexpr OperatorForm kForms[] = {
      {"Ceil", 6, kNewestOpset, 1, 1, "", nullptr, fold_ceil},
      {"Floor", 6, kNewestOpset, 1, 1, "", nullptr, fold_floor},
      {"Neg", 6, kNewestOpset, 1, 1, "", nullptr, fold_neg},
      {"Sqrt", 6, kNewestOpset, 1, 1, "", nullptr, fold_sqrt},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
