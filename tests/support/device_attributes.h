#pragma once

#include <cuda_runtime_api.h>

#include "kernels/common/device_traits.h"

namespace mobicuda::test {

/// What a CUDA runtime that plays a GPU of these traits says of it; -1 where it is not asked for.
inline int attribute_of(const kernels::DeviceTraits& gpu, cudaDeviceAttr what) {
  constexpr int kHopper = 90;
  switch (what) {
    case cudaDevAttrComputeCapabilityMajor:
      return gpu.capability / 10;
    case cudaDevAttrComputeCapabilityMinor:
      return gpu.capability % 10;
    case cudaDevAttrMultiProcessorCount:
      return gpu.multiprocessors;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(gpu.shared_bytes_per_block);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(gpu.shared_bytes_per_multiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return static_cast<int>(gpu.reserved_shared_bytes);
    case cudaDevAttrL2CacheSize:
      return static_cast<int>(gpu.l2_bytes);
    case cudaDevAttrClusterLaunch:
      return gpu.capability >= kHopper ? 1 : 0;
    default:
      return -1;
  }
}

}  // namespace mobicuda::test
