// cp.async.bulk: copies by the copy engine. One thread starts them; an mbarrier counts the bytes of those to shared
// memory. sm_90 and newer.
#pragma once

#include "kernels/common/std.h"
#include "kernels/ptx/tensor_map.h"

namespace mobicuda::kernels::ptx {

/// `bytes`: a multiple of 16, as the addresses.
__device__ __forceinline__ void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// A box of a matrix, whose first element is (x, y), x along the contiguous dimension.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int x, int y,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

/// Of three dimensions. To the same place in the first kBlocks blocks of the cluster, in each counted by the barrier in
/// the same place.
template <int kBlocks>
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int x, int y, int z,
                                         std::uint32_t barrier) {
  if constexpr (kBlocks == 1) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
            "r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(static_cast<std::uint16_t>((1U << kBlocks) - 1U))
        : "memory");
  }
}

/// Of four dimensions, to this block alone.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int x, int y, int z, int w,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
      : "memory");
}

/// Of five dimensions, to this block alone.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int x, int y, int z, int w, int v,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], "
      "[%7];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "r"(barrier)
      : "memory");
}

/// Channels from `channel` on of neighbouring output pixels, gathered from an image (im2col): the first pixel has its
/// window at (n, y, x); of each the tap that is (tap_y, tap_x) away, zeros outside the image. kBlocks as above.
template <int kBlocks>
__device__ __forceinline__ void copy_im2col(std::uint32_t to, const CUtensorMap& map, int channel, int x, int y, int n,
                                            int tap_x, int tap_y, std::uint32_t barrier) {
  if constexpr (kBlocks == 1) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
        "%5}], "
        "[%6], {%7, %8};" ::"r"(to),
        "l"(&map), "r"(channel), "r"(x), "r"(y), "r"(n), "r"(barrier), "h"(static_cast<std::uint16_t>(tap_x)),
        "h"(static_cast<std::uint16_t>(tap_y))
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%2, %3, %4, %5}], [%6], {%7, %8}, %9;" ::"r"(to),
        "l"(&map), "r"(channel), "r"(x), "r"(y), "r"(n), "r"(barrier), "h"(static_cast<std::uint16_t>(tap_x)),
        "h"(static_cast<std::uint16_t>(tap_y)), "h"(static_cast<std::uint16_t>((1U << kBlocks) - 1U))
        : "memory");
  }
}

/// A box from shared memory to a tensor, a group of copies by itself; what lies outside the tensor is left out.
__device__ __forceinline__ void copy_box_out(const CUtensorMap& map, int x, int y, int z, std::uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];\n\t"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(x), "r"(y), "r"(z), "r"(from)
      : "memory");
}

/// Of four dimensions.
__device__ __forceinline__ void copy_box_out(const CUtensorMap& map, int x, int y, int z, int w, std::uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];\n\t"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(x), "r"(y), "r"(z), "r"(w), "r"(from)
      : "memory");
}

/// `bytes` from shared memory, a multiple of 16 as the addresses: a group of copies by itself.
__device__ __forceinline__ void copy_bulk_out(void* to, std::uint32_t from, int bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\t"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}

/// Waits until all but the latest kPending copies out of shared memory that this thread started have read it. A kernel
/// behind this one waits for its end, and so for what they write.
template <int kPending>
__device__ __forceinline__ void copy_out_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace mobicuda::kernels::ptx
