// Few rows of a pointwise convolution: one warp computes one output channel of up to kRows pixels; its lanes stream W's
// row by 16 bytes and add across the warp at the end. W's first bytes are in registers before the predecessor ends.
#pragma once

#include "kernels/int8_conv2d/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/int8.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels::int8_conv {

inline constexpr int kGemvThreads = 128;
inline constexpr int kGemvRows = 4;

template <int kRows>
__global__ void __launch_bounds__(kGemvThreads) gemv_kernel(const Arguments a) {
  constexpr int kChunks = 4;  // 2048 bytes of a row of W are held at once
  const int lane = ptx::as_int::lane();
  const int n = static_cast<int>(blockIdx.x) * (kGemvThreads / 32) + ptx::as_int::warp();
  const int m0 = static_cast<int>(blockIdx.y) * kRows;
  const bool is_there = n < a.columns;
  const std::int8_t* const w = a.w + static_cast<std::size_t>(is_there ? n : 0) * static_cast<std::size_t>(a.k);

  std::int32_t sums[kRows] = {};
  for (int k0 = 0; k0 < a.k; k0 += 32 * kChunks * kChannelStep) {
    uint4 held[kChunks];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int k = k0 + (i * 32 + lane) * kChannelStep;
      held[i] = k < a.k ? *reinterpret_cast<const uint4*>(w + k) : make_uint4(0, 0, 0, 0);
    }
    if (k0 == 0) wait_for_predecessor();
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (m0 + row >= a.m) break;
      const std::int8_t* const x = a.x + static_cast<std::size_t>(m0 + row) * static_cast<std::size_t>(a.x_pitch);
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const int k = k0 + (i * 32 + lane) * kChannelStep;
        if (k >= a.k) break;
        const auto values = ptx::load_global<uint4>(x + k);
        sums[row] = ptx::dp4a(values.x, held[i].x, sums[row]);
        sums[row] = ptx::dp4a(values.y, held[i].y, sums[row]);
        sums[row] = ptx::dp4a(values.z, held[i].z, sums[row]);
        sums[row] = ptx::dp4a(values.w, held[i].w, sums[row]);
      }
    }
  }

#pragma unroll
  for (std::int32_t& total : sums) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      total = add_wrapping(total, __shfl_xor_sync(0xFFFFFFFFU, total, distance));
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (lane == row && m0 + row < a.m && is_there) finish_one(a, m0 + row, n, sums[row]);
  }
}

}  // namespace mobicuda::kernels::int8_conv
