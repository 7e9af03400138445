#pragma once

#include "kernels/common/fast_division.cuh"

namespace mobicuda::kernels {

// How the convolutions number their work: one thread (or block) for each item; items count channel vectors fastest,
// then tile columns, tile rows and images, so that one-dimensional grids have no limit on the batch.

struct ItemGrid {
  std::uint32_t items = 0;
  FastDivision vectors;       ///< channel vectors of a pixel
  FastDivision tile_columns;  ///< of an output image
  FastDivision tile_rows;
};

struct Item {
  std::uint32_t n, tile_y, tile_x, vector;
};

__device__ __forceinline__ Item decode(const ItemGrid& grid, std::uint32_t index) {
  Item item;
  const std::uint32_t tile = grid.vectors.divide(index, item.vector);
  const std::uint32_t tile_row = grid.tile_columns.divide(tile, item.tile_x);
  item.n = grid.tile_rows.divide(tile_row, item.tile_y);
  return item;
}

/// Threads of a block at most, where a thread is an item.
inline constexpr int kMaxItemThreads = 256;
/// Items of a launch at most: every thread's index stays below 2^31.
inline constexpr std::int64_t kMaxItems = std::numeric_limits<std::int32_t>::max() - kMaxItemThreads;

}  // namespace mobicuda::kernels
