#include "baselines/cpu/ops/elementwise.h"

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

}  // namespace mobicuda::cpu
