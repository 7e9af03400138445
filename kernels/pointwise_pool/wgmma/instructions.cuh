// What the wgmma variant of pointwise_pool does by PTX (sm_90a): barriers in shared memory, copies of boxes of tensors,
// products of a group of four warps. Addresses of shared memory are 32 bits.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace mobicuda::kernels::pooled_wgmma {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// The initial state of the barriers is there for the copies and for the other block of the cluster.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void expect_bytes(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// At the same place in block `rank` of the cluster, which must not have ended when the arrival gets there.
__device__ __forceinline__ void arrive_at(std::uint32_t barrier, int rank) {
  asm volatile(
      "{\n\t.reg .b32 remote;\n\tmapa.shared::cluster.u32 remote, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// Until the phase of that parity is over.
__device__ __forceinline__ void wait_for(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n\t.reg .pred p;\nagain:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t"
      "@!p bra again;\n\t}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ int rank_in_cluster() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Named barriers of the groups of warps.
__device__ __forceinline__ void sync_groups(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void arrive_groups(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void prefetch(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Starts to copy a box of a matrix; `barrier` counts its bytes.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int column, int row,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

/// To the same place in all kBlocks blocks of the cluster, at each to be counted by the barrier in the same place.
template <int kBlocks>
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int column, int row, int picture,
                                         std::uint32_t barrier) {
  if constexpr (kBlocks == 1) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
            "r"(to),
        "l"(&map), "r"(column), "r"(row), "r"(picture), "r"(barrier)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
        "l"(&map), "r"(column), "r"(row), "r"(picture), "r"(barrier),
        "h"(static_cast<std::uint16_t>((1U << kBlocks) - 1U))
        : "memory");
  }
}

/// Names a matrix with rows of 128 bytes whose chunks of 16 are exchanged as the copies do it. Steps of 16 bytes add
/// up.
__device__ __forceinline__ std::uint32_t matrix_at(std::uint32_t address) {
  return (address & 0x3FFFFU) >> 4U | 1U << 16U;
}

/// What the next products read and write has its final values.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void close_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Until at most kPending groups of products are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Nothing that uses the sums is moved across this.
template <int kSums>
__device__ __forceinline__ void settle(float (&sums)[kSums]) {
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

// clang-format off
#define MOBICUDA_NAMES_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, " \
                         "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
#define MOBICUDA_NAMES_1 "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, " \
                         "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
#define MOBICUDA_NAMES_2 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, " \
                         "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, "
#define MOBICUDA_NAMES_3 "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
                         "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
#define MOBICUDA_NAMES_4 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, " \
                         "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, "
#define MOBICUDA_SUMS_4(i) "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3])
#define MOBICUDA_SUMS_24(i) MOBICUDA_SUMS_4(i), MOBICUDA_SUMS_4((i) + 4), MOBICUDA_SUMS_4((i) + 8), \
                            MOBICUDA_SUMS_4((i) + 12), MOBICUDA_SUMS_4((i) + 16), MOBICUDA_SUMS_4((i) + 20)
#define MOBICUDA_PRODUCTS(columns, names, weights_name, pixels_name, add_name) \
  "{\n\t.reg .pred p;\n\t.reg .b64 w, x;\n\tsetp.ne.b32 p, " add_name ", 0;\n\t" \
  "mov.b64 w, {" weights_name ", 0x40000040};\n\tmov.b64 x, {" pixels_name ", 0x40000040};\n\t" \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.f16.f16 {" names "}, " \
  "w, x, p, 1, 1, 0, 0;\n\t}"

/// Starts sums[kSums] (+)= weights (64 rows x 16) * pixels (16 x 2 * kSums): a thread has of rows lane / 4 and + 8 of its
/// warp's 16 the columns lane % 4 * 2 and + 1 of each 8. The upper words of both matrices: chunks exchanged in groups of
/// 8 rows, which are 1024 bytes apart.
template <int kSums>
__device__ __forceinline__ void start_products(float (&sums)[kSums], std::uint32_t weights, std::uint32_t pixels, int add) {
  if constexpr (kSums == 28) {
    asm volatile(MOBICUDA_PRODUCTS("56", MOBICUDA_NAMES_0 "%24, %25, %26, %27", "%28", "%29", "%30")
                 : MOBICUDA_SUMS_24(0), MOBICUDA_SUMS_4(24)
                 : "r"(weights), "r"(pixels), "r"(add));
  } else if constexpr (kSums == 52) {
    asm volatile(MOBICUDA_PRODUCTS("104", MOBICUDA_NAMES_0 MOBICUDA_NAMES_1 "%48, %49, %50, %51", "%52", "%53", "%54")
                 : MOBICUDA_SUMS_24(0), MOBICUDA_SUMS_24(24), MOBICUDA_SUMS_4(48)
                 : "r"(weights), "r"(pixels), "r"(add));
  } else if constexpr (kSums == 76) {
    asm volatile(MOBICUDA_PRODUCTS("152", MOBICUDA_NAMES_0 MOBICUDA_NAMES_1 MOBICUDA_NAMES_2 "%72, %73, %74, %75", "%76", "%77", "%78")
                 : MOBICUDA_SUMS_24(0), MOBICUDA_SUMS_24(24), MOBICUDA_SUMS_24(48), MOBICUDA_SUMS_4(72)
                 : "r"(weights), "r"(pixels), "r"(add));
  } else if constexpr (kSums == 100) {
    asm volatile(MOBICUDA_PRODUCTS("200", MOBICUDA_NAMES_0 MOBICUDA_NAMES_1 MOBICUDA_NAMES_2 MOBICUDA_NAMES_3 "%96, %97, %98, %99", "%100", "%101", "%102")
                 : MOBICUDA_SUMS_24(0), MOBICUDA_SUMS_24(24), MOBICUDA_SUMS_24(48), MOBICUDA_SUMS_24(72), MOBICUDA_SUMS_4(96)
                 : "r"(weights), "r"(pixels), "r"(add));
  } else {
    static_assert(kSums == 124);
    asm volatile(MOBICUDA_PRODUCTS("248", MOBICUDA_NAMES_0 MOBICUDA_NAMES_1 MOBICUDA_NAMES_2 MOBICUDA_NAMES_3 MOBICUDA_NAMES_4 "%120, %121, %122, %123", "%124", "%125", "%126")
                 : MOBICUDA_SUMS_24(0), MOBICUDA_SUMS_24(24), MOBICUDA_SUMS_24(48), MOBICUDA_SUMS_24(72), MOBICUDA_SUMS_24(96), MOBICUDA_SUMS_4(120)
                 : "r"(weights), "r"(pixels), "r"(add));
  }
}
// clang-format on

#undef MOBICUDA_NAMES_0
#undef MOBICUDA_NAMES_1
#undef MOBICUDA_NAMES_2
#undef MOBICUDA_NAMES_3
#undef MOBICUDA_NAMES_4
#undef MOBICUDA_SUMS_4
#undef MOBICUDA_SUMS_24
#undef MOBICUDA_PRODUCTS

}  // namespace mobicuda::kernels::pooled_wgmma
