// Arithmetic on constants, with NumPy broadcasting: floating-point, or exact on shapes.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
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

// Comparisons with NaN are false: b's NaN is taken by itself, a's has to be asked for.
constexpr BinaryOp kMin{[](float a, float b) { return a < b || std::isnan(a) ? a : b; }, minimum};
constexpr BinaryOp kMax{[](float a, float b) { return a > b || std::isnan(a) ? a : b; }, maximum};

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

// How far one step along each axis of the result moves in an operand: not at all where that repeats.
std::vector<std::int64_t> broadcast_strides(const Shape& result, const Shape& operand) {
  std::vector<std::int64_t> strides(result.rank(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = 1; i <= operand.rank(); ++i) {
    const std::int64_t extent = operand[operand.rank() - i];
    if (extent != 1) strides[result.rank() - i] = stride;
    stride *= extent;
  }
  return strides;
}

// Calls sink(i, a, b) for each element of the result, in order, with its positions in both operands.
template <class Sink>
void each_pair(const Shape& result, const Shape& a, const Shape& b, Sink sink) {
  const std::vector<std::int64_t> strides_a = broadcast_strides(result, a);
  const std::vector<std::int64_t> strides_b = broadcast_strides(result, b);
  std::vector<std::int64_t> index(result.rank(), 0);
  std::int64_t at_a = 0;
  std::int64_t at_b = 0;
  for (std::int64_t i = 0; i < result.elements(); ++i) {
    sink(static_cast<std::size_t>(i), static_cast<std::size_t>(at_a), static_cast<std::size_t>(at_b));
    for (std::size_t axis = result.rank(); axis-- > 0;) {
      at_a += strides_a[axis];
      at_b += strides_b[axis];
      if (++index[axis] < result[axis]) break;
      at_a -= strides_a[axis] * result[axis];
      at_b -= strides_b[axis] * result[axis];
      index[axis] = 0;
    }
  }
}

ConstantPtr combine(NodeImporter& node, const Constant& a, const Constant& b, const BinaryOp& op) {
  if (a.is_float() != b.is_float()) {
    throw node.error(ErrorCode::invalid_model, "operands must have one type, got a float and an integer tensor");
  }
  const Shape shape = constant_shape(node, broadcast_dims(node, a.shape(), b.shape()));
  // Two operands that both repeat make more than the file has.
  if (shape.elements() > std::max(a.elements(), b.elements())) {
    node.count_generated(shape.elements(), !a.is_float());
  } else {
    node.count_elements(shape.elements(), !a.is_float());
  }
  if (a.is_float()) {
    auto result = std::make_shared<HostTensor>(DType::F32, shape);
    const std::span<float> out = result->data<float>();
    const std::span<const float> left = a.floats();
    const std::span<const float> right = b.floats();
    each_pair(shape, a.shape(), b.shape(),
              [&](std::size_t i, std::size_t at_a, std::size_t at_b) { out[i] = op.floats(left[at_a], right[at_b]); });
    return std::make_shared<const Constant>(std::shared_ptr<const HostTensor>(std::move(result)));
  }
  std::vector<DimValue> values(static_cast<std::size_t>(shape.elements()));
  each_pair(shape, a.shape(), b.shape(), [&](std::size_t i, std::size_t at_a, std::size_t at_b) {
    values[i] = op.integers(node, a.integers()[at_a], b.integers()[at_b]);
  });
  return make_integers(shape, std::move(values));
}

// Before opset 7, the attribute axis could align the second operand elsewhere than on the right.
void require_numpy_broadcast(const NodeImporter& node) {
  if (node.attribute("broadcast", 0) != 0 && node.has_attribute("axis")) {
    throw node.unsupported_attribute("axis", "is not supported between constants");
  }
}

void fold_binary(NodeImporter& node, const BinaryOp& op) {
  require_numpy_broadcast(node);
  ConstantPtr result = node.constant(0);
  for (std::size_t position = 1; position < node.inputs(); ++position) {
    result = combine(node, *result, *node.constant(position), op);
  }
  node.set_output(result);
}

void fold_unary(NodeImporter& node, float (*function)(float)) {
  const ConstantPtr source = node.floats(0);
  node.count_elements(source->elements(), false);
  auto result = std::make_shared<HostTensor>(DType::F32, source->shape());
  std::ranges::transform(source->floats(), result->data<float>().begin(), function);
  node.set_output(std::make_shared<const Constant>(std::shared_ptr<const HostTensor>(std::move(result))));
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

namespace {

// Whether two extents are equal, for every batch.
DimValue equal(const NodeImporter& node, const DimValue& a, const DimValue& b) {
  if (a.times_batch == b.times_batch) return {a.value == b.value ? 1 : 0, false};
  const DimValue& number = a.times_batch ? b : a;
  const DimValue& of_batch = a.times_batch ? a : b;
  // A batch is 1 or more.
  if ((of_batch.value > 0 && number.value <= 0) || (of_batch.value < 0 && number.value >= 0)) return {0, false};
  throw node.error(ErrorCode::unsupported,
                   "whether " + to_string(a) + " equals " + to_string(b) + " depends on the batch size");
}

void fold_equal(NodeImporter& node) {
  if (node.constant(0)->is_float()) throw node.unsupported_input(0, "is floating-point; only integers are compared");
  fold_binary(node, {{}, equal});
}

// Integers alone: for shapes.
void fold_where(NodeImporter& node) {
  for (std::size_t position = 0; position < 3; ++position) {
    if (node.constant(position)->is_float()) {
      throw node.unsupported_input(position, "is floating-point; only integers are chosen from");
    }
  }
  const ConstantPtr condition = node.constant(0);
  // condition * a + (1 - condition) * b, which is exact for shapes.
  const auto product = [](const NodeImporter& at, const DimValue& chosen, const DimValue& value) {
    if (chosen.times_batch) throw at.unsupported_input(0, "depends on the batch size");
    return chosen.value != 0 ? value : DimValue{};
  };
  const auto other = [](const NodeImporter& at, const DimValue& chosen, const DimValue& value) {
    if (chosen.times_batch) throw at.unsupported_input(0, "depends on the batch size");
    return chosen.value != 0 ? DimValue{} : value;
  };
  const ConstantPtr where_true = combine(node, *condition, *node.constant(1), {{}, product});
  const ConstantPtr where_false = combine(node, *condition, *node.constant(2), {{}, other});
  node.set_output(combine(node, *where_true, *where_false, {{}, add}));
}

}  // namespace

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

namespace {

enum class CastTo { Float, Integer, Bool };

void cast(NodeImporter& node, CastTo to) {
  const ConstantPtr source = node.constant(0);
  if (source->is_float() == (to == CastTo::Float) && to != CastTo::Bool) {
    node.set_output(source);
    return;
  }
  node.count_elements(source->elements(), to != CastTo::Float);
  if (to == CastTo::Float) {
    std::vector<float> values;
    for (const DimValue& value : source->integers()) {
      if (value.times_batch) throw node.unsupported_input(0, "depends on the batch size: " + to_string(value));
      values.push_back(static_cast<float>(value.value));
    }
    node.set_output(make_floats(source->shape(), values));
    return;
  }
  std::vector<DimValue> values;
  if (source->is_float()) {
    for (const float value : source->floats()) {
      values.push_back(to == CastTo::Bool ? DimValue{value != 0.0F ? 1 : 0, false} : truncated(node, value));
    }
  } else {
    for (const DimValue& value : source->integers()) values.push_back({value.value != 0 ? 1 : 0, false});
  }
  node.set_output(make_integers(source->shape(), std::move(values)));
}

bool all_zero_or_one(const Constant& constant) {
  const auto zero_or_one = [](const DimValue& value) {
    return !value.times_batch && (value.value == 0 || value.value == 1);
  };
  if (!constant.is_float()) return std::ranges::all_of(constant.integers(), zero_or_one);
  return std::ranges::all_of(constant.floats(), [](float value) { return value == 0.0F || value == 1.0F; });
}

}  // namespace

void fold_cast(NodeImporter& node) {
  const auto type = static_cast<std::int32_t>(std::clamp<std::int64_t>(node.attribute("to", 0), -1, 1000));
  if (!is_float_type(type) && !is_integer_type(type)) {
    throw node.unsupported_attribute("to", "a cast to " + data_type_name(type) + " is not supported");
  }
  cast(node, is_float_type(type) ? CastTo::Float : type == schema::TensorProto::BOOL ? CastTo::Bool : CastTo::Integer);
}

void fold_cast_like(NodeImporter& node) {
  if (!node.is_constant(1) || node.constant(1)->is_float()) {
    cast(node, CastTo::Float);
    return;
  }
  // Booleans are kept as integers: what the target is shows where it has other numbers, or does not matter.
  if (all_zero_or_one(*node.constant(1)) && !all_zero_or_one(*node.constant(0))) {
    throw node.unsupported_input(1, "may be of booleans or of integers", "cast by a Cast instead");
  }
  cast(node, CastTo::Integer);
}

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

// The exponent may be an integer tensor.
void fold_pow(NodeImporter& node) {
  ConstantPtr exponent = node.constant(1);
  if (!exponent->is_float()) {
    std::vector<float> values;
    for (const DimValue& value : exponent->integers()) {
      if (value.times_batch) throw node.unsupported_input(1, "depends on the batch size: " + to_string(value));
      values.push_back(static_cast<float>(value.value));
    }
    exponent = make_floats(exponent->shape(), values);
  }
  if (!node.constant(0)->is_float()) {
    throw node.error(ErrorCode::unsupported, "a power of integers is not supported");
  }
  require_numpy_broadcast(node);
  node.set_output(combine(node, *node.constant(0), *exponent, {[](float a, float b) { return std::pow(a, b); }, {}}));
}

void fold_abs(NodeImporter& node) {
  fold_unary(node, [](float value) { return std::abs(value); });
}

void fold_exp(NodeImporter& node) {
  fold_unary(node, [](float value) { return std::exp(value); });
}

void fold_reciprocal(NodeImporter& node) {
  fold_unary(node, [](float value) { return 1.0F / value; });
}

void fold_sqrt(NodeImporter& node) {
  fold_unary(node, [](float value) { return std::sqrt(value); });
}

namespace {

void fold_log(NodeImporter& node) {
  fold_unary(node, [](float value) { return std::log(value); });
}

void fold_ceil(NodeImporter& node) {
  fold_unary(node, [](float value) { return std::ceil(value); });
}

void fold_floor(NodeImporter& node) {
  fold_unary(node, [](float value) { return std::floor(value); });
}

}  // namespace

Forms fold_arithmetic_forms() {
  static constexpr OperatorForm kForms[] = {
      {"Ceil", 6, kNewestOpset, 1, 1, "", nullptr, fold_ceil},
      {"Equal", 7, kNewestOpset, 2, 2, "", nullptr, fold_equal},
      {"Floor", 6, kNewestOpset, 1, 1, "", nullptr, fold_floor},
      {"Log", 6, kNewestOpset, 1, 1, "", nullptr, fold_log},
      {"Where", 9, kNewestOpset, 3, 3, "", nullptr, fold_where},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
