// Compiled with -mavx2 -mfma. The renamed namespace keeps Eigen's inline functions apart from those of the other
// instruction sets: the linker would else keep one copy of each for all.
#define Eigen Eigen_mobicuda_avx2
#include "baselines/cpu/ops/fp32_kernels_impl.h"

namespace mobicuda::cpu {

const Fp32Kernels& fp32_kernels_avx2() {
  static constexpr Fp32Kernels kKernels{
      "avx2",          kQuarter, kPanel,    &gemm<6, false>, &gemm_nonzero<6, false, OneSumACycle>,
      &depthwise_conv, &pool,    &elements, &winograd_input, &winograd_output};
  return kKernels;
}

}  // namespace mobicuda::cpu
