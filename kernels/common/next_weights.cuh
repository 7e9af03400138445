// What a kernel does for its successor: brings that one's weights into L2 while it runs.
#pragma once

#include "kernels/common/next_weights.h"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels {

/// The threads of a grid share the lines; those of threads that do not call it, as the copying ones of kernels on
/// wgmma, are left where they are. Before wait_for_predecessor(), but behind this kernel's own first copies of weights,
/// which are needed earlier. Fewer than 2^32 threads.
__device__ __forceinline__ void bring_next_weights(const NextWeights& next) {
  const unsigned block = blockIdx.x + blockIdx.y * gridDim.x;
  const unsigned step = gridDim.x * gridDim.y * blockDim.x;
#pragma unroll 1
  for (unsigned line = block * blockDim.x + threadIdx.x; line < next.lines; line += step) {
    ptx::prefetch_to_l2(static_cast<const unsigned char*>(next.at) + std::size_t{line} * NextWeights::kLineBytes);
  }
}

}  // namespace mobicuda::kernels
