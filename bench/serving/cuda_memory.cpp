#include "serving/cuda_memory.h"

#include <stdexcept>

#include <cuda_runtime_api.h>

namespace mobicuda::bench {
namespace {

// Smaller ones share a block of the driver's with others, and it is the block that is handed over.
constexpr std::size_t kBlock = std::size_t{2} << 20;

void check(cudaError_t status, const std::string& doing) {
  if (status != cudaSuccess) throw std::runtime_error(doing + ": " + cudaGetErrorString(status));
}

}  // namespace

CudaMemory::CudaMemory(int device, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) bytes_ += set.size();
  check(cudaSetDevice(device), "GPU " + std::to_string(device));
  void* memory = nullptr;
  check(cudaMalloc(&memory, (bytes_ + kBlock - 1) / kBlock * kBlock), std::to_string(bytes_) + " bytes of GPU memory");
  memory_ = std::shared_ptr<void>(memory, cudaFree);
  auto* to = static_cast<std::byte*>(memory);
  for (const std::string& set : sets) {
    check(cudaMemcpy(to, set.data(), set.size(), cudaMemcpyHostToDevice), "copying images to the GPU");
    to += set.size();
  }
  cudaIpcMemHandle_t handle{};
  check(cudaIpcGetMemHandle(&handle, memory), "sharing GPU memory");
  handle_.assign(reinterpret_cast<const char*>(&handle), sizeof handle);
}

}  // namespace mobicuda::bench
