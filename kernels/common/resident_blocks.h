// How many blocks of a kernel a GPU holds at once, for kernels whose blocks walk over tiles.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/common/device_traits.h"
#include "kernels/common/launch.h"

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

}  // namespace mobicuda::kernels
