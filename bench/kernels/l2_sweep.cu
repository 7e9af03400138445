#include "l2_sweep.h"

#include <cstddef>

#include "bench_support.h"

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
    check_cuda(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, 0));
    count = kTimes * static_cast<std::size_t>(l2_bytes) / sizeof(uint4) + 1;
    check_cuda(cudaMalloc(&data, count * sizeof(uint4)));
    check_cuda(cudaMemset(data, 0, count * sizeof(uint4)));
  }
  void* data = nullptr;  // until the program ends
  std::size_t count = 0;
};

}  // namespace

void sweep_l2(cudaStream_t stream) {
  static const Zeros zeros;
  read_all<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4*>(zeros.data), zeros.count,
                                             static_cast<unsigned*>(zeros.data));
  check_cuda(cudaGetLastError());
}

}  // namespace mobicuda::bench
