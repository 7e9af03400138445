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

/// The same for rows whose length is known at run time: what the offset of a chunk in its row is exclusive-or'd with.
struct Swizzle {
  int shift, mask;

  __device__ __forceinline__ int of(int row) const { return (row >> shift & mask) * 16; }
};

/// Of rows of an even number of chunks.
constexpr Swizzle swizzle_of(int chunks) {
  if (chunks % 8 == 0) return {0, 7};
  return chunks % 4 == 0 ? Swizzle{1, 3} : Swizzle{2, 1};
}

}  // namespace mobicuda::kernels
