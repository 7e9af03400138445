// Grids whose blocks shall each have a multiprocessor to themselves.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/common/launch_cluster.h"
#include "kernels/common/resident_blocks.h"

namespace mobicuda::kernels {

/// Shared memory of a block, in bytes, with which a multiprocessor holds one block and no second one that asks for as
/// much. `multiprocessor`, `reserved`: shared memory of a multiprocessor, and what the driver takes of it for a block.
constexpr std::size_t lone_block_bytes(std::size_t multiprocessor, std::size_t reserved) {
  constexpr std::size_t kUnit = 128;  // that shared memory is given in
  return (multiprocessor / 2 - std::min(reserved, multiprocessor / 2)) / kUnit * kUnit + kUnit;
}

/// The same of the current device.
inline cudaError_t lone_block_bytes(std::size_t& bytes) {
  DeviceTraits gpu;
  const cudaError_t status = current_device_traits(gpu);
  bytes = lone_block_bytes(gpu.shared_bytes_per_multiprocessor, gpu.reserved_shared_bytes);
  return status;
}

/// Whether all `blocks`, in clusters of `cluster`, find a multiprocessor each.
template <class... Parameters>
cudaError_t fit_apart(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, unsigned cluster,
                      std::size_t shared_bytes, bool& fit) {
  int multiprocessors = 0;
  cudaError_t status = count_multiprocessors(multiprocessors);
  fit = status == cudaSuccess && blocks <= static_cast<unsigned>(multiprocessors);
  // A cluster takes multiprocessors of one group (GPC): where few are left over, what is left over is in many groups.
  if (fit && cluster > 1 && 2 * blocks > static_cast<unsigned>(multiprocessors)) {
    int clusters = 0;
    const ClusterConfig config(dim3(blocks), dim3(threads), shared_bytes, cluster, {});
    status = cudaOccupancyMaxActiveClusters(&clusters, kernel, config.get());
    fit = static_cast<unsigned>(clusters) * cluster >= blocks;
  }
  return status;
}

/// Raises `shared_bytes` of a launch so that no two of its blocks share a multiprocessor, where all of them fit beside
/// each other so. For a grid no larger than the GPU: with a programmatic launch it starts where its predecessor's
/// blocks are not or end early, two blocks on such a multiprocessor if there is room, and later others have none. The
/// two share its tensor cores or FFMA lanes, and the grid takes up to twice the time. The price is that no block which
/// takes more than the rest of the shared memory loads its weights beside one of these.
/// Lets the kernel have as much shared memory: always the same for a kernel, because another thread may launch it with
/// another size at this moment.
template <class... Parameters>
cudaError_t spread_blocks(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, unsigned cluster,
                          std::size_t& shared_bytes) {
  std::size_t lone = 0;
  cudaError_t status = lone_block_bytes(lone);
  lone = std::max(lone, shared_bytes);
  if (status == cudaSuccess) status = allow_shared_memory(kernel, lone);
  bool fit = false;
  if (status == cudaSuccess) status = fit_apart(kernel, blocks, threads, cluster, lone, fit);
  if (fit) shared_bytes = lone;
  return status;
}

}  // namespace mobicuda::kernels
