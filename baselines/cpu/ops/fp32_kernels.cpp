#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {

std::vector<const Fp32Kernels*> supported_fp32_kernels() {
  std::vector<const Fp32Kernels*> supported{&fp32_kernels_generic()};
#ifdef MOBICUDA_CPU_X86
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) supported.push_back(&fp32_kernels_avx2());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    const bool halves = __builtin_cpu_is("amdfam19h") != 0;  // Zen 4; all else that has AVX-512 computes it whole
    supported.push_back(&fp32_kernels_avx512(!halves));
    supported.push_back(&fp32_kernels_avx512(halves));
  }
#endif
  return supported;
}

const Fp32Kernels& fp32_kernels() {
  static const Fp32Kernels& fastest = *supported_fp32_kernels().back();
  return fastest;
}

}  // namespace mobicuda::cpu
