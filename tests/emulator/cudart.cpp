// The CUDA runtime of the emulator: one H200 of few SMs, so that blocks walk over several tiles; device memory is the
// host's, and a stream has always done what was asked of it.

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include <cuda_runtime_api.h>

#include "emulator/emulator.h"
#include "emulator/tensor_map.h"
#include "kernels/common/device_traits.h"
#include "support/device_attributes.h"

namespace {

constexpr int kMultiprocessors = 6;

const mobicuda::kernels::DeviceTraits& gpu() {
  static const mobicuda::kernels::DeviceTraits traits = mobicuda::kernels::traits_of(90, kMultiprocessors);
  return traits;
}

std::map<const void*, std::size_t>& shared_bytes_allowed() {
  static std::map<const void*, std::size_t> by_kernel;
  return by_kernel;
}

std::set<const void*>& large_clusters_allowed() {
  static std::set<const void*> kernels;
  return kernels;
}

int blocks_of_multiprocessor(std::size_t shared_bytes, int threads) {
  constexpr int kMostThreads = 2048;
  const std::size_t by_memory = gpu().shared_bytes_per_multiprocessor / (shared_bytes + gpu().reserved_shared_bytes);
  const auto by_threads = static_cast<std::size_t>(kMostThreads / (threads > 0 ? threads : 1));
  return static_cast<int>(by_memory < by_threads ? by_memory : by_threads);
}

}  // namespace

cudaError_t mobicuda::emulator::launch_as(const cudaLaunchConfig_t& config, const void* kernel,
                                          const std::function<void()>& body) {
  Configuration launch{config.gridDim, config.blockDim, config.dynamicSmemBytes};
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension) {
      launch.cluster_blocks = config.attrs[i].val.clusterDim.x;
    }
  }
  const auto allowed = shared_bytes_allowed().find(kernel);
  const bool asked = allowed != shared_bytes_allowed().end() && launch.shared_bytes <= allowed->second;
  if (launch.shared_bytes > kernels::kSharedBytesWithoutAsking && !asked) return cudaErrorInvalidValue;
  return run(launch, body) ? cudaSuccess : cudaErrorLaunchFailure;
}

extern "C" {

const char* cudaGetErrorString(cudaError_t status) {
  if (status == cudaErrorLaunchFailure) return mobicuda::emulator::last_fault().c_str();
  return status == cudaSuccess ? "no error" : "an error of the emulated runtime";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int /*device*/) {
  *value = mobicuda::test::attribute_of(gpu(), what);
  return *value < 0 ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {};
  std::strcpy(properties->name, "emulator");
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  *attributes = {};
  attributes->ptxVersion = gpu().code;
  attributes->binaryVersion = gpu().capability;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute what, int value) {
  if (what == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    large_clusters_allowed().insert(kernel);
    return cudaSuccess;
  }
  if (what != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorNotSupported;
  if (value < 0 || static_cast<std::size_t>(value) > gpu().shared_bytes_per_block) return cudaErrorInvalidValue;
  shared_bytes_allowed()[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*kernel*/, int threads,
                                                          std::size_t shared_bytes) {
  *blocks = blocks_of_multiprocessor(shared_bytes, threads);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* /*kernel*/, const cudaLaunchConfig_t* config) {
  const unsigned threads = config->blockDim.x * config->blockDim.y * config->blockDim.z;
  const int each = blocks_of_multiprocessor(config->dynamicSmemBytes, static_cast<int>(threads));
  const unsigned blocks = config->numAttrs > 0 ? config->attrs[0].val.clusterDim.x : 1;
  *clusters = each * kMultiprocessors / static_cast<int>(blocks);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* kernel,
                                                 const cudaLaunchConfig_t* /*config*/) {
  *blocks = large_clusters_allowed().contains(kernel) ? gpu().large_cluster_blocks : gpu().cluster_blocks;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/, cudaDriverEntryPointQueryResult* result) {
  *function = mobicuda::emulator::find_encoder(name);
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return posix_memalign(memory, kAlignment, bytes) == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t /*stream*/) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* all_bytes) {
  *free_bytes = *all_bytes = std::size_t{1} << 30U;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) { return cudaSuccess; }

}  // extern "C"
