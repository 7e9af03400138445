// 16 bytes a thread where pointers and the count allow, else four.
#include "kernels/streaming/int8_add.h"

#include "kernels/common/packet.cuh"
#include "kernels/common/requantize.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 128;

template <int kWords>
__global__ void __launch_bounds__(kThreads) add_kernel(std::int64_t packets, const AddBytes add, const std::uint32_t* a,
                                                       const std::uint32_t* b, std::uint32_t* y) {
  wait_for_predecessor();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= packets) return;
  const auto left = load<kWords>(a + at * kWords);
  const auto right = load<kWords>(b + at * kWords);
  Packet<std::uint32_t, kWords> sums;
#pragma unroll
  for (int i = 0; i < kWords; ++i) sums.item[i] = add_four_bytes(add, left.item[i], right.item[i]);
  store(y + at * kWords, sums);
}

template <int kWords>
cudaError_t launch_add(const Int8AddParams& p, const void* a, const void* b, void* y, const Launch& where) {
  const std::int64_t packets = p.elements / (4 * kWords);
  const std::int64_t blocks = ceil_div(packets, std::int64_t{kThreads});
  if (blocks > kMaxGridX) return cudaErrorInvalidValue;
  return launch(add_kernel<kWords>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, where, packets,
                add_bytes_of(p.sum), static_cast<const std::uint32_t*>(a), static_cast<const std::uint32_t*>(b),
                static_cast<std::uint32_t*>(y));
}

}  // namespace

cudaError_t int8_add(const Int8AddParams& p, const void* a, const void* b, void* y, const Launch& where) {
  if (p.elements < 0 || p.elements % 4 != 0 || !is_valid(p.sum)) return cudaErrorInvalidValue;
  if (p.elements == 0) return cudaSuccess;
  const bool wide = aligned_16(a, b, y) && p.elements % 16 == 0;
  return wide ? launch_add<4>(p, a, b, y, where) : launch_add<1>(p, a, b, y, where);
}

}  // namespace mobicuda::kernels
