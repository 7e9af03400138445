#include "l2_sweep.h"

#include <cstddef>

#include "runtime/cuda_check.h"

namespace mobicuda::bench {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;

__global__ void read_all(const uint4* data, std::size_t count, unsigned* out) {
  unsigned seen = 0;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint4 words = data[i];
    seen |= words.x | words.y | words.z | words.w;
  }
  if (seen != 0) *out = seen;  // never true, but the compiler does not know
}

/// Zeros, several times as many as L2 holds.
struct Zeros {
  Zeros() {
    constexpr std::size_t kTimes = 3;
    int l2_bytes = 0;
    cuda_check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, 0), "asking for the size of L2");
    count = kTimes * static_cast<std::size_t>(l2_bytes) / sizeof(uint4) + 1;
    cuda_check(cudaMalloc(&data, count * sizeof(uint4)), "allocating what sweeps L2");
    cuda_check(cudaMemset(data, 0, count * sizeof(uint4)), "clearing what sweeps L2");
  }
  void* data = nullptr;  // until the program ends
  std::size_t count = 0;
};

}  // namespace

void sweep_l2(cudaStream_t stream) {
  static const Zeros zeros;
  read_all<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4*>(zeros.data), zeros.count,
                                             static_cast<unsigned*>(zeros.data));
  cuda_check(cudaGetLastError(), "sweeping L2");
}

}  // namespace mobicuda::bench
