#include "baselines/cpu/ops/elementwise.h"

#include <algorithm>
#include <array>

#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {

std::int64_t BroadcastPlan::rows() const {
  std::int64_t count = 1;
  for (const Axis& axis : outer) count *= axis.extent;
  return count;
}

std::int64_t BroadcastPlan::b_offset(std::int64_t row) const {
  std::int64_t offset = 0;
  for (std::size_t axis = outer.size(); axis-- > 0;) {
    offset += row % outer[axis].extent * outer[axis].b_stride;
    row /= outer[axis].extent;
  }
  return offset + row * b_picture;
}

BroadcastPlan plan_broadcast(const TensorDesc& a_desc, const TensorDesc& b_desc) {
  const Strides bs = strides_of(b_desc);
  BroadcastPlan plan;
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

void activate_floats(const Activation& activation, float* y, std::int64_t n) {
  if (activation.is_clip()) return;
  if (!is_vectorised(activation.kind)) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = activate(y[i], activation);
    return;
  }
  ElementTask task;
  task.a = y;
  task.y = y;
  task.n = n;
  task.activation = activation;
  fp32_kernels().elements(task);
}

namespace {

// A task whose activation may be any.
void run(ElementTask task, const Activation& activation) {
  const bool together = is_vectorised(activation.kind);
  if (together) task.activation = activation;
  fp32_kernels().elements(task);
  if (!together) activate_floats(activation, task.y, task.n);
}

}  // namespace

template <>
void add(const Add& op, const float* a, const float* b, float* y, Range range) {
  ElementTask task;
  task.a = a + range.first;
  task.b = b + range.first;
  task.y = y + range.first;
  task.n = range.last - range.first;
  run(task, op.activation);
}

template <>
void mul(const Mul& op, const BroadcastPlan& plan, const float* a, const float* b, float* y, Range rows) {
  const auto [columns, stride] = plan.last;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const float* const right = b + plan.b_offset(row);
    ElementTask task;
    task.a = a + row * columns;
    task.b = right;
    task.multiply = true;
    task.repeat = stride == 0;
    task.y = y + row * columns;
    task.n = columns;
    if (stride <= 1) {
      run(task, op.activation);
      continue;
    }
    for (std::int64_t i = 0; i < columns; ++i) task.y[i] = activate(task.a[i] * right[i * stride], op.activation);
  }
}

template <>
void unary(const Unary& op, const float* x, float* y, Range range) {
  const std::optional<Activation> activation = activation_of(op);
  const bool gelu = op.kind == UnaryKind::Gelu || op.kind == UnaryKind::GeluTanh;
  if (!activation && !gelu) {
    for (std::int64_t i = range.first; i < range.last; ++i) y[i] = evaluate(op.kind, x[i]);
    return;
  }
  ElementTask task;
  task.a = x + range.first;
  task.y = y + range.first;
  task.n = range.last - range.first;
  if (activation) return run(task, *activation);
  task.function = op.kind == UnaryKind::Gelu ? ElementFunction::Gelu : ElementFunction::GeluTanh;
  fp32_kernels().elements(task);
}

template <>
void clip(const Clip& op, const float* x, float* y, Range range) {
  ElementTask task;
  task.a = x + range.first;
  task.y = y + range.first;
  task.n = range.last - range.first;
  run(task, op.activation);
}

template <>
void scale_shift(const ScaleShift& op, std::int64_t channels, std::int64_t inner, const float* x, const float* scale,
                 const float* shift, float* y, Range rows) {
  ElementTask task;
  if (inner > 1) {
    task.repeat = true;
    task.n = inner;
    for (std::int64_t at = rows.first * channels; at < rows.last * channels; ++at) {
      task.a = x + at * inner;
      task.b = scale + at % channels;
      task.c = shift + at % channels;
      task.y = y + at * inner;
      run(task, op.activation);
    }
    return;
  }
  // Pixels of few channels go together, with as many copies of what they are multiplied by.
  constexpr std::int64_t kTogether = 512;
  std::array<float, kTogether> scales;
  std::array<float, kTogether> shifts;
  const std::int64_t pixels = std::clamp(kTogether / channels, std::int64_t{1}, rows.last - rows.first);
  if (pixels > 1) {
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      std::copy_n(scale, channels, scales.begin() + pixel * channels);
      std::copy_n(shift, channels, shifts.begin() + pixel * channels);
    }
  }
  task.b = pixels > 1 ? scales.data() : scale;
  task.c = pixels > 1 ? shifts.data() : shift;
  for (std::int64_t row = rows.first; row < rows.last; row += pixels) {
    task.a = x + row * channels;
    task.y = y + row * channels;
    task.n = std::min(pixels, rows.last - row) * channels;
    run(task, op.activation);
  }
}

LoweredNode lower(const Add& op, const NodeView& view) {
  return loop(view, "elementwise", view.output_desc().shape.elements(), kElementGrain,
              [op](auto at, Range range) { add(op, at.input(Add::kLeft), at.input(Add::kRight), at.output(), range); });
}

LoweredNode lower(const Mul& op, const NodeView& view) {
  const BroadcastPlan plan = plan_broadcast(view.desc(Mul::kLeft), view.desc(Mul::kRight));
  return loop_rows(view, "elementwise", plan.rows(), plan.last.extent, [op, plan](auto at, Range rows) {
    mul(op, plan, at.input(Mul::kLeft), at.input(Mul::kRight), at.output(), rows);
  });
}

LoweredNode lower(const Extremum& op, const NodeView& view) {
  const BroadcastPlan plan = plan_broadcast(view.desc(Extremum::kLeft), view.desc(Extremum::kRight));
  return loop_rows(view, "elementwise", plan.rows(), plan.last.extent, [op, plan](auto at, Range rows) {
    extremum(op, plan, at.input(Extremum::kLeft), at.input(Extremum::kRight), at.output(), rows);
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
