// Single instructions of the stem block, sm_80 and newer. Loads from global memory are volatile, so that they stay on
// their side of wait_for_predecessor().
#pragma once

#include "kernels/stem_block/arguments.cuh"

namespace mobicuda::kernels::stem_block_detail {

__device__ __forceinline__ unsigned lane() { return threadIdx.x % 32; }
__device__ __forceinline__ unsigned warp() { return threadIdx.x / 32; }

__device__ __forceinline__ void load_vector(const unsigned char* from, std::uint32_t* words) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(from));
}

// The compiler leaves accesses of volatile memory in their order, where it would bring others together with their uses.

/// Zeros, and no access, where not `present`.
__device__ __forceinline__ void load_in_order(bool present, std::uintptr_t from, std::uint32_t& word) {
  word = 0;
  if (present) asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
}

__device__ __forceinline__ void load_two_in_order(bool present, std::uintptr_t from, std::uint32_t (&words)[2]) {
  words[0] = words[1] = 0;
  if (!present) return;
  asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(from) : "memory");
}

__device__ __forceinline__ void store_in_order(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.volatile.shared.u32 [%0], %1;" : : "r"(to), "r"(word) : "memory");
}

// pin() has a value computed here. `scratch` is 256 bytes of shared memory that nobody uses yet.

__device__ __forceinline__ void pin(std::uint32_t scratch, std::uint32_t& value) {
  const std::uint32_t own = scratch + lane() * 8;
  asm volatile("st.volatile.shared.u32 [%1], %0;\n\tld.volatile.shared.u32 %0, [%1];"
               : "+r"(value)
               : "r"(own)
               : "memory");
}

__device__ __forceinline__ void pin(std::uint32_t scratch, std::uintptr_t& value) {
  const std::uint32_t own = scratch + lane() * 8;
  asm volatile("st.volatile.shared.u64 [%1], %0;\n\tld.volatile.shared.u64 %0, [%1];"
               : "+l"(value)
               : "r"(own)
               : "memory");
}

/// Begins to copy kBytes from global to shared memory; zeros, and no access, where not `present`.
template <int kBytes>
__device__ __forceinline__ void copy_or_zero(std::uint32_t to, std::uintptr_t from, bool present) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :
               : "r"(to), "l"(from), "n"(kBytes), "r"(present ? kBytes : 0)
               : "memory");
}

__device__ __forceinline__ void close_group() { asm volatile("cp.async.commit_group;" : : : "memory"); }

/// Waits for all groups but the last kPending.
template <int kPending>
__device__ __forceinline__ void wait_groups() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory");
}

__device__ __forceinline__ std::uint32_t load_word(std::uint32_t from) {
  std::uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
  return word;
}

__device__ __forceinline__ void load_two(std::uint32_t from, float (&values)[2]) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(values[0]), "=f"(values[1]) : "r"(from) : "memory");
}

__device__ __forceinline__ void load_four(std::uint32_t from, float (&values)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ void store_word(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" : : "r"(to), "r"(word) : "memory");
}

/// The lower half of `word`.
__device__ __forceinline__ void store_half(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.shared.u16 [%0], %1;" : : "r"(to), "h"(static_cast<std::uint16_t>(word)) : "memory");
}

__device__ __forceinline__ void store_vector(std::uint32_t to, const std::uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

__device__ __forceinline__ void store_two(std::uintptr_t to, const std::uint32_t (&words)[2]) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" : : "l"(to), "r"(words[0]), "r"(words[1]) : "memory");
}

/// Four 8x8 matrices of half; lane t gives the address of row t % 8 of matrix t / 8.
__device__ __forceinline__ void load_matrices(std::uint32_t row, std::uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row)
               : "memory");
}

/// The inverse of load_matrices().
__device__ __forceinline__ void store_matrices(std::uint32_t row, std::uint32_t word0, std::uint32_t word1,
                                               std::uint32_t word2, std::uint32_t word3) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  const std::uint32_t words[4] = {word0, word1, word2, word3};
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) store_word(__shfl_sync(~0U, row, i * 8 + lane() / 4) + lane() % 4 * 4, words[i]);
#else
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(row), "r"(word0), "r"(word1), "r"(word2), "r"(word3)
               : "memory");
#endif
}

/// `first` in the lower half.
__device__ __forceinline__ std::uint32_t round_two(float first, float second) {
  std::uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

/// Byte k of a word, scaled and shifted.
__device__ __forceinline__ float scaled(std::uint32_t bytes, int k, float scale, float shift) {
  return fmaf(static_cast<float>(bytes >> (8 * k) & 0xFFU), scale, shift);
}

/// min(max(x, lo), hi) of two halves; NaN propagates.
__device__ __forceinline__ std::uint32_t clipped(HalfClip clip, std::uint32_t halves) {
  asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(halves) : "r"(clip.lo));
  asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(halves) : "r"(clip.hi));
  return halves;
}

/// Two sums rounded to half, then clipped. kPlain: clip.lo is zero.
template <bool kPlain>
__device__ __forceinline__ std::uint32_t round_and_clip(HalfClip clip, float first, float second) {
  if constexpr (!kPlain) return clipped(clip, round_two(first, second));
  std::uint32_t halves = 0;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(second), "f"(first));
  asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(halves) : "r"(clip.hi));
  return halves;
}

/// d = a (16 x 16) * b (16 x 8) + c.
__device__ __forceinline__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1, const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

/// d = a (16 x 8) * b (8 x 8) + c.
__device__ __forceinline__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[2], std::uint32_t b,
                                             const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

}  // namespace mobicuda::kernels::stem_block_detail
