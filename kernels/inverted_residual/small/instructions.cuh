// Single instructions of the small inverted residual kernel. Memory is accessed by volatile asm throughout, so that
// loads from global memory stay on their side of wait_for_predecessor().
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

namespace mobicuda::kernels::inverted_small {

__device__ __forceinline__ unsigned lane() { return threadIdx.x % 32; }
__device__ __forceinline__ unsigned warp() { return threadIdx.x / 32; }

__device__ __forceinline__ std::uint32_t bits(__half2 x) { return *reinterpret_cast<std::uint32_t*>(&x); }

/// min(max(x, 0), hi) of two numbers rounded to half; NaN propagates.
__device__ __forceinline__ std::uint32_t clip([[maybe_unused]] float first, [[maybe_unused]] float second,
                                              [[maybe_unused]] std::uint32_t hi) {
  std::uint32_t result = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(second), "f"(first));
  asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(result) : "r"(hi));
#endif
  return result;
}

/// sum = start + a (16 x 16) * b (16 x 8). Apart from sum, so that `start` stays in its registers.
__device__ __forceinline__ void multiply_add_to([[maybe_unused]] float (&sum)[4],
                                                [[maybe_unused]] const std::uint32_t (&start)[4],
                                                [[maybe_unused]] const std::uint32_t (&a)[4],
                                                [[maybe_unused]] std::uint32_t b0, [[maybe_unused]] std::uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(__uint_as_float(start[0])),
        "f"(__uint_as_float(start[1])), "f"(__uint_as_float(start[2])), "f"(__uint_as_float(start[3])));
#endif
}

/// sum += a (16 x 8) * b (8 x 8).
__device__ __forceinline__ void multiply_add_half([[maybe_unused]] float (&sum)[4], [[maybe_unused]] std::uint32_t a0,
                                                  [[maybe_unused]] std::uint32_t a1, [[maybe_unused]] std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(b));
#endif
}

template <int kWords>
__device__ __forceinline__ void load_words(const unsigned char* from, std::uint32_t* words) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 1) {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(words[0]) : "l"(from));
  } else if constexpr (kWords == 2) {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(from));
  } else {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(from));
  }
}

/// Zeros where not `present`.
template <int kWords>
__device__ __forceinline__ void load_words_if(bool present, const unsigned char* from, std::uint32_t* words) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = 0;
  if (present) load_words<kWords>(from, words);
}

template <int kWords>
__device__ __forceinline__ void load_shared(std::uint32_t from, std::uint32_t* words) {
  static_assert(kWords == 2 || kWords == 4);
  if constexpr (kWords == 2) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(from) : "memory");
  } else {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
  }
}

__device__ __forceinline__ std::uint32_t load_shared_word(std::uint32_t from) {
  std::uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
  return word;
}

__device__ __forceinline__ const unsigned char* load_pointer(std::uint32_t from) {
  const unsigned char* pointer;
  asm volatile("ld.shared.u64 %0, [%1];" : "=l"(pointer) : "r"(from) : "memory");
  return pointer;
}

__device__ __forceinline__ void store_pointer(std::uint32_t to, const unsigned char* pointer) {
  asm volatile("st.shared.u64 [%0], %1;" : : "r"(to), "l"(pointer) : "memory");
}

/// The lower half of `word`.
__device__ __forceinline__ void store_half(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.shared.u16 [%0], %1;" : : "r"(to), "h"(static_cast<std::uint16_t>(word)) : "memory");
}

template <int kWords>
__device__ __forceinline__ void store_words(unsigned char* to, const std::uint32_t (&words)[kWords]) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 1) {
    asm volatile("st.global.u32 [%0], %1;" : : "l"(to), "r"(words[0]) : "memory");
  } else if constexpr (kWords == 2) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" : : "l"(to), "r"(words[0]), "r"(words[1]) : "memory");
  } else {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  }
}

/// Four 8x8 matrices of half; lane t gives the address of row t % 8 of matrix t / 8.
__device__ __forceinline__ void load_four(std::uint32_t (&words)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void load_two(std::uint32_t (&words)[2], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void store_two(std::uint32_t to, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" : : "r"(to), "f"(first), "f"(second) : "memory");
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
/// What stmatrix does with one matrix: row t % 8 of it lies where lane t + 8 * matrix says.
__device__ __forceinline__ void store_transposed(std::uint32_t row, std::uint32_t word, int matrix) {
  std::uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
  const std::uint32_t to = __shfl_sync(~0U, row, matrix * 8 + lane() / 4);
  asm volatile("st.shared.u32 [%0], %1;" : : "r"(to + lane() % 4 * 4), "r"(transposed) : "memory");
}
#endif

/// The transposes of four 8x8 matrices of half; lane t gives the address of row t % 8 of matrix t / 8 of the result.
__device__ __forceinline__ void store_four_transposed(std::uint32_t row, const std::uint32_t (&words)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  for (int i = 0; i < 4; ++i) store_transposed(row, words[i], i);
#else
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(row), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
#endif
}

/// The same for the first two.
__device__ __forceinline__ void store_two_transposed(std::uint32_t row, const std::uint32_t (&words)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  for (int i = 0; i < 2; ++i) store_transposed(row, words[i], i);
#else
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
               :
               : "r"(row), "r"(words[0]), "r"(words[1])
               : "memory");
#endif
}

// pin() has values computed here: the compiler would leave them for where they are used, behind the wait for the
// predecessor, but it does not move accesses of memory. `scratch` is 16 bytes of shared memory of the thread's own.

__device__ __forceinline__ void pin(std::uint32_t scratch, std::uint32_t& value) {
  asm volatile("st.volatile.shared.u32 [%1], %0;\n\tld.volatile.shared.u32 %0, [%1];"
               : "+r"(value)
               : "r"(scratch)
               : "memory");
}

template <int kWords>
__device__ __forceinline__ void pin(std::uint32_t scratch, std::uint32_t (&values)[kWords]) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) pin(scratch, values[i]);
}

template <class T>
__device__ __forceinline__ void pin(std::uint32_t scratch, T*& pointer) {
  asm volatile("st.volatile.shared.u64 [%1], %0;\n\tld.volatile.shared.u64 %0, [%1];"
               : "+l"(pointer)
               : "r"(scratch)
               : "memory");
}

}  // namespace mobicuda::kernels::inverted_small
