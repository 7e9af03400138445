// How many blocks of a kernel a GPU holds at once, for kernels whose blocks walk over tiles.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/common/device_traits.h"
#include "kernels/common/launch.h"
#include "kernels/common/launch_cluster.h"

namespace mobicuda::kernels {

/// Of the current device.
inline cudaError_t count_multiprocessors(int& count) {
  DeviceTraits gpu;
  const cudaError_t status = current_device_traits(gpu);
  count = gpu.multiprocessors;
  return status;
}

/// `blocks` that all multiprocessors of the current device hold at once, at least one each. Lets the kernel have up to
/// `most_shared_bytes` of shared memory: always the same for a kernel, because another thread may launch it with
/// another size at this moment.
template <class... Parameters>
cudaError_t resident_blocks(void (*kernel)(Parameters...), int threads, std::size_t shared_bytes,
                            std::size_t most_shared_bytes, int& blocks) {
  int multiprocessors = 0;
  int each = 0;
  cudaError_t status = count_multiprocessors(multiprocessors);
  if (status == cudaSuccess) status = allow_shared_memory(kernel, most_shared_bytes);
  if (status == cudaSuccess) {
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, shared_bytes);
  }
  blocks = std::max(1, each) * multiprocessors;
  return status;
}

/// The same of clusters of `ranks` blocks: at least one in all.
template <class... Parameters>
cudaError_t resident_clusters(void (*kernel)(Parameters...), unsigned ranks, int threads, std::size_t shared_bytes,
                              std::size_t most_shared_bytes, int& clusters) {
  if (ranks == 1) return resident_blocks(kernel, threads, shared_bytes, most_shared_bytes, clusters);
  cudaError_t status = allow_shared_memory(kernel, most_shared_bytes);
  const ClusterConfig config(dim3(ranks), dim3(static_cast<unsigned>(threads)), shared_bytes, ranks, {});
  if (status == cudaSuccess) status = cudaOccupancyMaxActiveClusters(&clusters, kernel, config.get());
  clusters = std::max(1, clusters);
  return status;
}

}  // namespace mobicuda::kernels
