#include "baselines/cpu/ops/int8_kernels_impl.h"

namespace mobicuda::cpu {

const Int8Kernels& int8_kernels_generic() {
  static constexpr Int8Kernels kKernels = int8_kernels_named("generic");
  return kKernels;
}

}  // namespace mobicuda::cpu
