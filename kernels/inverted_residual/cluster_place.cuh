// Where a tile's patch of the input lies, and what of it is inside the picture. S: a ClusterShape.
#pragma once

#include "kernels/inverted_residual/cluster_shape.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

using ptx::as_int::lane;
using ptx::as_int::warp;

/// A pair of halves.
__device__ __forceinline__ float2 floats(std::uint32_t word) {
  __half2 halves;
  memcpy(&halves, &word, sizeof halves);
  return __half22float2(halves);
}

/// A tile of the output; its patch of the input starts at (iy, ix), which may lie outside the image.
struct Place {
  int n;
  int oy, ox;
  int iy, ix;
};

template <class S>
__device__ __forceinline__ Place locate(const Geometry& a, std::uint32_t tile) {
  std::uint32_t column;
  std::uint32_t row;
  Place place;
  place.n = static_cast<int>(a.tiles_y.divide(a.tiles_x.divide(tile, column), row));
  place.oy = static_cast<int>(row) * S::kRows;
  place.ox = static_cast<int>(column) * S::kConfig.columns;
  place.iy = place.oy * S::kConfig.stride - a.pad_top;
  place.ix = place.ox * S::kConfig.stride - a.pad_left;
  return place;
}

/// Number j of row `row` of the patch: its column, mirrored where the row is odd.
template <class S>
__device__ __forceinline__ int patch_column(int row, int j) {
  return row % 2 == 0 ? j : S::kPatchW - 1 - j;
}

template <class S>
__device__ __forceinline__ bool inside_picture(const Geometry& a, const Place& place, int row, int j) {
  return row < S::kPatchH && j < S::kPatchW && static_cast<unsigned>(place.iy + row) < static_cast<unsigned>(a.h) &&
         static_cast<unsigned>(place.ix + patch_column<S>(row, j)) < static_cast<unsigned>(a.w);
}

/// Pairs of pixels of row lane % 4 of the patch: ones where they are inside the image.
template <class S>
struct Masks {
  __device__ __forceinline__ void set(const Geometry& a, const Place& place) {
#pragma unroll
    for (int t = 0; t < S::kPatches; ++t) {
      words[t] = (inside_picture<S>(a, place, lane() % 4, 2 * t) ? 0xffffU : 0U) |
                 (inside_picture<S>(a, place, lane() % 4, 2 * t + 1) ? 0xffff0000U : 0U);
      ptx::pin(words[t]);
    }
  }

  std::uint32_t words[S::kPatches];
};

#endif

}  // namespace mobicuda::kernels::inverted_cluster
