#include "baselines/cpu/ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {

template <class T>
void softmax(std::int64_t columns, std::int64_t stride, const T* x, T* y, Range rows) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t start = row / stride * stride * columns + row % stride;
    const T* in = x + start;
    T* out = y + start;
    const std::int64_t end = columns * stride;
    T largest = in[0];
    for (std::int64_t c = 0; c < end; c += stride) largest = std::max(largest, in[c]);
    // Double also for float: a sum in index order, exact to far below float's rounding.
    double sum = 0.0;
    for (std::int64_t c = 0; c < end; c += stride) {
      out[c] = std::exp(in[c] - largest);
      sum += static_cast<double>(out[c]);
    }
    for (std::int64_t c = 0; c < end; c += stride) out[c] = static_cast<T>(static_cast<double>(out[c]) / sum);
  }
}

template void softmax(std::int64_t, std::int64_t, const float*, float*, Range);
template void softmax(std::int64_t, std::int64_t, const double*, double*, Range);

LoweredNode lower(const Softmax&, const NodeView& view) {
  const TensorDesc& desc = view.desc(Softmax::kInput);
  const std::int64_t columns = desc.shape[1];
  const std::int64_t stride = strides_of(desc)[1];
  return loop_rows(view, "softmax", desc.shape.elements() / columns, columns, [=](auto at, Range rows) {
    softmax(columns, stride, at.input(Softmax::kInput), at.output(), rows);
  });
}

}  // namespace mobicuda::cpu
