// What the cluster kernels do by PTX: loads that stay where they are, and sums sent between blocks of a cluster.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "kernels/ptx/cluster.cuh"

namespace mobicuda::kernels::inverted_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// 16 bytes of weights. Volatile: stays in front of wait_for_predecessor().
__device__ __forceinline__ uint4 load_weights(const unsigned char* from) {
  uint4 words;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from));
  return words;
}

// Floats of weights, as load_weights().
__device__ __forceinline__ float load_float(const float* from) {
  float value;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(from));
  return value;
}

__device__ __forceinline__ float2 load_floats_2(const float* from) {
  float2 pair;
  asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "l"(from));
  return pair;
}

__device__ __forceinline__ float4 load_floats_4(const float* from) {
  float4 v;
  asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
  return v;
}

/// What the predecessor writes. Volatile: stays behind wait_for_predecessor().
__device__ __forceinline__ float load_written(const float* from) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(from));
  return value;
}

/// Two halves of what the predecessor writes. Volatile: stays behind wait_for_predecessor().
__device__ __forceinline__ std::uint32_t load_word(const __half* from) {
  std::uint32_t word;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(from));
  return word;
}

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Has the value computed here, not behind a later volatile statement.
__device__ __forceinline__ void settle(std::uint32_t& value) { asm volatile("" : "+r"(value)); }
__device__ __forceinline__ void settle(int& value) { asm volatile("" : "+r"(value)); }

// Shared memory by its 32-bit addresses.
__device__ __forceinline__ void store_shared(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

__device__ __forceinline__ uint2 load_shared_2(std::uint32_t from) {
  uint2 words;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(from) : "memory");
  return words;
}

__device__ __forceinline__ uint4 load_shared_words(std::uint32_t from) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(from)
               : "memory");
  return words;
}

__device__ __forceinline__ float4 load_shared_4(std::uint32_t from) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

/// Begins to copy 16 bytes from global to shared memory; zeros where not `present`.
__device__ __forceinline__ void copy_chunk(std::uint32_t to, const char* from, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(present ? 16 : 0) : "memory");
}

/// Waits for the thread's own copies.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Barriers (mbarrier) of one arrival, by expect(), and of the bytes that it names.

/// Others may send after wait_for_cluster_begin().
__device__ __forceinline__ void initialize(std::uint32_t barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// Waits until all that was expected in the phase has come.
__device__ __forceinline__ void wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Writes to where `to` is in block `rank` of the cluster and tells its `barrier`.
__device__ __forceinline__ void send(std::uint32_t to, float4 value, std::uint32_t barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there, told;\n"
      "mapa.shared::cluster.u32 there, %0, %6;\n"
      "mapa.shared::cluster.u32 told, %1, %6;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%2, %3, %4, %5}, [told];\n"
      "}\n" ::"r"(to),
      "r"(barrier), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(rank)
      : "memory");
}

/// The address, for send() of one float, of a place in the shared memory of block `rank` of the cluster that is `here`
/// in this one's.
__device__ __forceinline__ std::uint32_t in_block(std::uint32_t here, int rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  return there;
}

__device__ __forceinline__ void send(std::uint32_t to, float value, std::uint32_t barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to), "f"(value),
               "r"(barrier)
               : "memory");
}

#endif

}  // namespace mobicuda::kernels::inverted_cluster
