// Compiled with -mavx512bw.
#include "baselines/cpu/ops/int8_kernels_impl.h"

namespace mobicuda::cpu {

const Int8Kernels& int8_kernels_avx512() { return kInt8Kernels; }

}  // namespace mobicuda::cpu
