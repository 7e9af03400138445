// Slices of row-major matrices in shared memory, as the tiles of products read them: chunks of 16 bytes, where a Tile
// wants them.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/real.cuh"
#include "kernels/ptx/async_copy.cuh"

namespace mobicuda::kernels {

inline constexpr int kChunkBytes = 16;  // of one cp.async

template <class Tile>
inline constexpr int kWSliceBytes = Tile::kBn* Tile::kRowBytes;
template <class Tile>
inline constexpr int kXSliceBytes = Tile::kBm* Tile::kRowBytes;

/// One chunk element by element, for rows of X that do not start on 16 bytes.
template <class T>
__device__ __forceinline__ void copy_elements(unsigned char* to, const T* from, int count) {
  Packet<T, kWide<T>> chunk;
#pragma unroll
  for (int i = 0; i < kWide<T>; ++i) chunk.item[i] = i < count ? from[i] : from_real<T>(0.0F);
  store(reinterpret_cast<T*>(to), chunk);
}

/// Fills a slice of kRows rows from a row-major matrix: `rows` (at row 0, k = 0) with row length `stride`, of which
/// `row_count` rows exist and `k_end` elements. place(row) is the row's place in the slice; rows that are kPeriod apart
/// are in the same order there.
template <class Tile, int kRows, int kPeriod, bool kMayBeUnaligned, class Place>
__device__ __forceinline__ void fill_slice(unsigned char* slice, const typename Tile::Value* rows, int row_count,
                                           int stride, int k0, int k_end, Place place) {
  using T = typename Tile::Value;
  constexpr int kChunks = Tile::kBk / kWide<T>;
  constexpr int kRowsAtOnce = Tile::kThreads / kChunks;
  static_assert(Tile::kBk % kWide<T> == 0 && Tile::kThreads % kChunks == 0, "whole rows of chunks at once");
  const int chunk = static_cast<int>(threadIdx.x % kChunks);
  const int first_row = static_cast<int>(threadIdx.x / kChunks);
  const int k = k0 + chunk * kWide<T>;
  unsigned char* const first_place = slice + Tile::chunk_offset(place(first_row), chunk);
  const T* const source = rows + static_cast<std::size_t>(first_row) * static_cast<std::size_t>(stride) + k;
#pragma unroll
  for (int i = 0; i < (kRows + kRowsAtOnce - 1) / kRowsAtOnce; ++i) {
    const int row = first_row + i * kRowsAtOnce;
    if (kRows % kRowsAtOnce != 0 && row >= kRows) break;
    const bool inside = row < row_count && k < k_end;
    unsigned char* const to = kRowsAtOnce % kPeriod == 0 ? first_place + i * kRowsAtOnce * Tile::kRowBytes
                                                         : slice + Tile::chunk_offset(place(row), chunk);
    const T* from = source + static_cast<std::size_t>(i) * kRowsAtOnce * static_cast<std::size_t>(stride);
    if (kMayBeUnaligned && stride % kWide<T> != 0) {
      copy_elements(to, from, inside ? k_end - k : 0);
    } else {
      ptx::copy_async_cg_128_or_zero(to, inside ? from : rows, inside);
    }
  }
}

}  // namespace mobicuda::kernels
