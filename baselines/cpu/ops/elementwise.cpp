#include "baselines/cpu/ops/elementwise.h"

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {

std::int64_t MulPlan::rows() const {
  std::int64_t count = 1;
  for (const Axis& axis : outer) count *= axis.extent;
  return count;
}

MulPlan plan_mul(const TensorDesc& a_desc, const TensorDesc& b_desc) {
  const Strides bs = strides_of(b_desc);
  MulPlan plan;
  plan.b_picture = b_desc.shape.elements();
  for (const std::size_t axis : memory_order(a_desc)) {
    if (axis != 0) plan.outer.push_back({a_desc.shape[axis], b_desc.shape[axis] == 1 ? 0 : bs[axis]});
  }
  if (!plan.outer.empty()) {
    plan.last = plan.outer.back();
    plan.outer.pop_back();
  }
  return plan;
}

template <class T>
void mul(const Mul& op, const MulPlan& plan, const T* a, const T* b, T* y, Range rows) {
  const auto [columns, stride] = plan.last;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    std::int64_t picture = row;
    const T* right = b;
    for (std::size_t axis = plan.outer.size(); axis-- > 0;) {
      right += picture % plan.outer[axis].extent * plan.outer[axis].b_stride;
      picture /= plan.outer[axis].extent;
    }
    right += picture * plan.b_picture;
    const std::int64_t start = row * columns;
    for (std::int64_t i = 0; i < columns; ++i) {
      y[start + i] = activate(a[start + i] * right[i * stride], op.activation);
    }
  }
}

template <class T>
void unary(const Unary& op, const T* x, T* y, Range range) {
  const Activation activation = activation_of(op);
  for (std::int64_t i = range.first; i < range.last; ++i) y[i] = activate(x[i], activation);
}

template void mul<float>(const Mul&, const MulPlan&, const float*, const float*, float*, Range);
template void mul<double>(const Mul&, const MulPlan&, const double*, const double*, double*, Range);
template void unary<float>(const Unary&, const float*, float*, Range);
template void unary<double>(const Unary&, const double*, double*, Range);

template void add<float>(const Add&, const float*, const float*, float*, Range);
template void add<double>(const Add&, const double*, const double*, double*, Range);
template void clip<float>(const Clip&, const float*, float*, Range);
template void clip<double>(const Clip&, const double*, double*, Range);
template void scale_shift<float>(const ScaleShift&, std::int64_t, std::int64_t, const float*, const float*,
                                 const float*, float*, Range);
template void scale_shift<double>(const ScaleShift&, std::int64_t, std::int64_t, const double*, const float*,
                                  const float*, double*, Range);

LoweredNode lower(const Add& op, const NodeView& view) {
  return loop(view, "elementwise", view.output_desc().shape.elements(), kElementGrain,
              [op](auto at, Range range) { add(op, at.input(Add::kLeft), at.input(Add::kRight), at.output(), range); });
}

LoweredNode lower(const Mul& op, const NodeView& view) {
  const MulPlan plan = plan_mul(view.desc(Mul::kLeft), view.desc(Mul::kRight));
  return loop_rows(view, "elementwise", plan.rows(), plan.last.extent, [op, plan](auto at, Range rows) {
    mul(op, plan, at.input(Mul::kLeft), at.input(Mul::kRight), at.output(), rows);
  });
}

LoweredNode lower(const Unary& op, const NodeView& view) {
  return loop(view, "elementwise", view.output_desc().shape.elements(), kElementGrain,
              [op](auto at, Range range) { unary(op, at.input(Unary::kInput), at.output(), range); });
}

LoweredNode lower(const Clip& op, const NodeView& view) {
  return loop(view, "elementwise", view.output_desc().shape.elements(), kElementGrain,
              [op](auto at, Range range) { clip(op, at.input(Clip::kInput), at.output(), range); });
}

LoweredNode lower(const ScaleShift& op, const NodeView& view) {
  const TensorDesc& desc = view.desc(ScaleShift::kInput);
  const std::int64_t channels = desc.shape[1];
  const bool channels_last = desc.shape.rank() == 4 && desc.layout == Layout::NHWC;
  const std::int64_t inner = channels_last ? 1 : desc.shape.elements() / channels;
  const PackedWeights scale = view.copy_of(ScaleShift::kScale);
  const PackedWeights shift = view.copy_of(ScaleShift::kShift);
  LoweredNode lowered = loop_rows(
      view, "elementwise", desc.shape.elements() / (channels * inner), channels * inner, [=](auto at, Range rows) {
        scale_shift(op, channels, inner, at.input(ScaleShift::kInput), scale.data(), shift.data(), at.output(), rows);
      });
  lowered.weight_bytes = scale.bytes() + shift.bytes();
  return lowered;
}

}  // namespace mobicuda::cpu
