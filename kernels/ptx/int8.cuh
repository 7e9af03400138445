// Bytes: products of int8 whose sums are exact in 32 bits, and loads of four at once.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

/// d (16 x 8) += a (16 x 32, a row's bytes in a row) * b (32 x 8, a column's bytes in a row), a warp together.
/// Fragments are those of a half product of 16 of k, with two bytes in the place of a half: ldmatrix reads both. Does
/// nothing below sm_80, where no launcher chooses it.
__device__ __forceinline__ void mma_s8_16x8x32([[maybe_unused]] std::int32_t (&d)[4],
                                               [[maybe_unused]] const std::uint32_t (&a)[4],
                                               [[maybe_unused]] std::uint32_t b0, [[maybe_unused]] std::uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// d = c + a * b: a c that several products begin with stays in its registers.
__device__ __forceinline__ void mma_s8_16x8x32([[maybe_unused]] std::int32_t (&d)[4],
                                               [[maybe_unused]] const std::uint32_t (&a)[4],
                                               [[maybe_unused]] std::uint32_t b0, [[maybe_unused]] std::uint32_t b1,
                                               [[maybe_unused]] const std::int32_t (&c)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
#endif
}

/// The same of 16 of k: the first halves of a, rows lane / 4 and 8 more, and of b.
__device__ __forceinline__ void mma_s8_16x8x16([[maybe_unused]] std::int32_t (&d)[4],
                                               [[maybe_unused]] const std::uint32_t (&a)[2],
                                               [[maybe_unused]] std::uint32_t b,
                                               [[maybe_unused]] const std::int32_t (&c)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
#endif
}

/// d += a * b, of uint8 by int8.
__device__ __forceinline__ void mma_u8s8_16x8x32([[maybe_unused]] std::int32_t (&d)[4],
                                                 [[maybe_unused]] const std::uint32_t (&a)[4],
                                                 [[maybe_unused]] std::uint32_t b0, [[maybe_unused]] std::uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// d = c + a * b, of uint8 by int8.
__device__ __forceinline__ void mma_u8s8_16x8x32([[maybe_unused]] std::int32_t (&d)[4],
                                                 [[maybe_unused]] const std::uint32_t (&a)[4],
                                                 [[maybe_unused]] std::uint32_t b0, [[maybe_unused]] std::uint32_t b1,
                                                 [[maybe_unused]] const std::int32_t (&c)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
#endif
}

/// d (16 x 8) += a (16 x 16) * b (16 x 8), of uint8 by int8: the first half of a product of 32 of k. a: rows lane / 4
/// and 8 more.
__device__ __forceinline__ void mma_u8s8_16x8x16([[maybe_unused]] std::int32_t (&d)[4],
                                                 [[maybe_unused]] const std::uint32_t (&a)[2],
                                                 [[maybe_unused]] std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}

/// Of both 16 bits: a + b, but not more than `most` nor less than 0. One instruction on sm_90.
__device__ __forceinline__ std::uint32_t add_clipped_pairs(std::uint32_t a, std::uint32_t b, std::uint32_t most) {
  return __viaddmin_s16x2_relu(a, b, most);
}

/// Of both 16 bits, signed, the larger. One instruction on sm_90.
__device__ __forceinline__ std::uint32_t larger_pairs(std::uint32_t a, std::uint32_t b) { return __vmaxs2(a, b); }

/// Bytes of four int32, each clipped to 0 .. 255; the first is the lowest. Two instructions; for sm_75 and newer.
__device__ __forceinline__ std::uint32_t clipped_bytes(std::uint32_t first, std::uint32_t second, std::uint32_t third,
                                                       std::uint32_t fourth) {
  std::uint32_t upper;
  std::uint32_t word;
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(upper) : "r"(fourth), "r"(third), "r"(0));
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(second), "r"(first), "r"(upper));
  return word;
}

/// sum + the products of four int8 of a by those of b.
__device__ __forceinline__ std::int32_t dp4a(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  std::int32_t result;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/// Four bytes by a predicate, `otherwise` where not `present`. In the order of load_global() (memory.cuh).
__device__ __forceinline__ std::uint32_t load_global_or(const void* from, bool present, std::uint32_t otherwise) {
  std::uint32_t word = otherwise;
  asm volatile(
      "{\n"
      "  .reg .pred inside;\n"
      "  setp.ne.u32 inside, %2, 0;\n"
      "  @inside ld.global.u32 %0, [%1];\n"
      "}\n"
      : "+r"(word)
      : "l"(from), "r"(static_cast<unsigned>(present)));
  return word;
}

}  // namespace mobicuda::kernels::ptx
