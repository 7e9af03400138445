#include <algorithm>
#include <cmath>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {
namespace {

// y[c] = x[c] / (bias + alpha / size * sum of x[k]^2)^beta for k from c - (size - 1) / 2 to c + size / 2 within the
// channels, for the rows n * H + iy in `rows`, x and y in the same layout; T is double (the definition) or float.
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

}  // namespace

LoweredNode lower(const LocalResponseNorm& op, const NodeView& view) {
  const TensorDesc& desc = view.desc(LocalResponseNorm::kInput);
  return loop_rows(view, "local_response_norm", desc.shape[2],
                   desc.shape[3] * desc.shape[1] * std::min(op.size, desc.shape[1]), [op, desc](auto at, Range rows) {
                     local_response_norm(op, desc, at.input(LocalResponseNorm::kInput), at.output(), rows);
                   });
}

}  // namespace mobicuda::cpu
