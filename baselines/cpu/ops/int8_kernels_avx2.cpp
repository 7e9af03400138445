// Compiled with -mavx2.
#include "baselines/cpu/ops/int8_kernels_impl.h"

namespace mobicuda::cpu {

const Int8Kernels& int8_kernels_avx2() {
  static constexpr Int8Kernels kKernels = int8_kernels_named("avx2");
  return kKernels;
}

}  // namespace mobicuda::cpu
