// An inverted residual block for few images, half: cluster_run.cuh says how. sm_90 and newer.
#pragma once

#include "kernels/inverted_residual/cluster/stages.cuh"
#include "kernels/inverted_residual/cluster_run.cuh"

namespace mobicuda::kernels::inverted_cluster {

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    cluster_kernel(const Arguments a, const __half* x, const unsigned char* packed, __half* y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  run_cluster<S, Patch<S>, Unit<S>>(a, x, packed, y);
#endif
}

}  // namespace mobicuda::kernels::inverted_cluster
