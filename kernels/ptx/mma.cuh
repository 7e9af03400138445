// mma.sync: a warp's D (m x n) = A (m x k) * B (k x n) + C, named by m x n x k. Each lane holds a fragment of every
// matrix: of the accumulators rows lane / 4 and lane / 4 + 8, columns lane % 4 * 2 and the next. Below the architecture
// that has an instruction its function does nothing: the launchers do not choose such kernels there.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

/// Half, accumulators in float: d += a * b.
__device__ __forceinline__ void mma_16x8x16([[maybe_unused]] float (&d)[4],
                                            [[maybe_unused]] const std::uint32_t (&a)[4],
                                            [[maybe_unused]] std::uint32_t b0, [[maybe_unused]] std::uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// d = a * b + c. Apart from d, c stays in its registers.
__device__ __forceinline__ void mma_16x8x16([[maybe_unused]] float (&d)[4],
                                            [[maybe_unused]] const std::uint32_t (&a)[4],
                                            [[maybe_unused]] std::uint32_t b0, [[maybe_unused]] std::uint32_t b1,
                                            [[maybe_unused]] const float (&c)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#endif
}

/// The same with the bits of c's floats. An instruction of its own: by way of an array of floats the
/// compiler orders differently what the words are initialised with.
__device__ __forceinline__ void mma_16x8x16([[maybe_unused]] float (&d)[4],
                                            [[maybe_unused]] const std::uint32_t (&a)[4],
                                            [[maybe_unused]] std::uint32_t b0, [[maybe_unused]] std::uint32_t b1,
                                            [[maybe_unused]] const std::uint32_t (&c)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(__uint_as_float(c[0])),
        "f"(__uint_as_float(c[1])), "f"(__uint_as_float(c[2])), "f"(__uint_as_float(c[3])));
#endif
}

/// Half, accumulators in float, 8 of k: d += a * b.
__device__ __forceinline__ void mma_16x8x8([[maybe_unused]] float (&d)[4], [[maybe_unused]] std::uint32_t a0,
                                           [[maybe_unused]] std::uint32_t a1, [[maybe_unused]] std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b));
#endif
}

/// d = a * b + c.
__device__ __forceinline__ void mma_16x8x8([[maybe_unused]] float (&d)[4], [[maybe_unused]] const std::uint32_t (&a)[2],
                                           [[maybe_unused]] std::uint32_t b, [[maybe_unused]] const float (&c)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#endif
}

/// tf32, accumulators in float: d += a * b.
__device__ __forceinline__ void mma_tf32_16x8x8([[maybe_unused]] float (&d)[4],
                                                [[maybe_unused]] const std::uint32_t (&a)[4],
                                                [[maybe_unused]] std::uint32_t b0, [[maybe_unused]] std::uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

__device__ __forceinline__ void mma_tf32_16x8x4([[maybe_unused]] float (&d)[4],
                                                [[maybe_unused]] const std::uint32_t (&a)[2],
                                                [[maybe_unused]] std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}

/// Double, which rounds as fma does: d += a * b. `upper`, `lower`: accumulators of row lane / 4 and of row lane / 4 +
/// 8, and likewise two of k of A. sm_90 and newer.
__device__ __forceinline__ void mma_f64_16x8x8([[maybe_unused]] double (&d_upper)[2],
                                               [[maybe_unused]] double (&d_lower)[2],
                                               [[maybe_unused]] const double (&a_upper)[2],
                                               [[maybe_unused]] const double (&a_lower)[2],
                                               [[maybe_unused]] const double (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+d"(d_upper[0]), "+d"(d_upper[1]), "+d"(d_lower[0]), "+d"(d_lower[1])
      : "d"(a_upper[0]), "d"(a_lower[0]), "d"(a_upper[1]), "d"(a_lower[1]), "d"(b[0]), "d"(b[1]));
#endif
}

}  // namespace mobicuda::kernels::ptx
