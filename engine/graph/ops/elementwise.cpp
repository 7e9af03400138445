#include "graph/ops.h"
#include "graph/ops/checks.h"

namespace mobicuda {
namespace {

// The shape of 'A', which 'B' repeats to.
TensorDesc repeated(const Inputs& inputs, std::size_t left_position, std::size_t right_position) {
  const TensorDesc& left = required(inputs, left_position, "A");
  const TensorDesc& right = required(inputs, right_position, "B");
  bool fits = left.shape.rank() == right.shape.rank();
  for (std::size_t axis = 0; fits && axis < left.shape.rank(); ++axis) {
    fits = right.shape[axis] == left.shape[axis] || right.shape[axis] == 1;
  }
  if (!fits) {
    reject("input 'B'", "must have the extents of 'A', " + to_string(left.shape) + ", or 1 in their place, got " +
                            to_string(right.shape));
  }
  return left;
}

}  // namespace

// ---- ScaleShift

TensorDesc infer(const ScaleShift&, const Inputs& inputs) {
  const TensorDesc& x = required(inputs, ScaleShift::kInput, "x");
  if (x.shape.rank() < 2) reject("input 'x'", "must have channels on axis 1, got " + to_string(x.shape));
  require_shape(required(inputs, ScaleShift::kScale, "scale"), "scale", Shape{x.shape[1]});
  require_shape(required(inputs, ScaleShift::kShift, "shift"), "shift", Shape{x.shape[1]});
  return x;
}

std::int64_t flops(const ScaleShift&, const Inputs&, const Shape& y) { return 2 * y.elements(); }

void attributes(const ScaleShift& op, AttributeText& text) { text << activation_text(op.activation); }

void members(ScaleShift& op, Members& io) { io.activation(op.activation); }

// ---- Add

TensorDesc infer(const Add&, const Inputs& inputs) {
  const TensorDesc& left = required(inputs, Add::kLeft, "A");
  const TensorDesc& right = required(inputs, Add::kRight, "B");
  if (left.shape != right.shape) {
    reject("input 'B'", "must have the shape of 'A', " + to_string(left.shape) + ", got " + to_string(right.shape));
  }
  if (left.layout != right.layout) reject("input 'B'", "must have the layout of 'A'");
  return left;
}

std::int64_t flops(const Add&, const Inputs&, const Shape& y) { return y.elements(); }

void attributes(const Add& op, AttributeText& text) { text << activation_text(op.activation); }

void members(Add& op, Members& io) { io.activation(op.activation); }

// ---- Mul

TensorDesc infer(const Mul&, const Inputs& inputs) { return repeated(inputs, Mul::kLeft, Mul::kRight); }

std::int64_t flops(const Mul&, const Inputs&, const Shape& y) { return y.elements(); }

void attributes(const Mul& op, AttributeText& text) { text << activation_text(op.activation); }

void members(Mul& op, Members& io) { io.activation(op.activation); }

// ---- Extremum

TensorDesc infer(const Extremum&, const Inputs& inputs) { return repeated(inputs, Extremum::kLeft, Extremum::kRight); }

std::int64_t flops(const Extremum&, const Inputs&, const Shape& y) { return y.elements(); }

void attributes(const Extremum& op, AttributeText& text) { text << activation_text(op.activation); }

void members(Extremum& op, Members& io) {
  io.choice(op.kind, ExtremumKind::Min);
  io.activation(op.activation);
}

// ---- Unary

TensorDesc infer(const Unary& op, const Inputs& inputs) {
  require_finite_alpha(op.alpha);
  return required(inputs, Unary::kInput, "x");
}

std::int64_t flops(const Unary&, const Inputs&, const Shape& y) { return 4 * y.elements(); }

void attributes(const Unary& op, AttributeText& text) {
  if (op.kind == UnaryKind::LeakyRelu || op.kind == UnaryKind::Elu) text << " alpha=" << op.alpha;
}

void members(Unary& op, Members& io) {
  io.choice(op.kind, UnaryKind::Exp);
  io.fraction(op.alpha);
}

// ---- Clip

TensorDesc infer(const Clip& op, const Inputs& inputs) {
  if (!op.activation.is_clip()) reject("attribute 'activation'", "must be a clip, got " + to_string(op.activation));
  return required(inputs, Clip::kInput, "x");
}

std::int64_t flops(const Clip&, const Inputs&, const Shape& y) { return y.elements(); }

void attributes(const Clip& op, AttributeText& text) { text << activation_text(op.activation); }

void members(Clip& op, Members& io) { io.activation(op.activation); }

}  // namespace mobicuda
