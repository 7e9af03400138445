#include "baselines/cpu/ops/concat.h"

#include <algorithm>
#include <numeric>

namespace mobicuda::cpu {

ConcatPlan plan_concat(const Concat& op, const TensorDesc& y_desc, const std::vector<TensorDesc>& x_descs) {
  ConcatPlan plan;
  std::int64_t inner = 1;
  bool inside = false;
  for (const std::size_t axis : memory_order(y_desc)) {
    if (inside) inner *= y_desc.shape[axis];
    if (axis == static_cast<std::size_t>(op.axis)) inside = true;
    if (!inside && axis != 0) plan.rows *= y_desc.shape[axis];
  }
  for (const TensorDesc& x : x_descs) plan.chunks.push_back(x.shape[static_cast<std::size_t>(op.axis)] * inner);
  plan.y_row = std::accumulate(plan.chunks.begin(), plan.chunks.end(), std::int64_t{0});
  return plan;
}

template <class T>
void concat(const ConcatPlan& plan, std::size_t input, const T* x, T* y, Range rows) {
  const std::int64_t chunk = plan.chunks[input];
  T* to = y + std::accumulate(plan.chunks.begin(), plan.chunks.begin() + static_cast<std::ptrdiff_t>(input),
                              rows.first * plan.y_row);
  for (std::int64_t row = rows.first; row < rows.last; ++row, to += plan.y_row) std::copy_n(x + row * chunk, chunk, to);
}

template void concat(const ConcatPlan&, std::size_t, const float*, float*, Range);
template void concat(const ConcatPlan&, std::size_t, const double*, double*, Range);

}  // namespace mobicuda::cpu
