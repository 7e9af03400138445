#pragma once

#include <cuda_fp16.h>

#include "kernels/common/std.h"

namespace mobicuda::kernels {

// Activation pointers of kernels carry no __restrict__: it would let the compiler read activations through the
// non-coherent cache, and even before wait_for_predecessor().

/// N elements that one thread moves at once, by accesses of 16 bytes where it is that large.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Packet {
  T item[N];
};

/// Elements in 16 bytes.
template <class T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
__device__ __forceinline__ Packet<T, N> load(const T* from) {
  return *reinterpret_cast<const Packet<T, N>*>(from);
}

template <int N, class T>
__device__ __forceinline__ void store(T* to, const Packet<T, N>& packet) {
  *reinterpret_cast<Packet<T, N>*>(to) = packet;
}

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

template <class T>
__device__ __forceinline__ T from_float(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    return __float2half_rn(x);
  }
}

/// Whether all of the pointers may be accessed 16 bytes at a time.
template <class... Pointers>
bool aligned_16(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The largest extent of a grid's y and z; kernels loop where there is more.
inline constexpr int kMaxGridYz = 65535;

/// The largest extent of a grid's x.
inline constexpr std::int64_t kMaxGridX = 2147483647;

}  // namespace mobicuda::kernels
