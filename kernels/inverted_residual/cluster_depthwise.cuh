// Depthwise without memory: a lane has one row of the patch, for a pair of channels, and lanes exchange what they have
// of each other's outputs.
#pragma once

#include "kernels/inverted_residual/cluster_place.cuh"

namespace mobicuda::kernels::inverted_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// Rows of the window that a row of the patch is multiplied with.
template <class S>
inline constexpr int kWindows = S::kConfig.stride == 1 ? 2 : 1;

/// Which these are, for row lane % 4 of the patch: row 0, 1 | 2, 3 is row 0, 1 | 1, 2 of the window of an output in row
/// 0 | 1, and row 1 | 2 is row 0 | 2 of that of one in the other row.
template <class S>
__device__ __forceinline__ int window_row(int window) {
  const int row = lane() % 4;
  if constexpr (S::kConfig.stride == 2) return min(row, 2);
  return window == 0 ? (row + 1) / 2 : (row == 2 ? 2 : 0);
}

template <class S>
__device__ __forceinline__ void filter(float2 (&sums)[S::kConfig.columns], const float2 (&pixels)[S::kPatches * 2],
                                       const float2 (&taps)[3]) {
  constexpr auto kConfig = S::kConfig;
#pragma unroll
  for (int i = 0; i < kConfig.columns; ++i) {
    sums[i] = {pixels[i * kConfig.stride].x * taps[0].x, pixels[i * kConfig.stride].y * taps[0].y};
#pragma unroll
    for (int kx = 1; kx < 3; ++kx) {
      sums[i].x = fmaf(pixels[i * kConfig.stride + kx].x, taps[kx].x, sums[i].x);
      sums[i].y = fmaf(pixels[i * kConfig.stride + kx].y, taps[kx].y, sums[i].y);
    }
  }
}

__device__ __forceinline__ float2 sum(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }

__device__ __forceinline__ float2 exchanged(float2 value, int with) {
  return {__shfl_xor_sync(~0U, value.x, with), __shfl_xor_sync(~0U, value.y, with)};
}

/// put(sum, column): the sums of the outputs that the lane has in the end, and their columns of project's products.
/// `pixels`: of the lane's row, both channels.
template <class S, class Put>
__device__ __forceinline__ void filter_rows(const float2 (&pixels)[S::kPatches * 2],
                                            const float2 (&taps)[kWindows<S>][3], const Put& put) {
  constexpr auto kConfig = S::kConfig;
  constexpr int kOut = kConfig.columns;
  float2 kept[kOut];
  filter<S>(kept, pixels, taps[0]);
  const int row = lane() % 4;
  if constexpr (kConfig.stride == 1) {
    float2 sent[kOut];
    filter<S>(sent, pixels, taps[1]);
    const bool inner = row == 1 || row == 2;  // the other output row's lanes have no part of these
#pragma unroll
    for (int i = 0; i < kOut; ++i) {
      const float2 received = {__shfl_xor_sync(~0U, sent[i].x, 2), __shfl_xor_sync(~0U, sent[i].y, 2)};
      if (!inner) kept[i] = sum(kept[i], received);
    }
  }
#pragma unroll
  for (int i = 0; i < kOut / 2; ++i) kept[i] = sum(kept[i], exchanged(kept[kOut - 1 - i], 1));
  if constexpr (kConfig.stride == 2) {
#pragma unroll
    for (int i = 0; i < kOut / 2; ++i) kept[i] = sum(kept[i], exchanged(kept[i], 2));
#pragma unroll
    for (int i = 0; i < kOut / 4; ++i) put(row < 2 ? kept[2 * i] : kept[2 * i + 1], row + 4 * i);
  } else {
#pragma unroll
    for (int i = 0; i < kOut / 2; ++i) put(kept[i], row + 4 * i);
  }
}

#endif

}  // namespace mobicuda::kernels::inverted_cluster
