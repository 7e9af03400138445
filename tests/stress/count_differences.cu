#include "stress/count_differences.h"

#include <algorithm>
#include <cstdint>

namespace mobicuda::stress {
namespace {

__global__ void count_kernel(const std::uint16_t* a, const std::uint16_t* b, std::size_t words, unsigned* count) {
  unsigned differ = 0;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words;
       i += std::size_t{gridDim.x} * blockDim.x) {
    differ += a[i] != b[i] ? 1U : 0U;
  }
  if (differ != 0) atomicAdd(count, differ);
}

}  // namespace

cudaError_t count_differences(const void* a, const void* b, std::size_t words, unsigned* count, cudaStream_t stream) {
  constexpr std::size_t kThreads = 256;
  constexpr std::size_t kMostBlocks = 64;
  if (words == 0) return cudaSuccess;
  const std::size_t blocks = std::min((words + kThreads - 1) / kThreads, kMostBlocks);
  count_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<const std::uint16_t*>(a), static_cast<const std::uint16_t*>(b), words, count);
  return cudaGetLastError();
}

}  // namespace mobicuda::stress
