// pin(): has a value computed here. The compiler would leave it for where it is used, behind the wait for the
// predecessor or in a loop, and compute it anew for each use. There are three, as compilers look through them to
// different degrees:
//   pin()               an empty statement that may change the value: the front end takes the value as it is, in its
//                       place among volatile statements. ptxas, which sees no statement, may still move the arithmetic.
//   pin_accumulators()  the same, which also clobbers memory: no use of the registers that wgmma reads and writes in
//                       the background is moved across.
//   pin_by_memory()     by way of shared memory, volatile: ptxas does not move this either. Costs a store and a load.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

/// An integer or a pointer.
template <class T>
__device__ __forceinline__ void pin(T& value) {
  if constexpr (sizeof(T) == 8) {  // NOLINT(bugprone-branch-clone): the instructions differ
    asm volatile("" : "+l"(value));
  } else {
    asm volatile("" : "+r"(value));
  }
}

template <int kCount>
__device__ __forceinline__ void pin_accumulators(float (&values)[kCount]) {
#pragma unroll
  for (float& value : values) asm volatile("" : "+f"(value)::"memory");
}
template <int kCount>
__device__ __forceinline__ void pin_accumulators(std::int32_t (&values)[kCount]) {
#pragma unroll
  for (std::int32_t& value : values) asm volatile("" : "+r"(value)::"memory");
}

/// `scratch`: 8 bytes of shared memory that nobody else uses.
template <class T>
__device__ __forceinline__ void pin_by_memory(std::uint32_t scratch, T& value) {
  if constexpr (sizeof(T) == 8) {  // NOLINT(bugprone-branch-clone): the instructions differ
    asm volatile("st.volatile.shared.u64 [%1], %0;\n\tld.volatile.shared.u64 %0, [%1];"
                 : "+l"(value)
                 : "r"(scratch)
                 : "memory");
  } else {
    asm volatile("st.volatile.shared.u32 [%1], %0;\n\tld.volatile.shared.u32 %0, [%1];"
                 : "+r"(value)
                 : "r"(scratch)
                 : "memory");
  }
}

template <class T, int kCount>
__device__ __forceinline__ void pin_by_memory(std::uint32_t scratch, T (&values)[kCount]) {
#pragma unroll
  for (T& value : values) pin_by_memory(scratch, value);
}

}  // namespace mobicuda::kernels::ptx
