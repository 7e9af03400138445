#include "baselines/cpu/ops/elementwise.h"
#include "baselines/cpu/ops/gemm.h"

namespace mobicuda::cpu {

void gemm_reference(const Gemm& op, const Shape& weight_shape, const double* x, const float* weight, const float* bias,
                    double* y, Range rows) {
  const std::int64_t outputs = weight_shape[0];
  const std::int64_t features = weight_shape[1];
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      double sum = bias != nullptr ? static_cast<double>(bias[o]) : 0.0;
      for (std::int64_t i = 0; i < features; ++i) {
        sum += x[row * features + i] * static_cast<double>(weight[o * features + i]);
      }
      y[row * outputs + o] = activate(sum, op.activation);
    }
  }
}

}  // namespace mobicuda::cpu
