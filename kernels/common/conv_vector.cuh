#pragma once

#include <cuda_fp16.h>

#include "kernels/common/real.cuh"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels {

// Several channels in one memory access, for the convolutions: 4, 8 or 16 bytes of float, half or double.

template <int kBytes>
struct WordsOf;
template <>
struct WordsOf<4> {
  using Type = std::uint32_t;
};
template <>
struct WordsOf<8> {
  using Type = uint2;
};
template <>
struct WordsOf<16> {
  using Type = uint4;
};
template <int kBytes>
using Words = typename WordsOf<kBytes>::Type;

/// Splits `words` into what is computed in.
template <class T, class W, int kCount>
__device__ __forceinline__ void unpack(const W& words, Real<T> (&values)[kCount]) {
  static_assert(sizeof(W) == sizeof(T) * kCount);
  if constexpr (!std::is_same_v<T, __half>) {
    memcpy(values, &words, sizeof words);
  } else {
    __half2 pairs[kCount / 2];
    memcpy(pairs, &words, sizeof words);
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const float2 pair = __half22float2(pairs[i]);
      values[2 * i] = pair.x;
      values[2 * i + 1] = pair.y;
    }
  }
}

/// Rounds to T and joins.
template <class T, class W, int kCount>
__device__ __forceinline__ W pack(const Real<T> (&values)[kCount]) {
  static_assert(sizeof(W) == sizeof(T) * kCount);
  W words;
  if constexpr (!std::is_same_v<T, __half>) {
    memcpy(&words, values, sizeof words);
  } else {
    __half2 pairs[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) pairs[i] = __floats2half2_rn(values[2 * i], values[2 * i + 1]);
    memcpy(&words, pairs, sizeof words);
  }
  return words;
}

/// kCount weights or biases, aligned to their size or to 16 bytes.
template <class T, int kCount>
__device__ __forceinline__ void load_constants(const T* source, Real<T> (&values)[kCount]) {
  constexpr int kAll = static_cast<int>(sizeof(T)) * kCount;
  constexpr int kBytes = kAll < 16 ? kAll : 16;
  constexpr int kStep = kBytes / static_cast<int>(sizeof(T));
#pragma unroll
  for (int i = 0; i < kCount; i += kStep) {
    const auto words = ptx::load_global<Words<kBytes>>(source + i);
    Real<T> part[kStep];
    unpack<T>(words, part);
#pragma unroll
    for (int j = 0; j < kStep; ++j) values[i + j] = part[j];
  }
}

/// kCount biases for sums in R.
template <int kCount, class R>
__device__ __forceinline__ void load_biases(const float* source, R (&values)[kCount]) {
  if constexpr (std::is_same_v<R, float>) {
    load_constants<float>(source, values);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = __ldg(source + i);
  }
}

}  // namespace mobicuda::kernels
