#include "baselines/cpu/ops/local_response_norm.h"

#include <algorithm>
#include <cmath>

namespace mobicuda::cpu {

template <class T>
void local_response_norm(const LocalResponseNorm& op, const TensorDesc& desc, const T* x, T* y, Range rows) {
  const Strides strides = strides_of(desc);
  const std::int64_t channels = desc.shape[1];
  const std::int64_t before = std::min((op.size - 1) / 2, channels);
  const std::int64_t after = std::min(op.size / 2, channels);
  const T factor = static_cast<T>(op.alpha) / static_cast<T>(op.size);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t start = row / desc.shape[2] * strides[0] + row % desc.shape[2] * strides[2];
    for (std::int64_t ix = 0; ix < desc.shape[3]; ++ix) {
      const T* in = x + start + ix * strides[3];
      T* out = y + start + ix * strides[3];
      for (std::int64_t c = 0; c < channels; ++c) {
        T squares{0};
        const std::int64_t last = std::min(c + after, channels - 1);
        for (std::int64_t k = std::max<std::int64_t>(c - before, 0); k <= last; ++k) {
          squares += in[k * strides[1]] * in[k * strides[1]];
        }
        const T base = static_cast<T>(op.bias) + factor * squares;
        out[c * strides[1]] = in[c * strides[1]] / std::pow(base, static_cast<T>(op.beta));
      }
    }
  }
}

template void local_response_norm(const LocalResponseNorm&, const TensorDesc&, const float*, float*, Range);
template void local_response_norm(const LocalResponseNorm&, const TensorDesc&, const double*, double*, Range);

}  // namespace mobicuda::cpu
