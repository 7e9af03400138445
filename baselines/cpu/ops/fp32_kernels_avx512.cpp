// Compiled with AVX-512. The renamed namespace keeps Eigen's inline functions apart from those of the other
// instruction sets: the linker would else keep one copy of each for all.
#define Eigen Eigen_mobicuda_avx512
#include "baselines/cpu/ops/fp32_kernels_impl.h"

namespace mobicuda::cpu {
namespace {

template <bool Halves, class Zeros>
const Fp32Kernels& kernels() {
  static constexpr Fp32Kernels kKernels{
      "avx512",        kQuarter, kPanel,    &gemm<8, Halves>, &gemm_nonzero<8, Halves, Zeros>,
      &depthwise_conv, &pool,    &elements, &winograd_input,  &winograd_output};
  return kKernels;
}

}  // namespace

const Fp32Kernels& fp32_kernels_avx512(bool halves) {
  return halves ? kernels<true, OneSumACycle>() : kernels<false, TwoSumsACycle>();
}

}  // namespace mobicuda::cpu
