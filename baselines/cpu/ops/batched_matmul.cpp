#include <algorithm>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {
namespace {

/// y = a * b for the rows of a in `rows`, counted through all matrices; a sum runs along k in order.
template <class T>
void batched_matmul(std::int64_t m, std::int64_t k, std::int64_t p, const T* a, const T* b, T* y, Range rows) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const T* const left = a + row * k;
    const T* const right = b + row / m * k * p;
    T* const out = y + row * p;
    std::fill_n(out, p, T{0});
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t j = 0; j < p; ++j) out[j] += left[i] * right[i * p + j];
    }
  }
}

}  // namespace

LoweredNode lower(const BatchedMatMul&, const NodeView& view) {
  const Shape& a = view.desc(BatchedMatMul::kLeft).shape;
  const std::int64_t k = a.dims().back();
  const std::int64_t m = a[a.rank() - 2];
  const std::int64_t p = view.output_desc().shape.dims().back();
  return loop_rows(view, "batched_matmul", a.elements() / k, k * p, [=](auto at, Range rows) {
    batched_matmul(m, k, p, at.input(BatchedMatMul::kLeft), at.input(BatchedMatMul::kRight), at.output(), rows);
  });
}

}  // namespace mobicuda::cpu
