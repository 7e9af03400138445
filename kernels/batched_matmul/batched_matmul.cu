// y = a * b for many pairs of matrices; a block computes a tile of kTile x kTile elements of one pair.
//
// Slices of both operands, kSlice of k, are brought to shared memory as what is computed in; a thread adds up
// kItems elements of one column, so that an element of b is read from there once for kItems products.
#include "kernels/batched_matmul/batched_matmul.h"

#include <algorithm>

#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kTile = 32;
constexpr int kSlice = 32;
constexpr int kItems = 4;
constexpr int kHeight = kTile / kItems;

// block (columns, rows / kItems); grid (tiles of columns, tiles of rows, pairs)
template <class T>
__global__ void __launch_bounds__(kTile* kHeight)
    batched_matmul_kernel(std::int64_t batch, int m, int k, int columns, const T* a, const T* b, T* y) {
  using R = Real<T>;
  __shared__ R left[kTile][kSlice + 1];  // a column more, so that rows begin in different banks
  __shared__ R right[kSlice][kTile];
  wait_for_predecessor();
  const int x = static_cast<int>(threadIdx.x);
  const int row0 = static_cast<int>(threadIdx.y);
  const int column = static_cast<int>(blockIdx.x) * kTile + x;
  const int tiles_down = (m + kTile - 1) / kTile;
  for (std::int64_t pair = blockIdx.z; pair < batch; pair += gridDim.z) {
    const T* const a_pair = a + pair * m * k;
    const T* const b_pair = b + pair * k * columns;
    T* const y_pair = y + pair * m * columns;
    for (int tile = static_cast<int>(blockIdx.y); tile < tiles_down; tile += static_cast<int>(gridDim.y)) {
      R sums[kItems] = {};
      for (int slice = 0; slice < k; slice += kSlice) {
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          const int row = tile * kTile + row0 + i * kHeight;
          const bool in_a = row < m && slice + x < k;
          left[row0 + i * kHeight][x] = in_a ? to_real(a_pair[static_cast<std::int64_t>(row) * k + slice + x]) : R{0};
          const int depth = slice + row0 + i * kHeight;
          const bool in_b = depth < k && column < columns;
          right[row0 + i * kHeight][x] =
              in_b ? to_real(b_pair[static_cast<std::int64_t>(depth) * columns + column]) : R{0};
        }
        __syncthreads();
        const int depth = min(kSlice, k - slice);
        for (int i = 0; i < depth; ++i) {
          const R value = right[i][x];
#pragma unroll
          for (int j = 0; j < kItems; ++j) sums[j] = fused_multiply_add(left[row0 + j * kHeight][i], value, sums[j]);
        }
        __syncthreads();
      }
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const int row = tile * kTile + row0 + i * kHeight;
        if (row < m && column < columns)
          y_pair[static_cast<std::int64_t>(row) * columns + column] = from_real<T>(sums[i]);
      }
    }
  }
}

template <class T>
cudaError_t launch_batched_matmul(const BatchedMatMulParams& p, const void* a, const void* b, void* y,
                                  const Launch& where) {
  const dim3 grid(static_cast<unsigned>(ceil_div(p.p, kTile)),
                  static_cast<unsigned>(std::min(ceil_div(p.m, kTile), kMaxGridYz)),
                  static_cast<unsigned>(std::min<std::int64_t>(p.batch, kMaxGridYz)));
  return launch(batched_matmul_kernel<T>, grid, dim3(kTile, kHeight), 0, where, p.batch, p.m, p.k, p.p,
                static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y));
}

}  // namespace

cudaError_t batched_matmul(const BatchedMatMulParams& p, const void* a, const void* b, void* y, const Launch& where) {
  if (p.batch < 0 || p.m < 0 || p.k < 0 || p.p < 0) return cudaErrorInvalidValue;
  if (p.batch == 0 || p.m == 0 || p.p == 0) return cudaSuccess;
  switch (p.elem) {
    case Elem::F32:
      return launch_batched_matmul<float>(p, a, b, y, where);
    case Elem::F16:
      return launch_batched_matmul<__half>(p, a, b, y, where);
    case Elem::F64:
      return launch_batched_matmul<double>(p, a, b, y, where);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::kernels
