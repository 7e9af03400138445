// Compiled with -mavx512vnni.
#include "baselines/cpu/ops/int8_kernels_impl.h"

namespace mobicuda::cpu {

const Int8Kernels& int8_kernels_avx512_vnni() {
  static constexpr Int8Kernels kKernels = int8_kernels_named("avx512_vnni");
  return kKernels;
}

}  // namespace mobicuda::cpu
