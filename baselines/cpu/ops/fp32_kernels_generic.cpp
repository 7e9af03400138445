#include "baselines/cpu/ops/fp32_kernels_impl.h"

namespace mobicuda::cpu {

const Fp32Kernels& fp32_kernels_generic() {
  static constexpr Fp32Kernels kKernels{
      "generic",       kQuarter, kPanel,    &gemm<6, false>, &gemm_nonzero<6, false, OneSumACycle>,
      &depthwise_conv, &pool,    &elements, &winograd_input, &winograd_output};
  return kKernels;
}

}  // namespace mobicuda::cpu
