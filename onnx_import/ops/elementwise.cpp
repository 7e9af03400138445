#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "../text.h"
#include "channels_last.h"
#include "elementwise.h"
#include "moments.h"
#include "ops.h"

namespace mobicuda::onnx_import {
namespace {

void set_clip(NodeImporter& node, float lo, float hi) { node.set_output(add_clip(node, node.activation(0), lo, hi)); }

void add_unary(NodeImporter& node, UnaryKind kind, float alpha = 0.0F) {
  node.set_output(unary_of(node, node.activation(0), kind, alpha));
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A constant operand that broadcasts along all axes but one: the axis, and its elements (one when uniform). Axis 0
// stands for all of them: an element for each of an image.
struct Broadcast {
  std::size_t axis = 1;
  std::vector<float> values;
};

// The constant, of the other operand's rank, with an element for each of the other's.
std::vector<float> repeated(NodeImporter& node, std::span<const float> values, const Shape& shape, const Shape& other) {
  node.count_generated(other.elements(), false);
  std::vector<float> result;
  result.reserve(static_cast<std::size_t>(other.elements()));
  std::vector<std::int64_t> index(other.rank(), 0);
  for (std::int64_t i = 0; i < other.elements(); ++i) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < other.rank(); ++axis) {
      at = at * shape[axis] + (shape[axis] == 1 ? 0 : index[axis]);
    }
    result.push_back(values[static_cast<std::size_t>(at)]);
    for (std::size_t axis = other.rank(); axis-- > 0;) {
      if (++index[axis] < other[axis]) break;
      index[axis] = 0;
    }
  }
  return result;
}

bool uniform(std::span<const float> values) {
  if (values.size() == 1) return true;  // NaN included, which differs from itself
  for (const float value : values) {
    if (value != values.front()) return false;
  }
  return !values.empty();
}

// Before opset 7, a constant B was aligned to A by the attributes `broadcast` and `axis`, not from the right.
Shape aligned_shape(const NodeImporter& node, std::size_t position, const Shape& constant, std::size_t rank) {
  std::vector<std::int64_t> dims(constant.dims().begin(), constant.dims().end());
  if (node.state().opset < 7 && node.has_attribute("axis")) {
    const std::size_t axis = normalize_axis(node, node.attribute("axis", 0), rank);
    if (axis + dims.size() > rank) throw node.invalid_input(position, "does not fit the other operand at that axis");
    dims.resize(rank - axis, 1);
  }
  while (!dims.empty() && dims.size() > rank && dims.front() == 1) dims.erase(dims.begin());
  if (dims.size() > rank) {
    throw node.unsupported_input(position, "has more axes than the other operand: " + to_string(constant));
  }
  dims.insert(dims.begin(), rank - dims.size(), 1);
  return Shape(std::span<const std::int64_t>(dims));
}

Broadcast read_broadcast(NodeImporter& node, std::size_t position, const Shape& other) {
  const ConstantPtr constant = node.floats(position);
  const Shape shape = aligned_shape(node, position, constant->shape(), other.rank());
  Broadcast result;
  std::size_t wide_axes = 0;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    if (axis == 0 || shape[axis] != other[axis]) {
      throw node.unsupported_input(
          position, "of shape " + to_string(constant->shape()) + " does not broadcast to " + to_string(other));
    }
    ++wide_axes;
    result.axis = axis;
  }
  const std::span<const float> values = constant->floats();
  if (uniform(values)) {
    result.axis = 1;
    result.values = {values.front()};
  } else if (wide_axes == 1) {
    result.values.assign(values.begin(), values.end());
  } else {
    result.axis = 0;
    result.values = repeated(node, values, shape, other);
  }
  return result;
}

// The same along axis 1.
ValueId scale_shift_channels(NodeImporter& node, ValueId x, std::vector<float> scale, std::vector<float> shift) {
  const std::int64_t channels = node.shape_of(x)[1];
  node.count_scale_and_shift(channels);
  if (scale.size() == 1) scale.resize(static_cast<std::size_t>(channels), scale.front());
  if (shift.size() == 1) shift.resize(static_cast<std::size_t>(channels), shift.front());
  const std::string name = node.proto().output(0);
  const ValueId scale_id = node.add_constant(name + "/scale", Shape{channels}, scale);
  const ValueId shift_id = node.add_constant(name + "/shift", Shape{channels}, shift);
  return node.add(ScaleShift{}, {x, scale_id, shift_id});
}

// y = scale * x + shift with the scale and shift along an axis; either may have one element.
ValueId scale_shift(NodeImporter& node, ValueId x, std::size_t axis, std::vector<float> scale,
                    std::vector<float> shift) {
  const Shape shape = node.shape_of(x);
  const std::size_t rank = shape.rank();
  if (rank < 2) throw node.unsupported_input(0, "must have at least two axes");
  const bool uniform_factors = scale.size() == 1 && shift.size() == 1;
  const auto on = [&](ValueId value) { return scale_shift_channels(node, value, scale, shift); };
  if (uniform_factors) return by_element(node, x, on);
  if (axis == 1) return on(x);
  if (axis == rank - 1) return to_channels_last(node, on(image_of_channels_last(node, x)), shape);
  if (axis != 0) {  // its axis in front, and the others behind it
    std::vector<std::int64_t> there{0, static_cast<std::int64_t>(axis)};
    std::vector<std::int64_t> back;
    for (std::size_t i = 1; i < rank; ++i) {
      if (i != axis) there.push_back(static_cast<std::int64_t>(i));
    }
    for (std::size_t i = 0; i < rank; ++i) back.push_back(std::ranges::find(there, i) - there.begin());
    return node.add(Transpose{back}, {on(node.add(Transpose{there}, {x}))});
  }
  const ValueId y = on(node.add(Reshape{Shape{shape[0], shape.elements() / shape[0]}}, {x}));
  return node.add(Reshape{shape}, {y});
}

std::size_t constant_operand(const NodeImporter& node) { return node.is_constant(0) ? 0 : 1; }

bool of_two_activations(const NodeImporter& node) { return !node.is_constant(0) && !node.is_constant(1); }

void add_activations(NodeImporter& node, ValueId left, ValueId right) {
  const Shape shape = node.shape_of(left);
  const Shape other = node.shape_of(right);
  // One value for each channel is written out: the nearest pixel of an image of one.
  const auto one_pixel_of = [](const Shape& small, const Shape& large) {
    return small.rank() == 4 && large.rank() == 4 && small[1] == large[1] && small[2] == 1 && small[3] == 1;
  };
  if (shape != other && node.state().opset >= 7 && (one_pixel_of(shape, other) || one_pixel_of(other, shape))) {
    const bool small_left = one_pixel_of(shape, other);
    const Shape& whole = small_left ? other : shape;
    const ValueId repeated = node.add(Resize{{whole[2], whole[3]}}, {small_left ? left : right});
    node.set_output(node.add(Add{}, {small_left ? right : left, repeated}));
    return;
  }
  if (shape != other) {
    throw node.error(ErrorCode::unsupported, "operands of shapes " + to_string(shape) + " and " + to_string(other) +
                                                 ": broadcasting is not supported");
  }
  if (!is_channels_last(node, left) && !is_channels_last(node, right)) {
    node.set_output(node.add(Add{}, {left, right}));
    return;
  }
  const ValueId sum = node.add(Add{}, {image_of_channels_last(node, left), image_of_channels_last(node, right)});
  node.set_output(to_channels_last(node, sum, shape));
}

// Whether `small` has the extents of `large`, or 1 in their place.
bool repeats_to(const Shape& small, const Shape& large) {
  if (small.rank() != large.rank()) return false;
  for (std::size_t axis = 0; axis < large.rank(); ++axis) {
    if (small[axis] != large[axis] && small[axis] != 1) return false;
  }
  return true;
}

// An operation on two activations, of which the second may repeat.
ValueId binary_of(NodeImporter& node, const Op& op, ValueId left, ValueId right) {
  const Shape shape = node.shape_of(left);
  // Of values with more axes than an image, extents of 1 would not stay where they are.
  const bool as_images = (is_channels_last(node, left) || is_channels_last(node, right)) &&
                         (shape.rank() == 4 || shape == node.shape_of(right));
  if (!as_images) return node.add(op, {left, right});
  const ValueId image = node.add(op, {image_of_channels_last(node, left), image_of_channels_last(node, right)});
  return to_channels_last(node, image, shape);
}

ValueId product_of(NodeImporter& node, ValueId left, ValueId right) { return binary_of(node, Mul{}, left, right); }

// Mul of an activation with one that an Expand repeats to its shape: the op repeats it itself. Whether that was so.
bool multiply_expanded(NodeImporter& node) {
  for (const std::size_t position : {std::size_t{0}, std::size_t{1}}) {
    const Expanded* small = node.expanded(position);
    if (small == nullptr || node.expanded(1 - position) != nullptr) continue;
    if (node.shape(1 - position) != small->shape) continue;
    node.set_output(node.add(Mul{}, {node.activation(1 - position), small->source}));
    return true;
  }
  return false;
}

void multiply_activations(NodeImporter& node) {
  if (multiply_expanded(node)) return;
  const Shape& left = node.shape(0);
  const Shape& right = node.shape(1);
  const bool same = left == right;
  // Before opset 7, operands were aligned by attributes, and from the left.
  if (!same && (node.state().opset < 7 || !(repeats_to(right, left) || repeats_to(left, right)))) {
    throw node.error(ErrorCode::unsupported,
                     "activations of shapes " + to_string(left) + " and " + to_string(right) +
                         " cannot be multiplied in opset " + std::to_string(node.state().opset),
                     "one may have 1 for extents of the other, since opset 7");
  }
  const bool swap = !repeats_to(right, left);
  node.set_output(product_of(node, node.activation(swap ? 1 : 0), node.activation(swap ? 0 : 1)));
}

// MatMul followed by the addition of a row: one Gemm with a bias. Whether that was the case.
bool add_matmul_bias(NodeImporter& node, std::size_t activation, const Broadcast& constant) {
  const MatMul* matmul = node.matmul_before(activation);
  if (matmul == nullptr) return false;
  const std::int64_t outputs = node.shape(activation)[1];
  node.count_memory(outputs * static_cast<std::int64_t>(sizeof(float)));
  std::vector<float> bias = constant.values;
  bias.resize(static_cast<std::size_t>(outputs), bias.front());
  std::vector<ValueId> inputs = matmul->inputs;
  inputs[Gemm::kBias] = node.add_constant(node.proto().input(static_cast<int>(1 - activation)), Shape{outputs}, bias);
  Origin origin = matmul->origin;
  origin.append(node.origin());
  node.set_output(node.add(Gemm{}, inputs, origin));
  return true;
}

// Of two activations, of which the second may repeat.
ValueId extremum_of(NodeImporter& node, ExtremumKind kind, ValueId left, ValueId right) {
  const Shape& a = node.shape_of(left);
  const Shape& b = node.shape_of(right);
  constexpr std::int64_t kFirstThatRepeats = 8;
  if (a != b && (node.state().opset < kFirstThatRepeats || !repeats_to(b, a))) {
    throw node.error(ErrorCode::unsupported,
                     "activations of shapes " + to_string(a) + " and " + to_string(b) +
                         " cannot be compared in opset " + std::to_string(node.state().opset),
                     "one may have 1 for extents of the other, since opset 8");
  }
  return binary_of(node, Extremum{kind, {}}, left, right);
}

// A constant as an activation beside x: nothing of x but its NaN, which an extremum of the two has anyway.
ValueId beside(NodeImporter& node, ValueId x, const Broadcast& constant) {
  return scale_shift(node, add_clip(node, x, 0.0F, 0.0F), constant.axis, {1.0F}, constant.values);
}

// The largest activation and the others, which may repeat to it; then constants that differ from place to place; then
// all constants with one value as one clip, which fuses with what is in front of it.
void import_extremum(NodeImporter& node, ExtremumKind kind) {
  std::vector<ValueId> activations;
  for (std::size_t position = 0; position < node.inputs(); ++position) {
    if (!node.is_constant(position)) activations.push_back(node.activation(position));
  }
  const ValueId x =
      *std::ranges::max_element(activations, {}, [&](ValueId id) { return node.shape_of(id).elements(); });
  ValueId result = x;
  for (const ValueId other : activations) {
    if (other != x) result = extremum_of(node, kind, result, other);
  }
  Activation bounds;
  for (std::size_t position = 0; position < node.inputs(); ++position) {
    if (!node.is_constant(position)) continue;
    const Broadcast constant = read_broadcast(node, position, node.shape_of(result));
    for (const float value : constant.values) {
      if (std::isnan(value)) throw node.invalid_input(position, "a bound must be a number, is NaN");
    }
    if (constant.values.size() > 1) {
      result = extremum_of(node, kind, result, beside(node, result, constant));
    } else if (kind == ExtremumKind::Max) {
      bounds.lo = std::max(bounds.lo, constant.values.front());
    } else {
      bounds.hi = std::min(bounds.hi, constant.values.front());
    }
  }
  if (!bounds.is_none()) result = add_clip(node, result, bounds.lo, bounds.hi);
  node.set_output(result == x ? node.add(Identity{}, {x}) : result);
}

float finite_attribute(const NodeImporter& node, std::string_view name, float fallback) {
  const float value = node.float_attribute(name, fallback);
  if (!std::isfinite(value)) throw node.invalid_attribute(name, "must be finite, got " + std::to_string(value));
  return value;
}

float read_bound(const NodeImporter& node, std::size_t position, float fallback) {
  if (!node.has_input(position)) return fallback;
  const float bound = node.scalar(position);
  if (std::isnan(bound)) throw node.invalid_input(position, "a bound must be a number, is NaN");
  return bound;
}

void import_relu(NodeImporter& node) { set_clip(node, 0.0F, kInfinity); }

void import_sigmoid(NodeImporter& node) { add_unary(node, UnaryKind::Sigmoid); }

void import_hard_sigmoid(NodeImporter& node) {
  const float alpha = finite_attribute(node, "alpha", 0.2F);
  const float beta = finite_attribute(node, "beta", 0.5F);
  node.set_output(add_hard_sigmoid(node, node.activation(0), alpha, beta));
}

void import_hard_swish(NodeImporter& node) { add_unary(node, UnaryKind::HardSwish); }

void import_erf(NodeImporter& node) { add_unary(node, UnaryKind::Erf); }
void import_sqrt(NodeImporter& node) {
  if (!import_moment(node)) add_unary(node, UnaryKind::Sqrt);
}
void import_reciprocal(NodeImporter& node) {
  if (!import_moment(node)) add_unary(node, UnaryKind::Reciprocal);
}
void import_exp(NodeImporter& node) { add_unary(node, UnaryKind::Exp); }
void import_softplus(NodeImporter& node) { add_unary(node, UnaryKind::Softplus); }

void import_gelu(NodeImporter& node) {
  const std::string form = node.string_attribute("approximate", "none");
  if (form != "none" && form != "tanh") {
    throw node.invalid_attribute("approximate", "must be 'none' or 'tanh', got " + in_quotes(form));
  }
  add_unary(node, form == "tanh" ? UnaryKind::GeluTanh : UnaryKind::Gelu);
}

// x * tanh(softplus(x)).
void import_mish(NodeImporter& node) {
  const ValueId x = node.activation(0);
  const ValueId gate = unary_of(node, unary_of(node, x, UnaryKind::Softplus), UnaryKind::Tanh);
  node.set_output(product_of(node, x, gate));
}

// |x| = max(x, 0) + max(-x, 0).
void import_abs(NodeImporter& node) {
  const ValueId x = node.activation(0);
  add_activations(node, add_clip(node, x, 0.0F, kInfinity),
                  add_clip(node, multiply_by(node, x, -1.0F), 0.0F, kInfinity));
}
// ONNX Runtime's x * sigmoid(alpha * x): with alpha = 1, SiLU.
void import_quick_gelu(NodeImporter& node) {
  const ValueId x = node.activation(0);
  const float alpha = finite_attribute(node, "alpha", 1.702F);
  const ValueId inner = alpha == 1.0F ? x : multiply_by(node, x, alpha);
  node.set_output(product_of(node, x, unary_of(node, inner, UnaryKind::Sigmoid)));
}

void import_tanh(NodeImporter& node) { add_unary(node, UnaryKind::Tanh); }
void import_leaky_relu(NodeImporter& node) {
  add_unary(node, UnaryKind::LeakyRelu, finite_attribute(node, "alpha", 0.01F));
}
// One slope is a LeakyRelu; with a slope for each channel, y = max(x, 0) + slope * min(x, 0).
void import_prelu(NodeImporter& node) {
  const ValueId x = node.activation(0);
  const ConstantPtr slope = node.floats(1);
  const std::span<const float> slopes = slope->floats();
  for (const float value : slopes) {
    if (!std::isfinite(value)) throw node.invalid_input(1, "a slope must be finite, got " + std::to_string(value));
  }
  // Before opset 7, a list of slopes was one for each channel.
  const bool list = node.state().opset < 7 && slope->shape().rank() == 1 && node.shape(0).rank() > 1;
  if (list && slopes.size() > 1 && slope->shape()[0] != node.shape(0)[1]) {
    throw node.invalid_input(1, "must have one element, or one for each channel, has " + to_string(slope->shape()));
  }
  Broadcast negative{1, {slopes.begin(), slopes.end()}};
  if (!list) negative = read_broadcast(node, 1, node.shape(0));
  if (uniform(negative.values)) {
    add_unary(node, UnaryKind::LeakyRelu, negative.values.front());
    return;
  }
  const ValueId scaled = scale_shift(node, add_clip(node, x, -kInfinity, 0.0F), negative.axis, negative.values, {0.0F});
  add_activations(node, add_clip(node, x, 0.0F, kInfinity), scaled);
}

void import_elu(NodeImporter& node) { add_unary(node, UnaryKind::Elu, finite_attribute(node, "alpha", 1.0F)); }

// gamma times Elu.
void import_selu(NodeImporter& node) {
  constexpr float kAlpha = 1.67326319F;
  constexpr float kGamma = 1.05070102F;
  const ValueId elu = unary_of(node, node.activation(0), UnaryKind::Elu, finite_attribute(node, "alpha", kAlpha));
  node.set_output(multiply_by(node, elu, finite_attribute(node, "gamma", kGamma)));
}

void import_clip_attributes(NodeImporter& node) {
  const float lo = node.float_attribute("min", -kInfinity);
  const float hi = node.float_attribute("max", kInfinity);
  if (std::isnan(lo)) throw node.invalid_attribute("min", "must be a number, is NaN");
  if (std::isnan(hi)) throw node.invalid_attribute("max", "must be a number, is NaN");
  set_clip(node, lo, hi);
}

void import_clip_inputs(NodeImporter& node) {
  const float lo = read_bound(node, 1, -kInfinity);
  set_clip(node, lo, read_bound(node, 2, kInfinity));
}

void import_min(NodeImporter& node) { import_extremum(node, ExtremumKind::Min); }
void import_max(NodeImporter& node) { import_extremum(node, ExtremumKind::Max); }

void import_add(NodeImporter& node) {
  if (import_moment(node)) return;
  if (of_two_activations(node)) {
    add_activations(node, node.activation(0), node.activation(1));
    return;
  }
  const std::size_t constant = constant_operand(node);
  const ValueId x = node.activation(1 - constant);
  const Broadcast shift = read_broadcast(node, constant, node.shape_of(x));
  if (add_matmul_bias(node, 1 - constant, shift)) return;
  node.set_output(scale_shift(node, x, shift.axis, {1.0F}, shift.values));
}

void import_neg(NodeImporter& node) { node.set_output(multiply_by(node, node.activation(0), -1.0F)); }

// Of two activations, a + -1 * b.
void import_sub(NodeImporter& node) {
  if (import_moment(node)) return;
  if (of_two_activations(node)) {
    add_activations(node, node.activation(0), multiply_by(node, node.activation(1), -1.0F));
    return;
  }
  const std::size_t constant = constant_operand(node);
  const ValueId x = node.activation(1 - constant);
  Broadcast shift = read_broadcast(node, constant, node.shape_of(x));
  if (constant == 1) {
    for (float& value : shift.values) value = -value;
  }
  node.set_output(scale_shift(node, x, shift.axis, {constant == 1 ? 1.0F : -1.0F}, shift.values));
}

void import_mul(NodeImporter& node) {
  if (import_moment(node)) return;
  if (of_two_activations(node)) {
    multiply_activations(node);
    return;
  }
  const std::size_t constant = constant_operand(node);
  const ValueId x = node.activation(1 - constant);
  const Broadcast scale = read_broadcast(node, constant, node.shape_of(x));
  node.set_output(scale_shift(node, x, scale.axis, scale.values, {0.0F}));
}

// By an activation: times its reciprocal, which may repeat.
void import_div(NodeImporter& node) {
  if (import_moment(node)) return;
  if (!node.is_constant(1)) {
    const ValueId reciprocal = unary_of(node, node.activation(1), UnaryKind::Reciprocal);
    if (node.is_constant(0)) {
      const Broadcast dividend = read_broadcast(node, 0, node.shape_of(reciprocal));
      node.set_output(scale_shift(node, reciprocal, dividend.axis, dividend.values, {0.0F}));
      return;
    }
    if (!repeats_to(node.shape(1), node.shape(0)) || node.state().opset < 7) {
      throw node.unsupported_input(1, "of shape " + to_string(node.shape(1)) +
                                          " cannot divide an activation of shape " + to_string(node.shape(0)));
    }
    node.set_output(product_of(node, node.activation(0), reciprocal));
    return;
  }
  const ValueId x = node.activation(0);
  Broadcast divisor = read_broadcast(node, 1, node.shape_of(x));
  for (float& value : divisor.values) {
    if (value == 0.0F) throw node.invalid_input(1, "divides by 0");
    value = 1.0F / value;
  }
  node.set_output(scale_shift(node, x, divisor.axis, divisor.values, {0.0F}));
}

// Whole powers, as products.
void import_pow(NodeImporter& node) {
  if (import_moment(node)) return;
  constexpr float kMostFactors = 4.0F;
  const ValueId x = node.activation(0);
  const float exponent = node.is_constant(1) && node.constant(1)->elements() == 1 ? node.number(1) : 0.0F;
  if (!(exponent >= 1.0F && exponent <= kMostFactors) || exponent != std::floor(exponent)) {
    throw node.unsupported_input(1, "only a constant power of 1, 2, 3 or 4 is supported");
  }
  ValueId power = x;
  for (int factors = 1; factors < static_cast<int>(exponent); ++factors) power = product_of(node, power, x);
  node.set_output(power == x ? node.add(Identity{}, {x}) : power);
}

void import_sum(NodeImporter& node) {
  ValueId total = node.activation(0);
  if (node.inputs() == 1) {
    node.set_output(node.add(Identity{}, {total}));
    return;
  }
  for (std::size_t position = 1; position + 1 < node.inputs(); ++position) {
    total = node.add(Add{}, {total, node.activation(position)});
  }
  add_activations(node, total, node.activation(node.inputs() - 1));
}

}  // namespace

ValueId add_clip(NodeImporter& node, ValueId x, float lo, float hi) {
  Clip op;
  op.activation = {lo, hi};
  return by_element(node, x, [&](ValueId value) { return node.add(op, {value}); });
}

ValueId unary_of(NodeImporter& node, ValueId x, UnaryKind kind, float alpha) {
  return by_element(node, x, [&](ValueId value) { return node.add(Unary{kind, alpha}, {value}); });
}

ValueId scale_and_shift(NodeImporter& node, ValueId x, std::vector<float> scale, std::vector<float> shift) {
  return scale_shift(node, x, 1, std::move(scale), std::move(shift));
}

// What the graph has already, and folds into a convolution.
ValueId add_hard_sigmoid(NodeImporter& node, ValueId x, float alpha, float beta) {
  return add_clip(node, scale_shift(node, x, 1, {alpha}, {beta}), 0.0F, 1.0F);
}

ValueId multiply_by(NodeImporter& node, ValueId x, float factor) { return scale_shift(node, x, 1, {factor}, {0.0F}); }

ValueId add_fused_activation(NodeImporter& node, ValueId x, std::span<const std::optional<float>> parameters,
                             std::string_view where) {
  struct Form {
    std::string_view name;
    std::vector<float> defaults;
  };
  static const Form kForms[] = {{"Clip", {-kInfinity, kInfinity}},
                                {"Elu", {1.0F}},
                                {"HardSigmoid", {0.2F, 0.5F}},
                                {"HardSwish", {}},
                                {"LeakyRelu", {0.01F}},
                                {"Relu", {}},
                                {"Sigmoid", {}},
                                {"Tanh", {}}};
  const std::string name = node.string_attribute("activation", "");
  const auto* const form = std::ranges::find(kForms, name, &Form::name);
  if (form == std::end(kForms)) {
    throw node.unsupported_attribute("activation", in_quotes(name) + " is not supported",
                                     "have ONNX Runtime save the model with ORT_ENABLE_BASIC");
  }
  std::vector<float> p = form->defaults;
  bool valid = parameters.empty() || parameters.size() >= p.size();
  for (std::size_t i = 0; valid && i < parameters.size(); ++i) {
    if (!parameters[i]) continue;
    valid = i < p.size() && (name == "Clip" ? !std::isnan(*parameters[i]) : std::isfinite(*parameters[i]));
    if (valid) p[i] = *parameters[i];
  }
  if (!valid) {
    throw node.invalid_attribute(where, name + " takes " + std::to_string(p.size()) + " finite parameters");
  }
  if (name == "Clip") return add_clip(node, x, p[0], p[1]);
  if (name == "Elu") return node.add(Unary{UnaryKind::Elu, p[0]}, {x});
  if (name == "HardSigmoid") return add_hard_sigmoid(node, x, p[0], p[1]);
  if (name == "HardSwish") return node.add(Unary{UnaryKind::HardSwish}, {x});
  if (name == "LeakyRelu") return node.add(Unary{UnaryKind::LeakyRelu, p[0]}, {x});
  if (name == "Relu") return add_clip(node, x, 0.0F, kInfinity);
  return node.add(Unary{name == "Tanh" ? UnaryKind::Tanh : UnaryKind::Sigmoid}, {x});
}

Forms elementwise_forms() {
  static constexpr OperatorForm kForms[] = {
      {"Abs", 6, kNewestOpset, 1, 1, "", import_abs, fold_abs},
      {"Add", 6, 6, 2, 2, "axis broadcast", import_add, fold_add},
      {"Add", 7, kNewestOpset, 2, 2, "", import_add, fold_add},
      {"Clip", 6, 10, 1, 1, "max min", import_clip_attributes},
      {"Clip", 11, kNewestOpset, 1, 3, "", import_clip_inputs, fold_clip},
      {"Div", 6, 6, 2, 2, "axis broadcast", import_div, fold_div},
      {"Div", 7, kNewestOpset, 2, 2, "", import_div, fold_div},
      {"Elu", 6, kNewestOpset, 1, 1, "alpha", import_elu},
      {"Erf", 9, kNewestOpset, 1, 1, "", import_erf},
      {"Exp", 6, kNewestOpset, 1, 1, "", import_exp, fold_exp},
      {"Gelu", 20, kNewestOpset, 1, 1, "approximate", import_gelu},
      {"Gelu", 1, 1, 1, 1, "", import_gelu, nullptr, kMicrosoftDomain},
      {"HardSigmoid", 6, kNewestOpset, 1, 1, "alpha beta", import_hard_sigmoid},
      {"HardSwish", 14, kNewestOpset, 1, 1, "", import_hard_swish},
      {"LeakyRelu", 6, kNewestOpset, 1, 1, "alpha", import_leaky_relu},
      {"Max", 6, kNewestOpset, 1, kAnyInputs, "", import_max, fold_max},
      {"Min", 6, kNewestOpset, 1, kAnyInputs, "", import_min, fold_min},
      {"Mish", 18, kNewestOpset, 1, 1, "", import_mish},
      {"Mul", 6, 6, 2, 2, "axis broadcast", import_mul, fold_mul},
      {"Mul", 7, kNewestOpset, 2, 2, "", import_mul, fold_mul},
      {"Neg", 6, kNewestOpset, 1, 1, "", import_neg, fold_neg},
      {"Pow", 6, 6, 2, 2, "axis broadcast", import_pow, fold_pow},
      {"Pow", 7, kNewestOpset, 2, 2, "", import_pow, fold_pow},
      {"PRelu", 6, kNewestOpset, 2, 2, "", import_prelu},
      {"QuickGelu", 1, 1, 1, 1, "alpha", import_quick_gelu, nullptr, kMicrosoftDomain},
      {"Reciprocal", 6, kNewestOpset, 1, 1, "", import_reciprocal, fold_reciprocal},
      {"Relu", 6, kNewestOpset, 1, 1, "", import_relu, fold_relu},
      {"Selu", 6, kNewestOpset, 1, 1, "alpha gamma", import_selu},
      {"Sigmoid", 6, kNewestOpset, 1, 1, "", import_sigmoid},
      {"Softplus", 6, kNewestOpset, 1, 1, "", import_softplus},
      {"Sqrt", 6, kNewestOpset, 1, 1, "", import_sqrt, fold_sqrt},
      {"Sub", 6, 6, 2, 2, "axis broadcast", import_sub, fold_sub},
      {"Sub", 7, kNewestOpset, 2, 2, "", import_sub, fold_sub},
      {"Sum", 6, kNewestOpset, 1, kAnyInputs, "", import_sum, fold_add},
      {"Tanh", 6, kNewestOpset, 1, 1, "", import_tanh},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
