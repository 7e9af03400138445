// What the wgmma variants of conv2d do by PTX (sm_90a) beside pointwise_pool/wgmma/instructions.cuh: copies of windows
// of an image, products with a matrix whose columns are contiguous, tiles on their way to y.
#pragma once

#include <cstdint>

#include "kernels/pointwise_pool/wgmma/instructions.cuh"

namespace mobicuda::kernels::conv_wgmma {

using namespace pooled_wgmma;

/// Starts to copy 64 channels from `channel` on of neighbouring output pixels, the first of which has its window at
/// (n, y, x), at the tap that is (tap_y, tap_x) away; zeros outside the image.
__device__ __forceinline__ void copy_pixels(std::uint32_t to, const CUtensorMap& map, int channel, int x, int y, int n,
                                            int tap_x, int tap_y, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5}], "
      "[%6], {%7, %8};" ::"r"(to),
      "l"(&map), "r"(channel), "r"(x), "r"(y), "r"(n), "r"(barrier), "h"(static_cast<std::uint16_t>(tap_x)),
      "h"(static_cast<std::uint16_t>(tap_y))
      : "memory");
}

__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// What this thread wrote to shared memory is there for copies that start behind the next barrier.
__device__ __forceinline__ void publish_to_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Starts to copy a box from shared memory to a tensor; what lies outside the tensor is left out.
__device__ __forceinline__ void copy_box_out(const CUtensorMap& map, int column, int group, int row,
                                             std::uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];\n\t"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(column), "r"(group), "r"(row), "r"(from)
      : "memory");
}

/// Until the copies that this thread started have read shared memory. A kernel behind this one waits for its end, and
/// so for what they write.
__device__ __forceinline__ void wait_for_copies_out() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

/// Four 8x8 matrices of half, of which a thread has pairs; thread t gives the address of row t % 8 of matrix t / 8.
__device__ __forceinline__ void load_pairs(std::uint32_t (&pairs)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void store_pairs(const std::uint32_t (&pairs)[4], std::uint32_t row) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(pairs[0]),
               "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
               : "memory");
}

// clang-format off
#define MOBICUDA_NAMES_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                         "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MOBICUDA_NAMES_1 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
                         "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MOBICUDA_NAMES_2 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
                         "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define MOBICUDA_NAMES_3 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
                         "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define MOBICUDA_SUMS_4(i) "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3])
#define MOBICUDA_SUMS_16(i) MOBICUDA_SUMS_4(i), MOBICUDA_SUMS_4((i) + 4), MOBICUDA_SUMS_4((i) + 8), MOBICUDA_SUMS_4((i) + 12)
#define MOBICUDA_SUMS_32(i) MOBICUDA_SUMS_16(i), MOBICUDA_SUMS_16((i) + 16)
#define MOBICUDA_PRODUCTS(columns, names, a_name, b_name, add_name) \
  "{\n\t.reg .pred p;\n\t.reg .b64 a, b;\n\tsetp.ne.b32 p, " add_name ", 0;\n\t" \
  "mov.b64 a, {" a_name ", 0x40000040};\n\tmov.b64 b, {" b_name ", 0x40000040};\n\t" \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.f16.f16 {" names "}, a, b, p, 1, 1, 0, 1;\n\t}"

/// Starts sums (+)= a (64 rows x 16) * b (16 x 2 * kSums): a thread has of rows lane / 4 and + 8 of its warp's 16 the
/// columns lane % 4 * 2 and + 1 of each 8. Rows of 128 bytes, of a along k, of b along the columns; the upper words of
/// both operands: chunks exchanged in groups of 8 rows, which are 1024 bytes apart.
template <int kSums>
__device__ __forceinline__ void start_row_products(float (&sums)[kSums], std::uint32_t a, std::uint32_t b, int add) {
  if constexpr (kSums == 32) {
    asm volatile(MOBICUDA_PRODUCTS("64", MOBICUDA_NAMES_0, "%32", "%33", "%34")
                 : MOBICUDA_SUMS_32(0)
                 : "r"(a), "r"(b), "r"(add));
  } else if constexpr (kSums == 64) {
    asm volatile(MOBICUDA_PRODUCTS("128", MOBICUDA_NAMES_0 ", " MOBICUDA_NAMES_1, "%64", "%65", "%66")
                 : MOBICUDA_SUMS_32(0), MOBICUDA_SUMS_32(32)
                 : "r"(a), "r"(b), "r"(add));
  } else {
    static_assert(kSums == 128);
    asm volatile(MOBICUDA_PRODUCTS("256", MOBICUDA_NAMES_0 ", " MOBICUDA_NAMES_1 ", " MOBICUDA_NAMES_2 ", " MOBICUDA_NAMES_3, "%128", "%129", "%130")
                 : MOBICUDA_SUMS_32(0), MOBICUDA_SUMS_32(32), MOBICUDA_SUMS_32(64), MOBICUDA_SUMS_32(96)
                 : "r"(a), "r"(b), "r"(add));
  }
}
// clang-format on

#undef MOBICUDA_NAMES_0
#undef MOBICUDA_NAMES_1
#undef MOBICUDA_NAMES_2
#undef MOBICUDA_NAMES_3
#undef MOBICUDA_SUMS_4
#undef MOBICUDA_SUMS_16
#undef MOBICUDA_SUMS_32
#undef MOBICUDA_PRODUCTS

}  // namespace mobicuda::kernels::conv_wgmma
