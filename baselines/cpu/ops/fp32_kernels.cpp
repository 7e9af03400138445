#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {

const Fp32Kernels& fp32_kernels() {
#ifdef MOBICUDA_CPU_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return fp32_kernels_avx512();
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fp32_kernels_avx2();
#endif
  return fp32_kernels_generic();
}

}  // namespace mobicuda::cpu
