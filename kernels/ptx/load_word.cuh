// load_global_or_zero() of one word, and of a byte: memory.cuh has those of two and four words, and says what all loads
// are.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

/// Zero, by a predicate, where `present` is 0.
__device__ __forceinline__ void load_global_or_zero(const void* from, unsigned present, std::uint32_t& word) {
  asm volatile(
      "{\n"
      "  .reg .pred inside;\n"
      "  setp.ne.u32 inside, %2, 0;\n"
      "  mov.u32 %0, 0;\n"
      "  @inside ld.global.u32 %0, [%1];\n"
      "}\n"
      : "=&r"(word)
      : "l"(from), "r"(present));
}
__device__ __forceinline__ void load_global_byte_or_zero(const void* from, unsigned present, std::uint32_t& byte) {
  asm volatile(
      "{\n"
      "  .reg .pred inside;\n"
      "  setp.ne.u32 inside, %2, 0;\n"
      "  mov.u32 %0, 0;\n"
      "  @inside ld.global.u8 %0, [%1];\n"
      "}\n"
      : "=&r"(byte)
      : "l"(from), "r"(present));
}

}  // namespace mobicuda::kernels::ptx
