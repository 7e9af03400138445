#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {

std::vector<const Fp32Kernels*> supported_fp32_kernels() {
  std::vector<const Fp32Kernels*> supported{&fp32_kernels_generic()};
#ifdef MOBICUDA_CPU_X86
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) supported.push_back(&fp32_kernels_avx2());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    supported.push_back(&fp32_kernels_avx512());
  }
#endif
  return supported;
}

const Fp32Kernels& fp32_kernels() {
  static const Fp32Kernels& widest = *supported_fp32_kernels().back();
  return widest;
}

}  // namespace mobicuda::cpu
