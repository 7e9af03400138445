// What the host does alike for kernels of clusters that share a tile's hidden channels, of halves and of split
// products.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/common/launch_cluster.h"
#include "kernels/inverted_residual/cluster_shape.cuh"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/inverted_residual.h"

namespace mobicuda::kernels::inverted_cluster {

template <class Config>
std::int64_t tiles(const Config& config, const Sizes& sizes, const InvertedResidualParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, sizes.rows) * ceil_div(p.out_w, config.columns);
}

/// Whether the GPU and ints have room for it; channels, elements and activations are another matter.
template <class Config>
bool fits(const Config& config, const Sizes& sizes, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
  return gpu.code >= kOldest && config.blocks <= gpu.large_cluster_blocks && config.stride == p.stride && p.expand &&
         static_cast<std::size_t>(sizes.shared_bytes) <= gpu.shared_bytes_per_block &&
         tiles(config, sizes, p) <= kMaxInt / 2 - config.blocks &&  // the loop's counter goes one round further
         std::int64_t{p.h} * p.w <= kMaxInt / (2 * p.c_in) && std::int64_t{p.out_h} * p.out_w <= kMaxInt / p.c_out;
}

template <class Config>
void set_geometry(Geometry& a, const Config& config, const Sizes& sizes, const InvertedResidualParams& p) {
  inverted_host::set_extents(a, p);
  a.tiles = static_cast<std::uint32_t>(tiles(config, sizes, p));
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, config.columns)));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, sizes.rows)));
}

/// put(word of the fragment, row, column): what each pair of halves of a fragment is, two neighbouring columns. Rows 2r
/// and 2r + 1 of the matrix are the instruction's r and r + 8; its k, 4 at a time, are `step` neighbouring columns for
/// each thread of a quad.
template <class Put>
void for_each_word(int row0, int column0, int step, const Put& put) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int word = 0; word < 4; ++word) {
      put(lane * 4 + word, row0 + lane / 4 * 2 + word % 2, column0 + lane % 4 * step + word / 2 * 2);
    }
  }
}

/// As many clusters as the GPU holds at once, or as there are tiles. Arguments of the kernel: `a`, `more`.
template <class Config, class Kernel, class Arguments, class... More>
cudaError_t launch_tiles(const Config& config, const Sizes& s, Kernel kernel, const Launch& where, const Arguments& a,
                         const More&... more) {
  const auto blocks = static_cast<unsigned>(config.blocks);
  const auto shared_bytes = static_cast<std::size_t>(s.shared_bytes);
  const dim3 block(static_cast<unsigned>(s.threads));
  int clusters = 0;
  cudaError_t status = allow_shared_memory(kernel, shared_bytes);
  if (status == cudaSuccess && config.blocks > kPortableBlocks) status = allow_large_clusters(kernel);
  if (status == cudaSuccess) {
    const ClusterConfig one(dim3(blocks), block, shared_bytes, blocks, Launch{where.stream});
    status = cudaOccupancyMaxActiveClusters(&clusters, kernel, one.get());
  }
  if (status != cudaSuccess) return status;
  const dim3 grid(blocks * std::min(a.tiles, static_cast<std::uint32_t>(std::max(clusters, 1))));
  return launch_clusters(kernel, grid, block, shared_bytes, blocks, where, a, more...);
}

}  // namespace mobicuda::kernels::inverted_cluster
