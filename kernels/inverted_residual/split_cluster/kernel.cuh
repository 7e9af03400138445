// An inverted residual block for few images, whose 1x1 convolutions are split products: cluster_run.cuh says how. sm_90
// and newer.
#pragma once

#include "kernels/inverted_residual/cluster_run.cuh"
#include "kernels/inverted_residual/split_cluster/stages.cuh"

namespace mobicuda::kernels::inverted_split_cluster {

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    split_cluster_kernel(const Arguments a, const float* x, const unsigned char* packed, float* y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  inverted_cluster::run_cluster<S, Patch<S>, Unit<S>>(a, x, packed, y);
#endif
}

}  // namespace mobicuda::kernels::inverted_split_cluster
