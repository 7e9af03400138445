// Instructions of sm_90a that the image kernels for 7x7 pictures use: products of a warpgroup, bulk copies, barriers.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "kernels/inverted_residual/cluster/memory.cuh"

namespace mobicuda::kernels::inverted_image7 {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Products of a warpgroup: rows 16 w to 16 w + 15 are warp w's, in registers as with mma.sync.

/// Before the first product after registers of products have been written.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Waits until at most `kPending` of the committed groups are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving accesses of the registers across.
template <int kSums>
__device__ __forceinline__ void settle(float (&sum)[kSums]) {
#pragma unroll
  for (float& value : sum) asm volatile("" : "+f"(value)::"memory");
}

/// An operand in shared memory: 8x8 matrices of 128 bytes, the two of a k16 step side by side, then the next columns.
__device__ __forceinline__ std::uint64_t operand(std::uint32_t shared) {
  constexpr std::uint64_t kNextK = 128 >> 4;
  constexpr std::uint64_t kNextColumns = 256 >> 4;
  constexpr std::uint32_t kInBlock = 0x3ffff;  // above it an address has the block's rank in its cluster
  return ((__shfl_sync(~0U, shared, 0) & kInBlock) >> 4) | kNextK << 16 | kNextColumns << 32;
}

/// sum += a (64 x 16) * b (16 x 32), in the background; `first`: sum = a * b.
__device__ __forceinline__ void multiply_add_async(float (&sum)[16], std::uint32_t a0, std::uint32_t a1,
                                                   std::uint32_t a2, std::uint32_t a3, std::uint64_t b, bool first) {
  asm volatile(
      "{\n.reg .pred more;\n"
      "setp.ne.b32 more, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, more, 1, 1, 0;\n}"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
        "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]),
        "+f"(sum[15])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(first ? 0 : 1));
}

/// The same with `a` in shared memory too.
__device__ __forceinline__ void multiply_add_async(float (&sum)[16], std::uint64_t a, std::uint64_t b, bool first) {
  asm volatile(
      "{\n.reg .pred more;\n"
      "setp.ne.b32 more, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, more, 1, 1, 0, 0;\n}"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
        "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]),
        "+f"(sum[15])
      : "l"(a), "l"(b), "r"(first ? 0 : 1));
}

/// sum += a (64 x 16) * b (16 x 160), in the background.
__device__ __forceinline__ void multiply_add_async(float (&sum)[80], std::uint32_t a0, std::uint32_t a1,
                                                   std::uint32_t a2, std::uint32_t a3, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n160k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79}, "
      "{%80, %81, %82, %83}, %84, 1, 1, 1, 0;"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
        "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]),
        "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]),
        "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]),
        "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31]), "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]),
        "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]), "+f"(sum[40]), "+f"(sum[41]), "+f"(sum[42]),
        "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]), "+f"(sum[48]), "+f"(sum[49]),
        "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]), "+f"(sum[54]), "+f"(sum[55]), "+f"(sum[56]),
        "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]), "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63]),
        "+f"(sum[64]), "+f"(sum[65]), "+f"(sum[66]), "+f"(sum[67]), "+f"(sum[68]), "+f"(sum[69]), "+f"(sum[70]),
        "+f"(sum[71]), "+f"(sum[72]), "+f"(sum[73]), "+f"(sum[74]), "+f"(sum[75]), "+f"(sum[76]), "+f"(sum[77]),
        "+f"(sum[78]), "+f"(sum[79])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}

/// `arrivals` of them complete a phase.
__device__ __forceinline__ void initialize(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// To the cluster and to copies.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Whether the phase is complete, 0 or 1.
__device__ __forceinline__ std::uint32_t is_complete(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t complete;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(complete)
      : "r"(barrier), "r"(parity)
      : "memory");
  return complete;
}

/// Copies from global to shared memory in the background; `barrier` counts the bytes.
__device__ __forceinline__ void copy_bulk(std::uint32_t to, const unsigned char* from, int bytes,
                                          std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/// Four 8x8 matrices of half; lane t gives the address of row t % 8 of matrix t / 8.
__device__ __forceinline__ void store_four(std::uint32_t row, const std::uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

/// What this thread wrote to shared memory, to operands of products, which are to wait at a barrier.
__device__ __forceinline__ void publish_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void store_zeros(std::uint32_t to) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
}

/// A barrier of one warpgroup.
__device__ __forceinline__ void synchronize_warpgroup(int warpgroup) {
  asm volatile("bar.sync %0, 128;" ::"r"(1 + warpgroup) : "memory");
}

#endif

}  // namespace mobicuda::kernels::inverted_image7
