// CUDA C++ for a compiler of C++: included before everything else when kernels are compiled for the emulator.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "emulator/emulator.h"

// The code paths of an H200. The toolkit's own headers, above, are read as on a host.
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __cluster_dims__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __shared__ static  // blocks run one after the other, but for those of a cluster, which have dynamic memory only
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __noinline__ __attribute__((noinline))  // the standard library, above, has another use for the word

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

inline void __syncthreads() { mobicuda::emulator::sync_threads(); }
inline void __syncwarp(unsigned /*mask*/ = ~0U) {
  mobicuda::emulator::meet_in_warp([](void* const*) {}, nullptr);
}

namespace mobicuda::emulator {

template <class T>
struct Shuffle {
  T value;
  unsigned from;
  T received;
};

template <class T>
T shuffle(T value, unsigned from) {
  Shuffle<T> own{value, from, value};
  meet_in_warp(
      [](void* const* operands) {
        for (unsigned i = 0; i < 32; ++i) {
          auto* const to = static_cast<Shuffle<T>*>(operands[i]);
          if (to == nullptr) continue;
          const auto* const source = static_cast<const Shuffle<T>*>(operands[to->from % 32]);
          if (source != nullptr) to->received = source->value;
        }
      },
      &own);
  return own.received;
}

}  // namespace mobicuda::emulator

template <class T>
T __shfl_sync(unsigned /*mask*/, T value, int from) {
  return mobicuda::emulator::shuffle(value, static_cast<unsigned>(from));
}
template <class T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int other) {
  return mobicuda::emulator::shuffle(value, mobicuda::emulator::lane() ^ static_cast<unsigned>(other));
}
template <class T>
T __shfl_down_sync(unsigned /*mask*/, T value, unsigned delta) {
  const unsigned from = mobicuda::emulator::lane() + delta;
  return mobicuda::emulator::shuffle(value, from < 32 ? from : mobicuda::emulator::lane());
}

template <class T>
T __ldg(const T* from) {
  return *from;
}
inline float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __saturatef(float x) { return x > 0.0F ? std::fmin(x, 1.0F) : 0.0F; }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{y} << 32U | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned which = selector >> 4 * i & 7U;
    result |= static_cast<unsigned>(bytes >> 8 * which & 0xFFU) << 8 * i;
  }
  return result;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32U | low) >> (shift & 31U));
}
inline std::size_t __cvta_generic_to_shared(const void* pointer) { return mobicuda::emulator::shared_address(pointer); }

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline std::int64_t min(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t max(std::int64_t a, std::int64_t b) { return a < b ? b : a; }

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes, std::size_t zeros = 0) {
  mobicuda::emulator::copy_later(to, from, bytes - zeros, zeros);
}
inline void __pipeline_commit() { mobicuda::emulator::close_copies(); }
inline void __pipeline_wait_prior(unsigned pending) { mobicuda::emulator::wait_for_copies(static_cast<int>(pending)); }

// What the toolkit does slowly on a host.

namespace mobicuda::emulator {

/// The larger one, or with kLess the smaller one, in bits; NaN propagates.
template <bool kLess>
std::uint16_t choose_half(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint16_t kNan = 0x7FFF;
  const float x = float_of_half(a);
  const float y = float_of_half(b);
  if (std::isnan(x) || std::isnan(y)) return kNan;
  const bool first = x == y ? ((a & 0x8000U) != 0) == kLess : (x < y) == kLess;  // zeros differ in their signs
  return static_cast<std::uint16_t>(first ? a : b);
}
template <bool kLess>
__half2 choose_halves(__half2 a, __half2 b) {
  const auto first = __builtin_bit_cast(std::uint32_t, static_cast<__half2_raw>(a));
  const auto second = __builtin_bit_cast(std::uint32_t, static_cast<__half2_raw>(b));
  return __half2_raw{choose_half<kLess>(first, second), choose_half<kLess>(first >> 16U, second >> 16U)};
}
inline float float_of(__half half) { return float_of_half(static_cast<__half_raw>(half).x); }
inline float2 floats_of(__half2 halves) {
  const auto bits = __builtin_bit_cast(std::uint32_t, static_cast<__half2_raw>(halves));
  return {float_of_half(bits), float_of_half(bits >> 16U)};
}

}  // namespace mobicuda::emulator

#define __hmin2_nan ::mobicuda::emulator::choose_halves<true>
#define __hmax2_nan ::mobicuda::emulator::choose_halves<false>
#define __half2float ::mobicuda::emulator::float_of
#define __half22float2 ::mobicuda::emulator::floats_of

// A launch knows the kernel's parameters, which <cuda_runtime.h> would make addresses of.

namespace mobicuda::emulator {

template <class... Parameters, class... Arguments>
cudaError_t launch(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  return launch_as(*config, reinterpret_cast<const void*>(kernel),
                   [&] { kernel(static_cast<Parameters>(arguments)...); });
}

}  // namespace mobicuda::emulator

#define cudaLaunchKernelEx ::mobicuda::emulator::launch

// Templates that <cuda_runtime.h> has for nvcc only.

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute what, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), what, value);
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel* kernel) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel* kernel, int threads,
                                                          std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void*>(kernel), threads,
                                                       shared_bytes);
}
