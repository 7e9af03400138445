// How the host of a convolution whose items are numbered by conv_items.cuh launches it.
#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/conv_items.cuh"

namespace mobicuda::kernels {

/// Calls launch_chunk(grid, first image) for as many of `n` images at a time as one launch holds. An image has at
/// most kMaxItems items.
template <class LaunchChunk>
cudaError_t for_each_chunk(int n, int tile_rows, int tile_columns, int vectors, const LaunchChunk& launch_chunk) {
  const std::int64_t items = std::int64_t{tile_rows} * tile_columns * vectors;
  const std::int64_t pictures = kMaxItems / items;
  ItemGrid grid;
  grid.vectors = FastDivision(static_cast<std::uint32_t>(vectors));
  grid.tile_columns = FastDivision(static_cast<std::uint32_t>(tile_columns));
  grid.tile_rows = FastDivision(static_cast<std::uint32_t>(tile_rows));
  for (std::int64_t first = 0; first < n; first += pictures) {
    grid.items = static_cast<std::uint32_t>(std::min<std::int64_t>(pictures, n - first) * items);
    if (const cudaError_t error = launch_chunk(grid, first); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace mobicuda::kernels
