#include "baselines/cpu/ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {
namespace {

template <bool kLogarithm, class T>
void softmax_rows(std::int64_t columns, std::int64_t stride, const T* x, T* y, Range rows) {
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
      const T distance = in[c] - largest;
      const T weight = std::exp(distance);
      out[c] = kLogarithm ? distance : weight;
      sum += static_cast<double>(weight);
    }
    const double log_sum = kLogarithm ? std::log(sum) : 0.0;
    for (std::int64_t c = 0; c < end; c += stride) {
      const auto value = static_cast<double>(out[c]);
      out[c] = static_cast<T>(kLogarithm ? value - log_sum : value / sum);
    }
  }
}

template <bool kLogarithm>
LoweredNode lower_softmax(const NodeView& view, const char* kernel) {
  const TensorDesc& desc = view.desc(0);
  const std::int64_t columns = desc.shape[1];
  const std::int64_t stride = strides_of(desc)[1];
  return loop_rows(view, kernel, desc.shape.elements() / columns, columns, [=](auto at, Range rows) {
    softmax_rows<kLogarithm>(columns, stride, at.input(0), at.output(), rows);
  });
}

}  // namespace

template <class T>
void softmax(std::int64_t columns, std::int64_t stride, const T* x, T* y, Range rows) {
  softmax_rows<false>(columns, stride, x, y, rows);
}

template void softmax(std::int64_t, std::int64_t, const float*, float*, Range);
template void softmax(std::int64_t, std::int64_t, const double*, double*, Range);

template <class T>
void log_softmax(std::int64_t columns, std::int64_t stride, const T* x, T* y, Range rows) {
  softmax_rows<true>(columns, stride, x, y, rows);
}

template void log_softmax(std::int64_t, std::int64_t, const float*, float*, Range);
template void log_softmax(std::int64_t, std::int64_t, const double*, double*, Range);

LoweredNode lower(const Softmax&, const NodeView& view) { return lower_softmax<false>(view, "softmax"); }

LoweredNode lower(const LogSoftmax&, const NodeView& view) { return lower_softmax<true>(view, "log_softmax"); }

}  // namespace mobicuda::cpu
