// Rows of shared memory whose chunks of 16 bytes are exchanged, so that no two of those that a warp reads at once are
// in the same banks.
#pragma once

namespace mobicuda::kernels {

/// Where chunk `chunk` of a row of kRowBytes lies: exchanged within the row so that the same chunk of 8 neighbouring
/// rows, which ldmatrix reads, lies in different banks.
template <int kRowBytes>
__device__ __forceinline__ int swizzled_offset(int row, int chunk) {
  constexpr int kChunks = kRowBytes / 16;
  constexpr int kRowsPerLine = kChunks < 8 ? 8 / kChunks : 1;
  constexpr int kMask = kChunks < 8 ? kChunks - 1 : 7;
  return row * kRowBytes + ((chunk ^ (row / kRowsPerLine & kMask)) * 16);
}

}  // namespace mobicuda::kernels
