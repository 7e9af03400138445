// cp.async: copies from global to shared memory in the background, which a thread closes to groups and waits for. .cg
// passes by the first-level cache, .ca goes through it. `_or_zero`: where not `present` zeros are written and nothing
// is read. Functions that take an untyped pointer to shared memory, and commit and wait, do on sm_75 what the copies
// do, at once; the others are for sm_80 and newer.
#pragma once

#include "kernels/common/std.h"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels::ptx {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MOBICUDA_HAS_CP_ASYNC 1
#else
#define MOBICUDA_HAS_CP_ASYNC 0
#endif

/// 16 bytes past the first-level cache. Below sm_80 the thread copies them itself, as everywhere below.
__device__ __forceinline__ void copy_async_cg(std::uint32_t to, const void* from) {
#if MOBICUDA_HAS_CP_ASYNC
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#else
  *static_cast<uint4*>(__cvta_shared_to_generic(to)) = *static_cast<const uint4*>(from);
#endif
}
__device__ __forceinline__ void copy_async_cg_or_zero(std::uint32_t to, const void* from, bool present) {
#if MOBICUDA_HAS_CP_ASYNC
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(present ? 16 : 0) : "memory");
#else
  *static_cast<uint4*>(__cvta_shared_to_generic(to)) = present ? *static_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
#endif
}

/// The same, and has the second-level cache fetch 128 bytes at once.
__device__ __forceinline__ void copy_async_cg_128(std::uint32_t to, const void* from) {
#if MOBICUDA_HAS_CP_ASYNC
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#else
  *static_cast<float4*>(__cvta_shared_to_generic(to)) = *static_cast<const float4*>(from);
#endif
}
/// `from` must be a valid address even where not `present`.
__device__ __forceinline__ void copy_async_cg_128_or_zero(void* to, const void* from, bool present) {
#if MOBICUDA_HAS_CP_ASYNC
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
#else
  *static_cast<uint4*>(to) = present ? *static_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
#endif
}

/// kBytes (4, 8 or 16) by way of the first-level cache.
template <int kBytes>
__device__ __forceinline__ void copy_async_ca_or_zero(std::uint32_t to, const void* from, bool present) {
#if MOBICUDA_HAS_CP_ASYNC
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
               "r"(present ? kBytes : 0)
               : "memory");
#else
  auto* words = static_cast<std::uint32_t*>(__cvta_shared_to_generic(to));
#pragma unroll
  for (int i = 0; i < kBytes / 4; ++i) words[i] = present ? static_cast<const std::uint32_t*>(from)[i] : 0;
#endif
}
/// A float.
__device__ __forceinline__ void copy_async_ca_or_zero(float* to, const float* from, bool present) {
#if MOBICUDA_HAS_CP_ASYNC
  copy_async_ca_or_zero<4>(shared_address(to), from, present);
#else
  *to = present ? *from : 0.0F;
#endif
}

/// Closes the group of the thread's copies since the last call.
__device__ __forceinline__ void copy_async_commit() {
#if MOBICUDA_HAS_CP_ASYNC
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most kPending of the thread's newest groups are under way.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
#if MOBICUDA_HAS_CP_ASYNC
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

/// Waits for all of the thread's copies, in closed groups or not.
__device__ __forceinline__ void copy_async_wait_all() {
#if MOBICUDA_HAS_CP_ASYNC
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

#undef MOBICUDA_HAS_CP_ASYNC

}  // namespace mobicuda::kernels::ptx
