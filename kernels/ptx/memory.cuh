// Loads and stores. All are volatile assembly, which the compiler keeps in order among volatile statements, while it
// moves ordinary accesses: loads of read-only memory behind wait_for_predecessor(), and with them the time that
// programmatic launches are to save. Three kinds:
//   load_global       order as said; without a memory clobber, so ordinary accesses may pass it;
//   load_global_nc    ld.global.nc, through the read-only cache: for what no kernel of the stream writes, as weights;
//   ..._volatile      PTX's own volatile as well, whose order ptxas keeps too.
// Accesses of shared memory, by its 32-bit addresses, and stores clobber memory: no access passes them.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

/// The 32-bit address of what a generic pointer points to in shared memory.
__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// What a kernel of the stream may have written, or not. T: std::uint16_t, std::uint32_t, uint2, uint4 or float.
template <class T>
__device__ __forceinline__ T load_global(const void* from) {
  T value;
  if constexpr (std::is_same_v<T, std::uint16_t>) {  // NOLINT(bugprone-branch-clone): the instructions differ
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(value) : "l"(from));
  } else if constexpr (std::is_same_v<T, float>) {
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(from));
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(from));
  } else if constexpr (std::is_same_v<T, uint2>) {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "l"(from));
  } else {
    static_assert(std::is_same_v<T, uint4>);
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from));
  }
  return value;
}

/// 1, 2 or 4 words.
template <int kWords>
__device__ __forceinline__ void load_global_words(const unsigned char* from, std::uint32_t* words) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 1) {
    words[0] = load_global<std::uint32_t>(from);
  } else if constexpr (kWords == 2) {
    const auto pair = load_global<uint2>(from);
    words[0] = pair.x;
    words[1] = pair.y;
  } else {
    const auto four = load_global<uint4>(from);
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
  }
}

/// Zeros, behind a branch, where not `present`.
template <int kWords>
__device__ __forceinline__ void load_global_words_if(bool present, const unsigned char* from, std::uint32_t* words) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = 0;
  if (present) load_global_words<kWords>(from, words);
}

/// Zeros, by a predicate, where `present` is 0.
__device__ __forceinline__ void load_global_or_zero(const void* from, unsigned present, uint2& words) {
  asm volatile(
      "{\n"
      "  .reg .pred inside;\n"
      "  setp.ne.u32 inside, %3, 0;\n"
      "  mov.u32 %0, 0;\n"
      "  mov.u32 %1, 0;\n"
      "  @inside ld.global.v2.u32 {%0, %1}, [%2];\n"
      "}\n"
      : "=&r"(words.x), "=&r"(words.y)
      : "l"(from), "r"(present));
}
__device__ __forceinline__ void load_global_or_zero(const void* from, unsigned present, uint4& words) {
  asm volatile(
      "{\n"
      "  .reg .pred inside;\n"
      "  setp.ne.u32 inside, %5, 0;\n"
      "  mov.u32 %0, 0;\n"
      "  mov.u32 %1, 0;\n"
      "  mov.u32 %2, 0;\n"
      "  mov.u32 %3, 0;\n"
      "  @inside ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}\n"
      : "=&r"(words.x), "=&r"(words.y), "=&r"(words.z), "=&r"(words.w)
      : "l"(from), "r"(present));
}

/// 16 bytes at `from` + kOffset, which is part of the instruction: loads at several offsets share one address, wherever
/// the compiler would have computed theirs.
template <int kOffset>
__device__ __forceinline__ void load_global_at(const void* from, uint4& words) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4 + %5];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from), "n"(kOffset));
}

/// What no kernel of the stream writes. T: uint4, float, float2 or float4.
template <class T>
__device__ __forceinline__ T load_global_nc(const void* from) {
  T value;
  if constexpr (std::is_same_v<T, float>) {
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(from));
  } else if constexpr (std::is_same_v<T, float2>) {
    asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "l"(from));
  } else if constexpr (std::is_same_v<T, float4>) {
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(from));
  } else {
    static_assert(std::is_same_v<T, uint4>);
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from));
  }
  return value;
}

/// Starts to bring the line of 128 bytes around `from` into L2.
__device__ __forceinline__ void prefetch_to_l2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/// Zeros, behind a branch, where not `present`.
__device__ __forceinline__ void load_global_volatile_if(bool present, std::uintptr_t from, std::uint32_t& word) {
  word = 0;
  if (present) asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
}
__device__ __forceinline__ void load_global_volatile_if(bool present, std::uintptr_t from, std::uint32_t (&words)[2]) {
  words[0] = words[1] = 0;
  if (!present) return;
  asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(from) : "memory");
}

/// 1, 2 or 4 words.
template <int kWords>
__device__ __forceinline__ void store_global(void* to, const std::uint32_t (&words)[kWords]) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 1) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(words[0]) : "memory");
  } else if constexpr (kWords == 2) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(words[0]), "r"(words[1]) : "memory");
  } else {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
  }
}

/// Where `present`, by a predicate: a branch around a store would be longer than it.
template <int kWords>
__device__ __forceinline__ void store_global_if(bool present, void* to, const std::uint32_t (&words)[kWords]) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  const int p = present ? 1 : 0;
  if constexpr (kWords == 1) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p st.global.u32 [%1], %2; }" ::"r"(p), "l"(to), "r"(words[0])
                 : "memory");
  } else if constexpr (kWords == 2) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p st.global.v2.u32 [%1], {%2, %3}; }" ::"r"(p), "l"(to),
                 "r"(words[0]), "r"(words[1])
                 : "memory");
  } else {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p st.global.v4.u32 [%1], {%2, %3, %4, %5}; }" ::"r"(p),
                 "l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  }
}

/// T: std::uint32_t, uint2, uint4, float2, float4 or a pointer.
template <class T>
__device__ __forceinline__ T load_shared(std::uint32_t from) {
  T value;
  // NOLINTBEGIN(bugprone-branch-clone): the instructions differ
  if constexpr (std::is_same_v<T, std::uint32_t>) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  } else if constexpr (std::is_same_v<T, uint2>) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(from) : "memory");
  } else if constexpr (std::is_same_v<T, uint4>) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(from)
                 : "memory");
  } else if constexpr (std::is_same_v<T, float2>) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(from) : "memory");
  } else if constexpr (std::is_same_v<T, float4>) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(from)
                 : "memory");
  } else {
    static_assert(std::is_pointer_v<T>);
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(value) : "r"(from) : "memory");
  }
  // NOLINTEND(bugprone-branch-clone)
  return value;
}

/// 1, 2 or 4 words.
template <int kWords>
__device__ __forceinline__ void load_shared_words(std::uint32_t from, std::uint32_t* words) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 1) {
    words[0] = load_shared<std::uint32_t>(from);
  } else if constexpr (kWords == 2) {
    const auto pair = load_shared<uint2>(from);
    words[0] = pair.x;
    words[1] = pair.y;
  } else {
    const auto four = load_shared<uint4>(from);
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
  }
}

__device__ __forceinline__ void store_shared(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}
__device__ __forceinline__ void store_shared(std::uint32_t to, const std::uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}
__device__ __forceinline__ void store_shared(std::uint32_t to, float2 pair) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(pair.x), "f"(pair.y) : "memory");
}
__device__ __forceinline__ void store_shared(std::uint32_t to, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}
__device__ __forceinline__ void store_shared(std::uint32_t to, const unsigned char* pointer) {
  asm volatile("st.shared.u64 [%0], %1;" ::"r"(to), "l"(pointer) : "memory");
}

/// By a predicate: the compiler computes `to` where it does so best, not behind a branch.
__device__ __forceinline__ void store_shared_if(bool present, std::uint32_t to, uint2 words) {
  asm volatile(
      "{\n"
      "  .reg .pred present;\n"
      "  setp.ne.u32 present, %0, 0;\n"
      "  @present st.shared.v2.u32 [%1], {%2, %3};\n"
      "}\n" ::"r"(static_cast<unsigned>(present)),
      "r"(to), "r"(words.x), "r"(words.y)
      : "memory");
}

/// The lower half of `word`.
__device__ __forceinline__ void store_shared_half(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(static_cast<std::uint16_t>(word)) : "memory");
}

/// 16 bytes of zeros.
__device__ __forceinline__ void clear_shared(std::uint32_t to) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
}

__device__ __forceinline__ void store_shared_volatile(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

}  // namespace mobicuda::kernels::ptx
