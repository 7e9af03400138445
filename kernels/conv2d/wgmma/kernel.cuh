// Convolution as an implicit matrix product with wgmma (half, float sums). A block computes tiles of kBm output pixels
// x kBn channels of one group: one, or, if it is persistent, every so-manieth. One thread fills a ring in shared memory
// by tensor copies: a slice of A is 64 channels of kBm windows at one tap, as the copy engine gathers them from the
// image; a slice of B is 64 rows of the packed weights. Two groups of four warps, or three, share the rows. The tile
// of y may pass through shared memory: finish.cuh. Two persistent blocks may have tiles of the same pixels, and
// copy these once. The blocks of a cluster may share a tile's sum: each has a part of the
// slices, and finishes a part of the columns. Shared memory: the ring, where the tile of y or sums for other blocks lie
// at the end; strips of y of a persistent block; the ring's barriers.
#pragma once

#include "kernels/conv2d/wgmma/finish.cuh"
#include "kernels/conv2d/wgmma/shape.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace mobicuda::kernels::conv_wgmma {

/// Slices of a tile that a block multiplies: all, or its share of a cluster's.
struct Slices {
  int first, count;
};

template <class S>
__device__ __forceinline__ Slices own_slices(const Arguments& a) {
  if constexpr (S::kSplit == 1) return {0, a.slices};
  const int rank = static_cast<int>(blockIdx.x) % S::kSplit;
  const int first = rank * a.slices / S::kSplit;
  return {first, (rank + 1) * a.slices / S::kSplit - first};
}

/// Where the window of output pixel m begins in the image.
struct Window {
  int n, y, x;

  __device__ __forceinline__ Window(const Arguments& a, int m) {
    std::uint32_t pixel;
    std::uint32_t ox;
    n = static_cast<int>(a.of_picture.divide(static_cast<std::uint32_t>(m), pixel));
    const auto oy = static_cast<int>(a.of_row.divide(pixel, ox));
    y = oy * a.stride_h - a.pad_top;
    x = static_cast<int>(ox) * a.stride_w - a.pad_left;
  }
};

template <class S>
__device__ __forceinline__ void copy_weights(const Arguments& a, const TilePlace& place, const Ring& ring, int stage,
                                             int slice) {
  int tap = slice / a.tap_slices;
  int ci = (slice - tap * a.tap_slices) * kSliceK;
  if (slice >= a.own_slices) {  // rows behind those of the first convolution, which is pointwise
    tap = 0;
    ci = a.group_in + (slice - a.own_slices) * kSliceK;
  }
  const std::uint32_t full = ring.full + stage * 8;
  const std::uint32_t to = ring.stages + stage * S::kStageBytes + S::kABytes;
  ptx::mbarrier_arrive_expect(full, S::kStageBytes);
#pragma unroll
  for (int panel = 0; panel < S::kPanels; ++panel) {
    ptx::copy_box<1>(to + panel * S::kPanelBytes, a.weights, place.n0 + panel * kPanelColumns, ci, tap, full);
  }
}

/// The first pixel of a tile that this block copies.
template <class S>
__device__ __forceinline__ int first_copied(const TilePlace& place) {
  return place.m0 + static_cast<int>(blockIdx.x) % S::kPair * S::kCopiedPixels;
}

/// `window`: of the first copied pixel.
template <class S>
__device__ __forceinline__ void copy_pixels(const Arguments& a, const TilePlace& place, const Window& window,
                                            const Ring& ring, int stage, int slice) {
  const std::uint32_t to = ring.stages + stage * S::kStageBytes + (first_copied<S>(place) - place.m0) * kRowBytes;
  if (slice >= a.own_slices) {
    ptx::copy_im2col<S::kPair>(to, a.second_pixels, (slice - a.own_slices) * kSliceK, window.x * a.second_stride_w,
                               window.y * a.second_stride_h, window.n, 0, 0, ring.full + stage * 8);
    return;
  }
  const int tap = slice / a.tap_slices;
  const int ci = (slice - tap * a.tap_slices) * kSliceK;
  const int ky = tap / a.kernel_w;
  const int kx = tap - ky * a.kernel_w;
  // A quarter's pixels are those of a stride of 2 from the upper left one of 2x2 on, or from another of them.
#pragma unroll
  for (int quarter = 0; quarter < S::kQuarters; ++quarter) {
    ptx::copy_im2col<S::kPair>(to + quarter * S::kPixels * kRowBytes, a.pixels, place.group * a.group_in + ci, window.x,
                               window.y, window.n, kx * a.dilation_w + quarter % 2, ky * a.dilation_h + quarter / 2,
                               ring.full + stage * 8);
  }
}

/// Copies a tile's slices from number `first` to before `last`. `at`: of the first of them; then behind the last.
template <class S>
__device__ __forceinline__ void copy_slices(const Arguments& a, const TilePlace& place, const Ring& ring, int first,
                                            int last, RingPlace& at) {
  const Window window(a, first_copied<S>(place));
#pragma unroll 1
  for (int slice = first; slice < last; ++slice) {
    ptx::mbarrier_wait(ring.empty + at.stage * 8, at.parity);
    copy_weights<S>(a, place, ring, at.stage, slice);
    copy_pixels<S>(a, place, window, ring, at.stage, slice);
    at.template advance<S>();
  }
}

/// What the thread that fills the ring does. `tile`: the first.
template <class S>
__device__ __forceinline__ void fill(const typename S::Arguments& a, int tile, const Ring& ring) {
  TilePlace place = conv_gemm::place_of<S::kPixels, S::kBn>(a, tile);
  const Window window(a, first_copied<S>(place));
  const Slices slices = own_slices<S>(a);
  const int early = min(S::kStages, slices.count);
#pragma unroll 1
  for (int i = 0; i < early; ++i) copy_weights<S>(a, place, ring, i, slices.first + i);
  wait_for_predecessor();
#pragma unroll 1
  for (int i = 0; i < early; ++i) copy_pixels<S>(a, place, window, ring, i, slices.first + i);
  // Nobody has to free a stage before its first slice: the phase before the first one counts as over.
  RingPlace at{early, 1};
  if (early == S::kStages) at = {0, 0};
  copy_slices<S>(a, place, ring, slices.first + early, slices.first + slices.count, at);
  if constexpr (S::kPersistent) {
#pragma unroll 1
    while ((tile += static_cast<int>(gridDim.x)) < tiles<S>(a.m, a.n_tiles)) {
      place = conv_gemm::place_of<S::kPixels, S::kBn>(a, tile);
      copy_slices<S>(a, place, ring, 0, a.slices, at);
    }
  }
  if constexpr (S::kTile) fill_tile<S>(a, place, ring);
}

/// Tells the threads that fill a stage of the ring, the other block's too where it fills a part, that it is free for
/// this warp.
template <class S>
__device__ __forceinline__ void give_back(const Ring& ring, int stage) {
  if (ptx::as_int::lane() != 0) return;
  if constexpr (S::kPair == 1) {
    ptx::mbarrier_arrive(ring.empty + stage * 8);
  } else {
#pragma unroll
    for (int rank = 0; rank < S::kPair; ++rank) ptx::mbarrier_arrive_at(ring.empty + stage * 8, rank);
  }
}

/// The sums of `slices` slices of a tile. `at`: of the first of them; then behind the last. A persistent block gives
/// back the last slice's stage too.
template <class S>
__device__ __forceinline__ void multiply(int slices, const Ring& ring, RingPlace& at,
                                         float (&sums)[S::kRowBlocks][S::kSums]) {
  constexpr std::uint32_t kNextPanel = S::kPanelBytes / 16;
  const int group = static_cast<int>(threadIdx.x / kGroupThreads);
  const std::uint32_t own_rows = ring.stages + group * S::kRowBlocks * 64 * kRowBytes;
  int before = 0;
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) ptx::pin_accumulators(sums[i]);
#pragma unroll 1
  for (int step = 0; step < slices; ++step) {
    ptx::mbarrier_wait(ring.full + at.stage * 8, at.parity);
    const std::uint32_t rows = ptx::wgmma_operand_128b(own_rows + at.stage * S::kStageBytes);
    const std::uint32_t columns =
        ptx::wgmma_operand_128b(ring.stages + at.stage * S::kStageBytes + S::kABytes, kNextPanel);
    ptx::wgmma_fence();
#pragma unroll
    for (int k16 = 0; k16 < kSliceK / 16; ++k16) {
#pragma unroll
      for (int i = 0; i < S::kRowBlocks; ++i) {
        ptx::start_wgmma_transposed_b(sums[i], rows + (i * 64 * kRowBytes + k16 * 32) / 16,
                                      columns + k16 * 16 * kRowBytes / 16, step + k16 > 0 ? 1 : 0);
      }
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    if (step > 0) give_back<S>(ring, before);
    before = at.stage;
    at.template advance<S>();
  }
  ptx::wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) ptx::pin_accumulators(sums[i]);
  if constexpr (S::kPersistent) give_back<S>(ring, before);
}

/// A row of the tiles is an output pixel.
struct RowIsPixel {
  int m;

  __device__ __forceinline__ int operator()(int row) const { return row < m ? row : -1; }
};

/// What the groups of warps do where a block has all slices of its tiles.
template <class S>
__device__ __forceinline__ void compute(const typename S::Arguments& a, int tile, const Ring& ring) {
  RingPlace at;
  if constexpr (S::kPersistent) {
    [[maybe_unused]] const std::uint32_t strips = strips_of<S>(ring, threadIdx.x / 32);
    int next_strip = 0;
    [[maybe_unused]] const int first = tile;
#pragma unroll 1
    for (; tile < tiles<S>(a.m, a.n_tiles); tile += static_cast<int>(gridDim.x)) {
      float sums[S::kRowBlocks][S::kSums];
      multiply<S>(a.slices, ring, at, sums);
      const TilePlace place = conv_gemm::place_of<S::kPixels, S::kBn>(a, tile);
      if constexpr (S::kPooled) {
        finish_pooled<S>(a, place, ring, sums, tile != first, next_strip);
      } else {
        finish_in_strips<S>(a, place, strips, warp_row<S>(), sums, next_strip);
      }
    }
    if (threadIdx.x % 32 == 0) ptx::copy_out_wait_read<0>();
    if constexpr (S::kPooled) end_pooled<S>();
  } else {
    const TilePlace place = conv_gemm::place_of<S::kPixels, S::kBn>(a, tile);
    float sums[S::kRowBlocks][S::kSums];
    multiply<S>(a.slices, ring, at, sums);
    if constexpr (S::kTile) {
      finish_in_tile<S>(a, place, ring, warp_row<S>(), sums, at);
    } else {
      finish_rows<S>(a, place, warp_row<S>(), sums, RowIsPixel{a.m});
    }
  }
}

/// What all threads of a block do that shares its tile's sum with the others of its cluster.
template <class S>
__device__ __forceinline__ void share(const Arguments& a, int tile, const Ring& ring) {
  const bool computes = threadIdx.x < S::kComputeThreads;
  float sums[S::kRowBlocks][S::kSums];
  if (threadIdx.x == S::kComputeThreads) {
    fill<S>(a, tile, ring);
  } else {
    bring_next_weights(a.next);
    wait_for_predecessor();
    RingPlace at;
    if (computes) multiply<S>(own_slices<S>(a).count, ring, at, sums);
  }
  __syncthreads();  // the ring is free
  if (computes) put_shares<S>(ring, sums);
  sync_cluster();
  if (computes) {
    TilePlace place = conv_gemm::place_of<S::kPixels, S::kBn>(a, tile);
    float whole[S::kRowBlocks][S::kShare];
    add_shares<S>(ring, whole);
    place.n0 += static_cast<int>(blockIdx.x) % S::kSplit * (S::kBn / S::kSplit);
    finish_rows<S>(a, place, warp_row<S>(), whole, RowIsPixel{a.m});
  }
  end_cluster();  // others may still read this block's shares
}

template <class S>
__global__ void __launch_bounds__(S::kBlockThreads, S::kMinBlocks)
    wgmma_kernel(const __grid_constant__ typename S::Arguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const std::uint32_t stages = ptx::shared_address(shared);
  const std::uint32_t full = stages + S::kRingBytes + S::kStripsBytes;
  const Ring ring{stages, full, full + S::kStages * 8};
  const auto tile = static_cast<int>(blockIdx.x) / S::kSplit;
  if (threadIdx.x == S::kComputeThreads) {
    ptx::prefetch_tensor_map(a.weights);
    ptx::prefetch_tensor_map(a.pixels);
    if (a.slices > a.own_slices) ptx::prefetch_tensor_map(a.second_pixels);
    if constexpr (S::kTile || S::kPersistent) ptx::prefetch_tensor_map(a.result);
    if constexpr (S::kTile) {
      if (a.residual != nullptr) ptx::prefetch_tensor_map(a.added);
    }
    for (int i = 0; i < S::kStages; ++i) {
      ptx::mbarrier_init(ring.full + i * 8, 1);
      ptx::mbarrier_init(ring.empty + i * 8, S::kGroups * 4 * S::kPair);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if constexpr (S::kPair > 1) {
    arrive_at_cluster_begin();
    wait_for_cluster_begin();
  }
  if constexpr (S::kSplit > 1) {
    share<S>(a, tile, ring);
  } else if (threadIdx.x == S::kComputeThreads) {
    fill<S>(a, tile, ring);
  } else {
    bring_next_weights(a.next);
    wait_for_predecessor();
    if (threadIdx.x < S::kComputeThreads) compute<S>(a, tile, ring);
  }
  if constexpr (S::kPair > 1) end_cluster();
}

}  // namespace mobicuda::kernels::conv_wgmma
