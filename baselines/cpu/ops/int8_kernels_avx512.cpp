// Compiled with -mavx512bw.
#include "baselines/cpu/ops/int8_kernels_impl.h"

namespace mobicuda::cpu {

const Int8Kernels& int8_kernels_avx512() {
  static constexpr Int8Kernels kKernels = int8_kernels_named("avx512");
  return kKernels;
}

}  // namespace mobicuda::cpu
