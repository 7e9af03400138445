#include "baselines/cpu/ops/gemm.h"

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {

std::int64_t gemm_packed_elements(std::int64_t n, std::int64_t k, std::int64_t panel) {
  return (n + panel - 1) / panel * panel * k;
}

void gemm_pack(std::int64_t n, std::int64_t k, std::int64_t panel, const float* weight, const std::int64_t* order,
               float* packed) {
  for (std::int64_t first = 0; first < n; first += panel) {
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t column = order != nullptr ? order[i] : i;
      for (std::int64_t j = 0; j < panel; ++j) {
        *packed++ = first + j < n ? weight[(first + j) * k + column] : 0.0F;
      }
    }
  }
}

LoweredNode lower(const Gemm& op, const NodeView& view) {
  return view.fp64 ? lower_fp64(op, view) : lower_fp32(op, view);
}

}  // namespace mobicuda::cpu
