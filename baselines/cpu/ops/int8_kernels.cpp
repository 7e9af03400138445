#include "baselines/cpu/ops/int8_kernels.h"

#include <algorithm>

#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {

std::vector<const Int8Kernels*> supported_int8_kernels() {
  std::vector<const Int8Kernels*> supported{&int8_kernels_generic()};
#ifdef MOBICUDA_CPU_X86
  const std::size_t sets = supported_fp32_kernels().size();
  if (sets > 1) supported.push_back(&int8_kernels_avx2());
  if (sets > 2) supported.push_back(&int8_kernels_avx512());
#endif
  return supported;
}

const Int8Kernels& int8_kernels() {
  static const Int8Kernels& widest = *supported_int8_kernels().back();
  return widest;
}

std::int64_t int8_packed_elements(std::int64_t n, std::int64_t k, std::int64_t panel) {
  return (n + panel - 1) / panel * panel * (k + k % 2);
}

void int8_pack(std::int64_t n, std::int64_t k, std::int64_t panel, const std::int16_t* rows, std::int16_t* to) {
  const std::int64_t pairs = (k + 1) / 2;
  std::fill_n(to, int8_packed_elements(n, k, panel), std::int16_t{0});
  for (std::int64_t row = 0; row < n; ++row) {
    std::int16_t* const lane = to + row / panel * panel * 2 * pairs + row % panel * 2;
    for (std::int64_t i = 0; i < k; ++i) lane[i / 2 * 2 * panel + i % 2] = rows[row * k + i];
  }
}

}  // namespace mobicuda::cpu
