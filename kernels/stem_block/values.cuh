// Values of the stem block on their way: from the input to shared memory, from bytes to floats, from sums to halves.
// sm_80 and newer.
#pragma once

#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/stem_block/arguments.cuh"

namespace mobicuda::kernels::stem_block_detail {

/// Begins to copy kBytes from global to shared memory; zeros, and no access, where not `present`.
template <int kBytes>
__device__ __forceinline__ void copy_or_zero(std::uint32_t to, std::uintptr_t from, bool present) {
  ptx::copy_async_ca_or_zero<kBytes>(to, reinterpret_cast<const void*>(from), present);
}

/// Byte k of a word, scaled and shifted.
__device__ __forceinline__ float scaled(std::uint32_t bytes, int k, float scale, float shift) {
  return fmaf(static_cast<float>(bytes >> (8 * k) & 0xFFU), scale, shift);
}

/// min(max(x, lo), hi) of two halves; NaN propagates.
__device__ __forceinline__ std::uint32_t clipped(HalfClip clip, std::uint32_t halves) {
  return ptx::clip_half2(halves, clip.lo, clip.hi);
}

/// Two sums rounded to half, then clipped. kPlain: clip.lo is zero.
template <bool kPlain>
__device__ __forceinline__ std::uint32_t round_and_clip(HalfClip clip, float first, float second) {
  if constexpr (!kPlain) return clipped(clip, ptx::to_half2(first, second));
  return ptx::to_half2_clipped(first, second, clip.hi);
}

}  // namespace mobicuda::kernels::stem_block_detail
