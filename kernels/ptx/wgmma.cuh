// wgmma: products of a warpgroup, in the background. D (64 x n) += A (64 x 16) * B (16 x n), half, accumulators in
// float, or the same of bytes, 32 along k, whose sums are exact: warp w of the four has rows 16 w to 16 w + 15, in
// registers as with mma.sync. Operands in shared memory are named by descriptors. sm_90a only.
//
// The order of use: wgmma_fence(), products, wgmma_commit(), wgmma_wait(), pin_accumulators() of pin.cuh before the
// accumulators are read.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

/// What the next products read and write in registers has its final values.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/// Closes the group of the products since the last call.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Waits until at most kPending groups are under way.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// The descriptor of an operand without swizzle: 8x8 matrices of 128 bytes, the two of a step of 16 of k side by side,
/// then the next columns. `shared` is the same in all lanes; the shuffle tells the compiler so.
__device__ __forceinline__ std::uint64_t wgmma_operand(std::uint32_t shared) {
  constexpr std::uint64_t kNextK = 128 >> 4;
  constexpr std::uint64_t kNextColumns = 256 >> 4;
  constexpr std::uint32_t kInBlock = 0x3ffff;  // above it an address has the block's rank in its cluster
  return ((__shfl_sync(~0U, shared, 0) & kInBlock) >> 4) | kNextK << 16 | kNextColumns << 32;
}

/// The lower word of the descriptor of an operand with rows of 128 bytes along k, swizzled by 128 bytes as tensor
/// copies do it; start_wgmma() has the upper one. Steps of 16 bytes add up. `next_panel`: of an operand whose columns
/// are contiguous, 64 of them in a panel, the bytes from one panel to the next, divided by 16. An address in a cluster
/// has the block's rank above bit 17, which is no part of a descriptor.
__device__ __forceinline__ std::uint32_t wgmma_operand_128b(std::uint32_t shared, std::uint32_t next_panel = 1) {
  return (shared & 0x3FFFFU) >> 4U | next_panel << 16U;
}

/// The upper word of such a descriptor whose groups of 8 rows are `step_bytes` apart, a multiple of 128. The swizzle is
/// of the address, so that a group may begin at any row.
__device__ __forceinline__ std::uint32_t wgmma_upper_128b(int step_bytes) {
  return 0x40000000U | static_cast<std::uint32_t>(step_bytes) >> 4U;
}

// clang-format off
// Names of the first accumulators, and the operands that they are.
#define MOBICUDA_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MOBICUDA_NAMES_16 MOBICUDA_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define MOBICUDA_NAMES_24 MOBICUDA_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define MOBICUDA_NAMES_32 MOBICUDA_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MOBICUDA_NAMES_40 MOBICUDA_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define MOBICUDA_NAMES_48 MOBICUDA_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define MOBICUDA_NAMES_56 MOBICUDA_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define MOBICUDA_NAMES_64 MOBICUDA_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define MOBICUDA_NAMES_72 MOBICUDA_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define MOBICUDA_NAMES_80 MOBICUDA_NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define MOBICUDA_NAMES_88 MOBICUDA_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define MOBICUDA_NAMES_96 MOBICUDA_NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define MOBICUDA_NAMES_104 MOBICUDA_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define MOBICUDA_NAMES_112 MOBICUDA_NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define MOBICUDA_NAMES_120 MOBICUDA_NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define MOBICUDA_NAMES_128 MOBICUDA_NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define MOBICUDA_NAMES_28 MOBICUDA_NAMES_24 ", %24, %25, %26, %27"
#define MOBICUDA_NAMES_52 MOBICUDA_NAMES_48 ", %48, %49, %50, %51"
#define MOBICUDA_NAMES_76 MOBICUDA_NAMES_72 ", %72, %73, %74, %75"
#define MOBICUDA_NAMES_100 MOBICUDA_NAMES_96 ", %96, %97, %98, %99"
#define MOBICUDA_NAMES_124 MOBICUDA_NAMES_120 ", %120, %121, %122, %123"
#define MOBICUDA_D_4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define MOBICUDA_D_8(i) MOBICUDA_D_4(i), MOBICUDA_D_4((i) + 4)
#define MOBICUDA_D_16(i) MOBICUDA_D_8(i), MOBICUDA_D_8((i) + 8)
#define MOBICUDA_D_24(i) MOBICUDA_D_16(i), MOBICUDA_D_8((i) + 16)
#define MOBICUDA_D_32(i) MOBICUDA_D_16(i), MOBICUDA_D_16((i) + 16)
#define MOBICUDA_D_64(i) MOBICUDA_D_32(i), MOBICUDA_D_32((i) + 32)
#define MOBICUDA_D_96(i) MOBICUDA_D_64(i), MOBICUDA_D_32((i) + 64)

/// n = 32, a in registers; `first`: d = a * b.
__device__ __forceinline__ void start_wgmma(float (&d)[16], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                            std::uint32_t a3, std::uint64_t b, bool first) {
  asm volatile(
      "{\n.reg .pred more;\n"
      "setp.ne.b32 more, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {" MOBICUDA_NAMES_16 "}, "
      "{%16, %17, %18, %19}, %20, more, 1, 1, 0;\n}"
      : MOBICUDA_D_16(0)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(first ? 0 : 1));
}

/// The same with a in shared memory too.
__device__ __forceinline__ void start_wgmma(float (&d)[16], std::uint64_t a, std::uint64_t b, bool first) {
  asm volatile(
      "{\n.reg .pred more;\n"
      "setp.ne.b32 more, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {" MOBICUDA_NAMES_16 "}, "
      "%16, %17, more, 1, 1, 0, 0;\n}"
      : MOBICUDA_D_16(0)
      : "l"(a), "l"(b), "r"(first ? 0 : 1));
}

#define MOBICUDA_WGMMA_A(columns, names, a_names, b_name) \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.f16.f16 {" names "}, {" a_names "}, " b_name ", 1, 1, 1, 0;"

/// n = 2 * kCount, a multiple of 16; a in registers.
template <int kCount>
__device__ __forceinline__ void start_wgmma(float (&d)[kCount], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                            std::uint32_t a3, std::uint64_t b) {
  if constexpr (kCount == 8) {
    asm volatile(MOBICUDA_WGMMA_A("16", MOBICUDA_NAMES_8, "%8, %9, %10, %11", "%12")
                 : MOBICUDA_D_8(0)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 16) {
    asm volatile(MOBICUDA_WGMMA_A("32", MOBICUDA_NAMES_16, "%16, %17, %18, %19", "%20")
                 : MOBICUDA_D_16(0)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 24) {
    asm volatile(MOBICUDA_WGMMA_A("48", MOBICUDA_NAMES_24, "%24, %25, %26, %27", "%28")
                 : MOBICUDA_D_24(0)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 32) {
    asm volatile(MOBICUDA_WGMMA_A("64", MOBICUDA_NAMES_32, "%32, %33, %34, %35", "%36")
                 : MOBICUDA_D_32(0)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 40) {
    asm volatile(MOBICUDA_WGMMA_A("80", MOBICUDA_NAMES_40, "%40, %41, %42, %43", "%44")
                 : MOBICUDA_D_32(0), MOBICUDA_D_8(32)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 48) {
    asm volatile(MOBICUDA_WGMMA_A("96", MOBICUDA_NAMES_48, "%48, %49, %50, %51", "%52")
                 : MOBICUDA_D_32(0), MOBICUDA_D_16(32)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 56) {
    asm volatile(MOBICUDA_WGMMA_A("112", MOBICUDA_NAMES_56, "%56, %57, %58, %59", "%60")
                 : MOBICUDA_D_32(0), MOBICUDA_D_24(32)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 64) {
    asm volatile(MOBICUDA_WGMMA_A("128", MOBICUDA_NAMES_64, "%64, %65, %66, %67", "%68")
                 : MOBICUDA_D_64(0)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 72) {
    asm volatile(MOBICUDA_WGMMA_A("144", MOBICUDA_NAMES_72, "%72, %73, %74, %75", "%76")
                 : MOBICUDA_D_64(0), MOBICUDA_D_8(64)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 80) {
    asm volatile(MOBICUDA_WGMMA_A("160", MOBICUDA_NAMES_80, "%80, %81, %82, %83", "%84")
                 : MOBICUDA_D_64(0), MOBICUDA_D_16(64)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 88) {
    asm volatile(MOBICUDA_WGMMA_A("176", MOBICUDA_NAMES_88, "%88, %89, %90, %91", "%92")
                 : MOBICUDA_D_64(0), MOBICUDA_D_24(64)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 96) {
    asm volatile(MOBICUDA_WGMMA_A("192", MOBICUDA_NAMES_96, "%96, %97, %98, %99", "%100")
                 : MOBICUDA_D_96(0)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 104) {
    asm volatile(MOBICUDA_WGMMA_A("208", MOBICUDA_NAMES_104, "%104, %105, %106, %107", "%108")
                 : MOBICUDA_D_96(0), MOBICUDA_D_8(96)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 112) {
    asm volatile(MOBICUDA_WGMMA_A("224", MOBICUDA_NAMES_112, "%112, %113, %114, %115", "%116")
                 : MOBICUDA_D_96(0), MOBICUDA_D_16(96)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else if constexpr (kCount == 120) {
    asm volatile(MOBICUDA_WGMMA_A("240", MOBICUDA_NAMES_120, "%120, %121, %122, %123", "%124")
                 : MOBICUDA_D_96(0), MOBICUDA_D_24(96)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  } else {
    static_assert(kCount == 128);
    asm volatile(MOBICUDA_WGMMA_A("256", MOBICUDA_NAMES_128, "%128, %129, %130, %131", "%132")
                 : MOBICUDA_D_96(0), MOBICUDA_D_32(96)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
  }
}

// Both operands in shared memory, swizzled by 128 bytes in groups of 8 rows, which are 1024 bytes apart: the upper words.
#define MOBICUDA_WGMMA(columns, names, a_name, b_name, add_name, transposed_b) \
  "{\n\t.reg .pred p;\n\t.reg .b64 a, b;\n\tsetp.ne.b32 p, " add_name ", 0;\n\t" \
  "mov.b64 a, {" a_name ", 0x40000040};\n\tmov.b64 b, {" b_name ", 0x40000040};\n\t" \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.f16.f16 {" names "}, a, b, p, 1, 1, 0, " transposed_b ";\n\t}"

/// n = 2 * kCount; `add` 0: d = a * b. Rows of both operands run along k. `a`, `b`: wgmma_operand_128b().
template <int kCount>
__device__ __forceinline__ void start_wgmma(float (&d)[kCount], std::uint32_t a, std::uint32_t b, int add) {
  if constexpr (kCount == 16) {
    asm volatile(MOBICUDA_WGMMA("32", MOBICUDA_NAMES_16, "%16", "%17", "%18", "0")
                 : MOBICUDA_D_16(0)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 32) {
    asm volatile(MOBICUDA_WGMMA("64", MOBICUDA_NAMES_32, "%32", "%33", "%34", "0")
                 : MOBICUDA_D_32(0)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 48) {
    asm volatile(MOBICUDA_WGMMA("96", MOBICUDA_NAMES_48, "%48", "%49", "%50", "0")
                 : MOBICUDA_D_32(0), MOBICUDA_D_16(32)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 64) {
    asm volatile(MOBICUDA_WGMMA("128", MOBICUDA_NAMES_64, "%64", "%65", "%66", "0")
                 : MOBICUDA_D_64(0)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 80) {
    asm volatile(MOBICUDA_WGMMA("160", MOBICUDA_NAMES_80, "%80", "%81", "%82", "0")
                 : MOBICUDA_D_64(0), MOBICUDA_D_16(64)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 96) {
    asm volatile(MOBICUDA_WGMMA("192", MOBICUDA_NAMES_96, "%96", "%97", "%98", "0")
                 : MOBICUDA_D_96(0)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 112) {
    asm volatile(MOBICUDA_WGMMA("224", MOBICUDA_NAMES_112, "%112", "%113", "%114", "0")
                 : MOBICUDA_D_96(0), MOBICUDA_D_16(96)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 128) {
    asm volatile(MOBICUDA_WGMMA("256", MOBICUDA_NAMES_128, "%128", "%129", "%130", "0")
                 : MOBICUDA_D_96(0), MOBICUDA_D_32(96)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 28) {
    asm volatile(MOBICUDA_WGMMA("56", MOBICUDA_NAMES_28, "%28", "%29", "%30", "0")
                 : MOBICUDA_D_24(0), MOBICUDA_D_4(24)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 52) {
    asm volatile(MOBICUDA_WGMMA("104", MOBICUDA_NAMES_52, "%52", "%53", "%54", "0")
                 : MOBICUDA_D_24(0), MOBICUDA_D_24(24), MOBICUDA_D_4(48)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 76) {
    asm volatile(MOBICUDA_WGMMA("152", MOBICUDA_NAMES_76, "%76", "%77", "%78", "0")
                 : MOBICUDA_D_24(0), MOBICUDA_D_24(24), MOBICUDA_D_24(48), MOBICUDA_D_4(72)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 100) {
    asm volatile(MOBICUDA_WGMMA("200", MOBICUDA_NAMES_100, "%100", "%101", "%102", "0")
                 : MOBICUDA_D_32(0), MOBICUDA_D_32(32), MOBICUDA_D_32(64), MOBICUDA_D_4(96)
                 : "r"(a), "r"(b), "r"(add));
  } else {
    static_assert(kCount == 124);
    asm volatile(MOBICUDA_WGMMA("248", MOBICUDA_NAMES_124, "%124", "%125", "%126", "0")
                 : MOBICUDA_D_32(0), MOBICUDA_D_32(32), MOBICUDA_D_32(64), MOBICUDA_D_24(96), MOBICUDA_D_4(120)
                 : "r"(a), "r"(b), "r"(add));
  }
}

/// Rows of b run along its columns.
template <int kCount>
__device__ __forceinline__ void start_wgmma_transposed_b(float (&d)[kCount], std::uint32_t a, std::uint32_t b, int add) {
  if constexpr (kCount == 32) {
    asm volatile(MOBICUDA_WGMMA("64", MOBICUDA_NAMES_32, "%32", "%33", "%34", "1")
                 : MOBICUDA_D_32(0)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 64) {
    asm volatile(MOBICUDA_WGMMA("128", MOBICUDA_NAMES_64, "%64", "%65", "%66", "1")
                 : MOBICUDA_D_32(0), MOBICUDA_D_32(32)
                 : "r"(a), "r"(b), "r"(add));
  } else {
    static_assert(kCount == 128);
    asm volatile(MOBICUDA_WGMMA("256", MOBICUDA_NAMES_128, "%128", "%129", "%130", "1")
                 : MOBICUDA_D_32(0), MOBICUDA_D_32(32), MOBICUDA_D_32(64), MOBICUDA_D_32(96)
                 : "r"(a), "r"(b), "r"(add));
  }
}

#define MOBICUDA_WGMMA_TRANSPOSED_A(columns, names, a_name, b_name, b_upper_name, add_name) \
  "{\n\t.reg .pred p;\n\t.reg .b64 a, b;\n\tsetp.ne.b32 p, " add_name ", 0;\n\t" \
  "mov.b64 a, {" a_name ", 0x40000040};\n\tmov.b64 b, {" b_name ", " b_upper_name "};\n\t" \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.f16.f16 {" names "}, a, b, p, 1, 1, 1, 0;\n\t}"

/// Rows of a run along its own 64; those of b along k. `b_upper`: wgmma_upper_128b().
template <int kCount>
__device__ __forceinline__ void start_wgmma_transposed_a(float (&d)[kCount], std::uint32_t a, std::uint32_t b,
                                                         std::uint32_t b_upper, int add) {
  if constexpr (kCount == 56) {
    asm volatile(MOBICUDA_WGMMA_TRANSPOSED_A("112", MOBICUDA_NAMES_56, "%56", "%57", "%58", "%59")
                 : MOBICUDA_D_32(0), MOBICUDA_D_24(32)
                 : "r"(a), "r"(b), "r"(b_upper), "r"(add));
  } else {
    static_assert(kCount == 112);
    asm volatile(MOBICUDA_WGMMA_TRANSPOSED_A("224", MOBICUDA_NAMES_112, "%112", "%113", "%114", "%115")
                 : MOBICUDA_D_96(0), MOBICUDA_D_16(96)
                 : "r"(a), "r"(b), "r"(b_upper), "r"(add));
  }
}

#define MOBICUDA_R_8(i) "+r"(d[i]), "+r"(d[(i) + 1]), "+r"(d[(i) + 2]), "+r"(d[(i) + 3]), \
  "+r"(d[(i) + 4]), "+r"(d[(i) + 5]), "+r"(d[(i) + 6]), "+r"(d[(i) + 7])
#define MOBICUDA_R_32(i) MOBICUDA_R_8(i), MOBICUDA_R_8((i) + 8), MOBICUDA_R_8((i) + 16), MOBICUDA_R_8((i) + 24)
#define MOBICUDA_WGMMA_S8(columns, names, a_name, b_name, add_name) \
  "{\n\t.reg .pred p;\n\t.reg .b64 a, b;\n\tsetp.ne.b32 p, " add_name ", 0;\n\t" \
  "mov.b64 a, {" a_name ", 0x40000040};\n\tmov.b64 b, {" b_name ", 0x40000040};\n\t" \
  "wgmma.mma_async.sync.aligned.m64n" columns "k32.s32.s8.s8 {" names "}, a, b, p;\n\t}"

/// Of bytes, n = 2 * kCount, sums modulo 2^32. Rows of both operands run along k. `a`, `b`: wgmma_operand_128b().
template <int kCount>
__device__ __forceinline__ void start_wgmma_s8(std::int32_t (&d)[kCount], std::uint32_t a, std::uint32_t b, int add) {
  if constexpr (kCount == 32) {
    asm volatile(MOBICUDA_WGMMA_S8("64", MOBICUDA_NAMES_32, "%32", "%33", "%34")
                 : MOBICUDA_R_32(0)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kCount == 64) {
    asm volatile(MOBICUDA_WGMMA_S8("128", MOBICUDA_NAMES_64, "%64", "%65", "%66")
                 : MOBICUDA_R_32(0), MOBICUDA_R_32(32)
                 : "r"(a), "r"(b), "r"(add));
  } else {
    static_assert(kCount == 128);
    asm volatile(MOBICUDA_WGMMA_S8("256", MOBICUDA_NAMES_128, "%128", "%129", "%130")
                 : MOBICUDA_R_32(0), MOBICUDA_R_32(32), MOBICUDA_R_32(64), MOBICUDA_R_32(96)
                 : "r"(a), "r"(b), "r"(add));
  }
}
// clang-format on

#undef MOBICUDA_R_8
#undef MOBICUDA_R_32
#undef MOBICUDA_WGMMA_S8
#undef MOBICUDA_WGMMA_TRANSPOSED_A
#undef MOBICUDA_NAMES_8
#undef MOBICUDA_NAMES_16
#undef MOBICUDA_NAMES_24
#undef MOBICUDA_NAMES_28
#undef MOBICUDA_NAMES_32
#undef MOBICUDA_NAMES_40
#undef MOBICUDA_NAMES_48
#undef MOBICUDA_NAMES_52
#undef MOBICUDA_NAMES_56
#undef MOBICUDA_NAMES_64
#undef MOBICUDA_NAMES_72
#undef MOBICUDA_NAMES_76
#undef MOBICUDA_NAMES_80
#undef MOBICUDA_NAMES_88
#undef MOBICUDA_NAMES_96
#undef MOBICUDA_NAMES_100
#undef MOBICUDA_NAMES_104
#undef MOBICUDA_NAMES_112
#undef MOBICUDA_NAMES_120
#undef MOBICUDA_NAMES_124
#undef MOBICUDA_NAMES_128
#undef MOBICUDA_D_4
#undef MOBICUDA_D_8
#undef MOBICUDA_D_16
#undef MOBICUDA_D_24
#undef MOBICUDA_D_32
#undef MOBICUDA_D_64
#undef MOBICUDA_D_96
#undef MOBICUDA_WGMMA_A
#undef MOBICUDA_WGMMA

}  // namespace mobicuda::kernels::ptx
