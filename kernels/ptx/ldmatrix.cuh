// ldmatrix, stmatrix and movmatrix: 8x8 matrices of half between shared memory and the fragments of mma.sync. Of x4,
// lane t gives the address of row t % 8 of matrix t / 8; of x2, of the first two matrices. `trans` transposes each
// matrix.
#pragma once

#include "kernels/common/std.h"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels::ptx {

__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&words)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&words)[4], const unsigned char* row) {
  ldmatrix_x4(words, shared_address(row));
}

__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&words)[4], const unsigned char* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}

__device__ __forceinline__ void ldmatrix_x2(std::uint32_t (&words)[2], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "r"(row)
               : "memory");
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900

/// What stmatrix does with one matrix, before sm_90 has it: row t % 8 of it lies where lane t + 8 * matrix says.
__device__ __forceinline__ void store_matrix(std::uint32_t row, std::uint32_t word, unsigned matrix) {
  const std::uint32_t to = __shfl_sync(~0U, row, static_cast<int>(matrix * 8 + lane() / 4));
  store_shared(to + lane() % 4 * 4, word);
}

__device__ __forceinline__ void store_matrix_trans(std::uint32_t row, std::uint32_t word, unsigned matrix) {
  std::uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
  store_matrix(row, transposed, matrix);
}

#endif

__device__ __forceinline__ void stmatrix_x4(std::uint32_t row, const std::uint32_t (&words)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) store_matrix(row, words[i], i);
#else
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
#endif
}

__device__ __forceinline__ void stmatrix_x2(std::uint32_t row, const std::uint32_t (&words)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#pragma unroll
  for (unsigned i = 0; i < 2; ++i) store_matrix(row, words[i], i);
#else
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(words[0]), "r"(words[1])
               : "memory");
#endif
}

__device__ __forceinline__ void stmatrix_x4_trans(std::uint32_t row, const std::uint32_t (&words)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) store_matrix_trans(row, words[i], i);
#else
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
#endif
}

/// Of the first two words.
__device__ __forceinline__ void stmatrix_x2_trans(std::uint32_t row, const std::uint32_t (&words)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#pragma unroll
  for (unsigned i = 0; i < 2; ++i) store_matrix_trans(row, words[i], i);
#else
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(words[0]), "r"(words[1])
               : "memory");
#endif
}

}  // namespace mobicuda::kernels::ptx
