#pragma once

#include <cuda_fp16.h>

#include "kernels/common/std.h"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/mma.cuh"

namespace mobicuda::kernels {

// Operands of mma.sync m16n8k16 straight from global memory. k is dealt to the instruction's k so that the part that a
// thread has of kDirectBlockK neighbouring k, two instructions' worth, is 16 neighbouring bytes of a row of X: chunk
// lane % 4 of row lane / 4. Rows of W are dealt to the instruction's n so that of the 8 * kGroups columns of a slice a
// thread's results are the 2 * kGroups neighbours from lane % 4 * 2 * kGroups on; group g gives numbers 2g and 2g + 1.

inline constexpr int kDirectBlockK = 32;

/// Starts to copy a slice of W, (c, c_in) row-major from row c0 on, to chunks (group, block of k, lane) of 16 bytes in
/// shared memory: a lane's operands of a block. Zeros from c_in on. All threads of the block take part.
template <int kGroups>
__device__ __forceinline__ void copy_weight_chunks(unsigned char* shared, const __half* weights, int c_in, int blocks_k,
                                                   int c0) {
  for (int i = static_cast<int>(threadIdx.x); i < kGroups * blocks_k * 32; i += static_cast<int>(blockDim.x)) {
    const int lane = i % 32;
    const int k = i / 32 % blocks_k * kDirectBlockK + lane % 4 * 8;
    const int group = i / (32 * blocks_k);
    const int row = lane / 4;
    const int column = c0 + row / 2 * (2 * kGroups) + 2 * group + row % 2;
    const bool inside = k < c_in;
    const std::size_t at = inside ? static_cast<std::size_t>(column) * c_in + k : 0;
    ptx::copy_async_cg_128_or_zero(shared + i * 16, weights + at, inside);
  }
}

/// Adds kDirectBlockK products of 16 rows of X with each group's 8 rows of W. `x0` and `x1` are the thread's chunks of
/// rows lane / 4 and lane / 4 + 8, `weights` its chunk of group 0, `group_step` chunks before that of group 1. The
/// second half is added to sums[kChains - 1].
template <int kChains, int kGroups>
__device__ __forceinline__ void multiply_add_block(float (&sums)[kChains][kGroups][4], const uint4& x0, const uint4& x1,
                                                   const uint4* weights, int group_step) {
  const std::uint32_t first[4] = {x0.x, x1.x, x0.y, x1.y};
  const std::uint32_t second[4] = {x0.z, x1.z, x0.w, x1.w};
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const uint4 b = weights[group * group_step];
    ptx::mma_16x8x16(sums[0][group], first, b.x, b.y);
    ptx::mma_16x8x16(sums[kChains - 1][group], second, b.z, b.w);
  }
}

}  // namespace mobicuda::kernels
