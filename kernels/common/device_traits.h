// What a GPU can do, as far as supports(), launches and the choice of variants depend on it.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "kernels/common/hardware_limits.h"

namespace mobicuda::kernels {

/// One GPU, and the device code that its driver loaded of this library. A kernel leaves out what the architecture lacks
/// that it is compiled for, so that `code` and not `capability` says which instructions there are.
struct DeviceTraits {
  int capability = 0;  ///< of the GPU: major * 10 + minor
  int code = 0;  ///< virtual architecture (compute_XY) that the loaded code was compiled for, at most `capability`
  bool wgmma_code = false;  ///< code for sm_90a is loaded as well, which alone has wgmma
  int multiprocessors = 0;
  std::size_t shared_bytes_per_block = 0;  ///< dynamic shared memory that a block may have at most
  std::size_t shared_bytes_per_multiprocessor = 0;
  std::size_t reserved_shared_bytes = 0;  ///< of each block, taken by the driver
  int cluster_blocks = 1;                 ///< that a cluster may have at most
  int large_cluster_blocks = 1;           ///< the same with allow_large_clusters(), where each has an SM to itself
  bool compiles = false;                  ///< specialised variants can be compiled for it at run time
  std::size_t l2_bytes = 0;               ///< 0: not known

  /// Whether a kernel may start before its predecessor has ended: the loaded code waits for it.
  constexpr bool programmatic_launch() const { return code >= 90; }

  friend bool operator==(const DeviceTraits&, const DeviceTraits&) = default;
};

/// A GPU of that capability on which code for `code` is loaded, by kHardwareLimits; for rules and tests without the
/// GPU. Capability 75 or later, code at most `capability`.
constexpr DeviceTraits traits_of(int capability, int multiprocessors, int code) {
  const HardwareLimits limits = limits_of(capability);
  constexpr int kHopper = 90;
  constexpr int kOldestWithReserved = 80;
  return {capability,
          code,
          capability == kHopper && code == kHopper,
          multiprocessors,
          limits.shared_bytes_per_block,
          limits.shared_bytes_per_multiprocessor,
          capability >= kOldestWithReserved ? kReservedSharedBytes : 0,
          code >= kHopper ? limits.cluster_blocks : 1,
          code >= kHopper ? limits.large_cluster_blocks : 1,
          false};
}

/// The same with code for the GPU itself.
constexpr DeviceTraits traits_of(int capability, int multiprocessors) {
  return traits_of(capability, multiprocessors, capability);
}

/// Asks the driver; `compiles` is false. cudaErrorNoKernelImageForDevice: this library has no code for the GPU. Changes
/// the current device for the time of the call. Safe from several threads.
cudaError_t device_traits(int device, DeviceTraits& traits);

/// Of the current device; asks the driver once for each. Safe from several threads.
cudaError_t current_device_traits(DeviceTraits& traits);

}  // namespace mobicuda::kernels
