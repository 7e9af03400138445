// y = act(f(a, b)), b repeating along axes.
//
// Axes along which b goes on as a does are joined first (broadcast.h). A thread keeps its packet of the innermost axis
// (16 bytes where extents, strides and pointers allow, else one element) and goes down the rows; b's place in a row is
// found by two multiplications. b comes from the caches.
#pragma once

#include "kernels/common/broadcast.h"
#include "kernels/common/fast_division.cuh"
#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {

inline constexpr int kBroadcastThreads = 128;
inline constexpr int kBroadcastRowsPerThread = 4;

/// Where a kernel finds its operands.
struct BroadcastRows {
  std::int64_t columns;
  std::int64_t stride[JoinedAxes::kCount];
  unsigned rows;
  FastDivision by_2;  ///< rows of axis 2
  FastDivision by_1;
  Activation activation;

  __device__ std::int64_t b_row(unsigned row) const {
    unsigned i1 = 0;
    unsigned i2 = 0;
    const unsigned i0 = by_1.divide(by_2.divide(row, i2), i1);
    return i0 * stride[0] + i1 * stride[1] + i2 * stride[2];
  }
};

enum class Right { Packets, Splat, Strided };  ///< how b goes along the innermost axis

template <class T, int N, Right R>
__device__ __forceinline__ Packet<T, N> load_right(const T* row, std::int64_t column, std::int64_t stride) {
  if constexpr (R == Right::Packets) {
    return load<N>(row + column);
  } else {
    Packet<T, N> values;
#pragma unroll
    for (int j = 0; j < N; ++j) values.item[j] = row[R == Right::Splat ? 0 : (column + j) * stride];
    return values;
  }
}

// block (packets of columns, rows); grid (packets of columns, rows)
template <class Function, class T, int N, Right R>
__global__ void __launch_bounds__(kBroadcastThreads) broadcast_kernel(BroadcastRows p, const T* a, const T* b, T* y) {
  wait_for_predecessor();
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (column >= p.columns) return;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  for (; row < p.rows; row += step * kBroadcastRowsPerThread) {
    Packet<T, N> left[kBroadcastRowsPerThread];
    Packet<T, N> right[kBroadcastRowsPerThread];
#pragma unroll
    for (int i = 0; i < kBroadcastRowsPerThread; ++i) {
      const std::int64_t at = row + i * step;
      if (at >= p.rows) break;
      left[i] = load<N>(a + at * p.columns + column);
      right[i] = load_right<T, N, R>(b + p.b_row(static_cast<unsigned>(at)), column, p.stride[JoinedAxes::kCount - 1]);
    }
#pragma unroll
    for (int i = 0; i < kBroadcastRowsPerThread; ++i) {
      const std::int64_t at = row + i * step;
      if (at >= p.rows) break;
      Real<T> results[N];
#pragma unroll
      for (int j = 0; j < N; ++j) results[j] = Function{}(to_real(left[i].item[j]), to_real(right[i].item[j]));
      apply(p.activation, results);
#pragma unroll
      for (int j = 0; j < N; ++j) left[i].item[j] = from_real<T>(results[j]);
      store<N>(y + at * p.columns + column, left[i]);
    }
  }
}

}  // namespace mobicuda::kernels
