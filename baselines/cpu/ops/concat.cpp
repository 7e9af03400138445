#include "baselines/cpu/ops/concat.h"

#include <algorithm>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {

namespace {

// Products of the extents that lie in memory outside of an axis, without the batch, and inside of it.
struct Around {
  std::int64_t outer = 1;
  std::int64_t inner = 1;
};

Around around(const TensorDesc& desc, std::int64_t joined) {
  Around result;
  bool inside = false;
  for (const std::size_t axis : memory_order(desc)) {
    if (inside) result.inner *= desc.shape[axis];
    if (axis == static_cast<std::size_t>(joined)) inside = true;
    if (!inside && axis != 0) result.outer *= desc.shape[axis];
  }
  return result;
}

}  // namespace

ConcatPlan plan_concat(const Concat& op, const TensorDesc& y_desc, const std::vector<TensorDesc>& x_descs) {
  const Around y = around(y_desc, op.axis);
  ConcatPlan plan;
  plan.rows = y.outer;
  for (const TensorDesc& x : x_descs) {
    plan.firsts.push_back(plan.y_row);
    plan.chunks.push_back(x.shape[static_cast<std::size_t>(op.axis)] * y.inner);
    plan.y_row += plan.chunks.back();
  }
  return plan;
}

template <class T>
void concat(const ConcatPlan& plan, std::size_t input, const T* x, T* y, Range rows) {
  const std::int64_t chunk = plan.chunks[input];
  T* to = y + rows.first * plan.y_row + plan.firsts[input];
  for (std::int64_t row = rows.first; row < rows.last; ++row, to += plan.y_row) std::copy_n(x + row * chunk, chunk, to);
}

SlicePlan plan_slice(const Slice& op, const TensorDesc& x_desc) {
  const Around x = around(x_desc, op.axis);
  return {x_desc.shape[static_cast<std::size_t>(op.axis)] * x.inner, op.first * x.inner, op.extent * x.inner, x.outer};
}

template <class T>
void slice(const SlicePlan& plan, const T* x, T* y, Range rows) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    std::copy_n(x + row * plan.x_row + plan.first, plan.chunk, y + row * plan.chunk);
  }
}

template void slice(const SlicePlan&, const float*, float*, Range);
template void slice(const SlicePlan&, const double*, double*, Range);
template void slice(const SlicePlan&, const std::int8_t*, std::int8_t*, Range);
template void slice(const SlicePlan&, const std::uint8_t*, std::uint8_t*, Range);
template void concat(const ConcatPlan&, std::size_t, const float*, float*, Range);
template void concat(const ConcatPlan&, std::size_t, const double*, double*, Range);
template void concat(const ConcatPlan&, std::size_t, const std::int8_t*, std::int8_t*, Range);
template void concat(const ConcatPlan&, std::size_t, const std::uint8_t*, std::uint8_t*, Range);

LoweredNode lower(const Concat& op, const NodeView& view) {
  std::vector<TensorDesc> descs;
  for (std::size_t input = 0; input < view.inputs.size(); ++input) descs.push_back(view.desc(input));
  const ConcatPlan plan = plan_concat(op, view.output_desc(), descs);
  std::vector<std::size_t> apart;  // what is not in its place already
  for (std::size_t i = 0; i < view.inputs.size(); ++i) {
    if (view.inputs[i] != view.output) apart.push_back(i);
  }
  return move_rows(view, "concat", apart.empty() ? 0 : plan.rows, plan.y_row, [plan, apart](auto at, Range rows) {
    for (const std::size_t i : apart) concat(plan, i, at.input(i), at.output(), rows);
  });
}

LoweredNode lower(const Slice& op, const NodeView& view) {
  const SlicePlan plan = plan_slice(op, view.desc(Slice::kInput));
  return move_rows(view, "concat", plan.rows, plan.chunk,
                   [plan](auto at, Range rows) { slice(plan, at.input(Slice::kInput), at.output(), rows); });
}

}  // namespace mobicuda::cpu
