// Which device code the driver loaded, and what the GPU allows.

#include "kernels/common/device_traits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "kernels/common/launch_cluster.h"
#include "kernels/common/sm90a_code.h"

namespace mobicuda::kernels {
namespace {

/// Compiled for the same architectures as all kernels but those of sm_90a: its attributes tell which was loaded.
__global__ void probe_kernel() {}

/// Asked about large clusters.
__global__ void cluster_probe_kernel() {}

/// Blocks of the largest cluster of a kernel that the GPU runs, at most `most`.
cudaError_t most_cluster_blocks(void (*kernel)(), std::size_t shared_bytes, int most, int& blocks) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(most));
  config.blockDim = dim3(128);
  config.dynamicSmemBytes = shared_bytes;
  const cudaError_t status = cudaOccupancyMaxPotentialClusterSize(&blocks, kernel, &config);
  blocks = std::clamp(blocks, 1, most);
  return status;
}

/// DeviceTraits::cluster_blocks and large_cluster_blocks; the traits before them are known.
cudaError_t ask_for_clusters(DeviceTraits& traits) {
  const HardwareLimits limits = limits_of(traits.capability);
  const cudaError_t status = most_cluster_blocks(probe_kernel, 0, limits.cluster_blocks, traits.cluster_blocks);
  traits.large_cluster_blocks = traits.cluster_blocks;
  if (status != cudaSuccess) return status;
  // All shared memory of an SM for each block: what a cluster finds where none shares an SM with another.
  int blocks = 0;
  if (allow_large_clusters(cluster_probe_kernel) != cudaSuccess ||
      allow_shared_memory(cluster_probe_kernel, traits.shared_bytes_per_block) != cudaSuccess ||
      most_cluster_blocks(cluster_probe_kernel, traits.shared_bytes_per_block, limits.large_cluster_blocks, blocks) !=
          cudaSuccess) {
    cudaGetLastError();  // it has none
    return cudaSuccess;
  }
  traits.large_cluster_blocks = std::max(blocks, traits.cluster_blocks);
  return cudaSuccess;
}

cudaError_t ask(int device, DeviceTraits& traits) {
  cudaFuncAttributes code{};
  if (const cudaError_t status = cudaFuncGetAttributes(&code, probe_kernel); status != cudaSuccess) {
    cudaGetLastError();
    // What a driver says of a program without code for its GPU differs.
    return status == cudaErrorInvalidDeviceFunction ? cudaErrorNoKernelImageForDevice : status;
  }
  traits.code = code.ptxVersion;
  traits.wgmma_code = has_sm90a_code();

  cudaError_t status = cudaSuccess;
  const auto get = [&](cudaDeviceAttr what) {
    int value = 0;
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&value, what, device);
    return value;
  };
  traits.capability = get(cudaDevAttrComputeCapabilityMajor) * 10 + get(cudaDevAttrComputeCapabilityMinor);
  traits.multiprocessors = get(cudaDevAttrMultiProcessorCount);
  traits.shared_bytes_per_block = static_cast<std::size_t>(get(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  traits.shared_bytes_per_multiprocessor = static_cast<std::size_t>(get(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  traits.reserved_shared_bytes = static_cast<std::size_t>(get(cudaDevAttrReservedSharedMemoryPerBlock));
  traits.l2_bytes = static_cast<std::size_t>(get(cudaDevAttrL2CacheSize));
  const bool clusters = get(cudaDevAttrClusterLaunch) != 0 && traits.programmatic_launch();
  traits.cluster_blocks = traits.large_cluster_blocks = 1;
  if (status == cudaSuccess && clusters) status = ask_for_clusters(traits);
  return status;
}

constexpr int kRememberedDevices = 64;  // of more, the driver is asked each time

/// `ready` is set after the traits, which never change then.
struct Remembered {
  std::atomic<bool> ready{false};
  DeviceTraits traits;
};

}  // namespace

cudaError_t device_traits(int device, DeviceTraits& traits) {
  static std::array<Remembered, kRememberedDevices> remembered;
  static std::mutex asking;
  const bool remember = device >= 0 && device < kRememberedDevices;
  Remembered* const slot = remember ? &remembered[static_cast<std::size_t>(device)] : nullptr;
  if (slot != nullptr && slot->ready.load(std::memory_order_acquire)) {
    traits = slot->traits;
    return cudaSuccess;
  }
  int before = 0;
  cudaError_t status = cudaGetDevice(&before);
  if (status == cudaSuccess && device != before) status = cudaSetDevice(device);
  if (status != cudaSuccess) return status;
  const std::scoped_lock<std::mutex> lock(asking);
  status = ask(device, traits);
  if (status == cudaSuccess && slot != nullptr && !slot->ready.load(std::memory_order_relaxed)) {
    slot->traits = traits;
    slot->ready.store(true, std::memory_order_release);
  }
  if (device == before) return status;
  const cudaError_t restored = cudaSetDevice(before);
  return status == cudaSuccess ? restored : status;
}

cudaError_t current_device_traits(DeviceTraits& traits) {
  int device = 0;
  const cudaError_t status = cudaGetDevice(&device);
  return status == cudaSuccess ? device_traits(device, traits) : status;
}

}  // namespace mobicuda::kernels
