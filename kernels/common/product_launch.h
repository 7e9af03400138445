// The launch of a tiled variant: a grid of what the GPU holds at once.
#pragma once

#include <algorithm>

#include "kernels/common/device_traits.h"
#include "kernels/common/launch.h"
#include "kernels/common/product_pipeline.cuh"
#include "kernels/common/resident_blocks.h"

namespace mobicuda::kernels::products {

template <class Tile>
std::size_t largest_shared_bytes(int k) {
  return product_shared_bytes<Tile>(ceil_div(k, Tile::kBk), Tile::kStages);
}

/// The plain kernel where there is one for the tile and the arguments are plain.
template <class Tile>
auto device_kernel(const ProductArgs& args) {
  if constexpr (Tile::kPlainApart) {
    const bool dense = args.x_pitch == args.k && args.y_pitch == args.n;
    const bool aligned = args.k % kWide<typename Tile::Value> == 0;
    if (dense && aligned && args.activation.kind == ActivationKind::Clip) return product_kernel<Tile, true>;
  }
  return product_kernel<Tile, false>;
}

/// Fills in how the row tiles are dealt out.
template <class Tile>
cudaError_t launch_tile(ProductArgs args, const Launch& where) {
  args.k_slices = ceil_div(args.k, Tile::kBk);
  const int m_tiles = ceil_div(args.m, Tile::kBm);
  const int n_tiles = ceil_div(args.n, Tile::kBn);
  const auto kernel = device_kernel<Tile>(args);
  int blocks = 0;
  DeviceTraits gpu;
  cudaError_t status = current_device_traits(gpu);
  if (status == cudaSuccess) {
    status =
        resident_blocks(kernel, Tile::kThreads, largest_shared_bytes<Tile>(args.k), gpu.shared_bytes_per_block, blocks);
  }
  if (status != cudaSuccess) return status;
  const int strip_blocks = std::clamp(blocks / n_tiles, 1, m_tiles);
  args.whole_rounds = m_tiles / strip_blocks;
  args.last_round = m_tiles % strip_blocks;
  const std::int64_t steps = std::int64_t{ceil_div(m_tiles, strip_blocks)} * args.k_slices;
  return launch(kernel, dim3(static_cast<unsigned>(n_tiles), static_cast<unsigned>(strip_blocks)), dim3(Tile::kThreads),
                product_shared_bytes<Tile>(args.k_slices, steps), where, args);
}

}  // namespace mobicuda::kernels::products
