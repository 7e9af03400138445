// Convolution of bytes as an implicit matrix product with wgmma: exact sums. A block computes every so-manieth tile of
// kBm output pixels x kBn channels. One thread fills a ring in shared memory by tensor copies, ahead across the border
// between tiles: a slice of X is 128 bytes of kBm windows at one tap, as the copy engine gathers them from the image; a
// slice of W is as many of kBn channels. Two groups of four warps share the rows. Outside of the image the copy engine
// writes zeros, where x_zero is meant: pixels whose window reaches there have a bias of their own. Shared memory: the
// ring, its barriers.
//
// The columns of a panel of 64 channels are dealt out by the weights' tensor map: row 8 j + 2 t + e of the panel in
// shared memory is channel 16 t + 2 j + e. Thread t of a quad, which receives columns 2 t and 2 t + 1 of every eight,
// so has 16 neighbouring channels, and stores them at once.
#pragma once

#include "kernels/int8_conv2d/wgmma/shape.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace mobicuda::kernels::int8_conv::wgmma {

struct Ring {
  std::uint32_t stages, full, empty;
};

/// A stage of the ring, and the parity of the phase in which its next slice arrives, or in which it is free again.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  template <class S>
  __device__ __forceinline__ void advance() {
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

struct TilePlace {
  int m0, n0;

  template <class S>
  __device__ __forceinline__ static TilePlace of(const Arguments& a, int tile) {
    const int m_tile = tile / a.n_tiles;
    return {m_tile * S::kBm, (tile - m_tile * a.n_tiles) * S::kBn};
  }
};

/// Where the window of a tile's first pixel begins in the image.
struct Window {
  int image, y, x;

  __device__ __forceinline__ Window(const Arguments& a, int m) {
    std::uint32_t pixel;
    std::uint32_t ox;
    image = static_cast<int>(a.of_image.divide(static_cast<std::uint32_t>(m), pixel));
    const auto oy = static_cast<int>(a.of_row.divide(pixel, ox));
    y = oy * a.stride_h - a.pad_top;
    x = static_cast<int>(ox) * a.stride_w - a.pad_left;
  }
};

/// The copy engine counts in elements of two bytes.
struct SlicePlace {
  int tap, element;

  __device__ __forceinline__ SlicePlace(const Arguments& a, int slice) {
    tap = slice / a.tap_slices;
    element = (slice - tap * a.tap_slices) * (kSliceBytes / 2);
  }
};

template <class S>
__device__ __forceinline__ void copy_weights(const Arguments& a, int n0, const Ring& ring, int stage, int slice) {
  const SlicePlace place(a, slice);
  const std::uint32_t full = ring.full + stage * 8;
  const std::uint32_t to = ring.stages + stage * S::kStageBytes + S::kXBytes;
  ptx::mbarrier_arrive_expect(full, S::kStageBytes);
#pragma unroll
  for (int panel = 0; panel < S::kPanels; ++panel) {
    ptx::copy_box(to + panel * S::kPanelBytes, a.weights, place.element, place.tap, 0,
                  (n0 + panel * kPanelColumns) / kRun, 0, full);
  }
}

template <class S>
__device__ __forceinline__ void copy_pixels(const Arguments& a, const Window& window, const Ring& ring, int stage,
                                            int slice) {
  const SlicePlace place(a, slice);
  const int ky = place.tap / a.window_w;
  const int kx = place.tap - ky * a.window_w;
  ptx::copy_im2col<1>(ring.stages + stage * S::kStageBytes, a.pixels, place.element, window.x, window.y, window.image,
                      kx * a.dilation_w, ky * a.dilation_h, ring.full + stage * 8);
}

/// Copies a tile's slices from number `first` on. `at`: of the first of them; then behind the last.
template <class S>
__device__ __forceinline__ void copy_slices(const Arguments& a, int tile, const Ring& ring, int first, RingPlace& at) {
  const TilePlace place = TilePlace::of<S>(a, tile);
  const Window window(a, place.m0);
#pragma unroll 1
  for (int slice = first; slice < a.slices; ++slice) {
    ptx::mbarrier_wait(ring.empty + at.stage * 8, at.parity);
    copy_weights<S>(a, place.n0, ring, at.stage, slice);
    copy_pixels<S>(a, window, ring, at.stage, slice);
    at.template advance<S>();
  }
}

/// What the thread that fills the ring does. The first tile's weights do not depend on the predecessor.
template <class S>
__device__ __forceinline__ void fill(const Arguments& a, const Ring& ring) {
  auto tile = static_cast<int>(blockIdx.x);
  const TilePlace place = TilePlace::of<S>(a, tile);
  const Window window(a, place.m0);
  const int early = min(S::kStages, a.slices);
#pragma unroll 1
  for (int i = 0; i < early; ++i) copy_weights<S>(a, place.n0, ring, i, i);
  wait_for_predecessor();
#pragma unroll 1
  for (int i = 0; i < early; ++i) copy_pixels<S>(a, window, ring, i, i);
  // Nobody has to free a stage before its first slice: the phase before the first one counts as over.
  RingPlace at{early, 1};
  if (early == S::kStages) at = {0, 0};
  copy_slices<S>(a, tile, ring, early, at);
#pragma unroll 1
  while ((tile += static_cast<int>(gridDim.x)) < a.tiles) copy_slices<S>(a, tile, ring, 0, at);
}

/// Tells the thread that fills the ring that a stage is free for this warp.
__device__ __forceinline__ void give_back(const Ring& ring, int stage) {
  if (ptx::as_int::lane() == 0) ptx::mbarrier_arrive(ring.empty + stage * 8);
}

/// A tile's sums. `at`: of its first slice; then behind the last.
template <class S>
__device__ __forceinline__ void multiply(const Arguments& a, const Ring& ring, RingPlace& at,
                                         std::int32_t (&sums)[S::kRowBlocks][S::kSums]) {
  constexpr int kRowBlockBytes = 64 * kSliceBytes;
  const int group = static_cast<int>(threadIdx.x / kGroupThreads);
  const std::uint32_t own_rows = ring.stages + group * S::kRowBlocks * kRowBlockBytes;
  int before = 0;
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) ptx::pin_accumulators(sums[i]);
#pragma unroll 1
  for (int slice = 0; slice < a.slices; ++slice) {
    ptx::mbarrier_wait(ring.full + at.stage * 8, at.parity);
    const std::uint32_t rows = ptx::wgmma_operand_128b(own_rows + at.stage * S::kStageBytes);
    const std::uint32_t columns = ptx::wgmma_operand_128b(ring.stages + at.stage * S::kStageBytes + S::kXBytes);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < kSliceBytes; k += kProductBytes) {
#pragma unroll
      for (int i = 0; i < S::kRowBlocks; ++i) {
        ptx::start_wgmma_s8(sums[i], rows + (i * kRowBlockBytes + k) / 16, columns + k / 16, slice + k > 0 ? 1 : 0);
      }
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    if (slice > 0) give_back(ring, before);
    before = at.stage;
    at.template advance<S>();
  }
  ptx::wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) ptx::pin_accumulators(sums[i]);
  give_back(ring, before);
}

/// The place of a pixel's bias among those of its class.
__device__ __forceinline__ int border_bias(const Arguments& a, int m) {
  std::uint32_t pixel;
  std::uint32_t ox;
  a.of_image.divide(static_cast<std::uint32_t>(m), pixel);
  const std::uint32_t oy = a.of_row.divide(pixel, ox);
  const int border_class =
      a.row.of(static_cast<int>(oy)) * a.border_columns + a.column.of(static_cast<int>(ox));
  return (1 + border_class) * a.w_rows;
}

/// Finishes and stores a thread's sums: of each of its rows 16 neighbouring channels of every panel. Two rows at a time,
/// as registers are few beside the sums. kBorders: a pixel's bias is its class's.
template <class S, bool kBorders>
__device__ __forceinline__ void finish(const Arguments& a, const TilePlace& place,
                                       const std::int32_t (&sums)[S::kRowBlocks][S::kSums]) {
  constexpr int kRows = 2;
  constexpr int kWords = kRun / 4;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int quad = ptx::as_int::lane() % 4;
#pragma unroll
  for (int block = 0; block < S::kRowBlocks; ++block) {
    const int m = place.m0 + (warp / 4 * S::kRowBlocks + block) * 64 + warp % 4 * 16 + ptx::as_int::lane() / 4;
    const bool is_there[kRows] = {m < a.m, m + 8 < a.m};
    int biases[kRows] = {};
    if constexpr (kBorders) {
      biases[0] = border_bias(a, m);
      biases[1] = border_bias(a, m + 8);
    }
#pragma unroll
    for (int panel = 0; panel < S::kPanels; ++panel) {
      int n = place.n0 + panel * kPanelColumns + quad * kRun;
      if (n >= a.columns) continue;
      const std::size_t at =
          static_cast<std::size_t>(m) * static_cast<std::size_t>(a.y_pitch) + static_cast<std::size_t>(n);
      const std::size_t below = static_cast<std::size_t>(a.y_pitch) * 8;
      Packet<std::uint32_t, kWords> bytes[kRows] = {};
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        if (a.finish.adds && is_there[row]) {
          bytes[row] = load<kWords>(reinterpret_cast<const std::uint32_t*>(a.residual + at + row * below));
        }
      }
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        ptx::pin(n);
        const auto multiplier = load<4>(a.multiplier + n + word * 4);
        auto bias = load<4>(a.bias + biases[0] + n + word * 4);
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          if (kBorders && row > 0) bias = load<4>(a.bias + biases[row] + n + word * 4);
          float values[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int column = panel * kPanelColumns / 8 + word * 2 + i / 2;  // of eight
            const std::int32_t sum = sums[block][column * 4 + row * 2 + i % 2];
            values[i] = ptx::multiply_rounded(ptx::float_of(add_wrapping(sum, bias.item[i])), multiplier.item[i]);
          }
          bytes[row].item[word] = finish_bytes(a.finish, values, bytes[row].item[word]);
        }
      }
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        if (!is_there[row]) continue;
        store(reinterpret_cast<std::uint32_t*>(static_cast<std::int8_t*>(a.y) + at + row * below), bytes[row]);
      }
    }
  }
}

template <class S>
__global__ void __launch_bounds__(S::kBlockThreads, S::kMinBlocks) wgmma_kernel(const __grid_constant__ Arguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const std::uint32_t stages = ptx::shared_address(shared);
  const Ring ring{stages, stages + S::kRingBytes, stages + S::kRingBytes + S::kStages * 8};
  if (threadIdx.x == S::kComputeThreads) {
    ptx::prefetch_tensor_map(a.weights);
    ptx::prefetch_tensor_map(a.pixels);
    for (int i = 0; i < S::kStages; ++i) {
      ptx::mbarrier_init(ring.full + i * 8, 1);
      ptx::mbarrier_init(ring.empty + i * 8, kGroups * 4);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == S::kComputeThreads) {
    fill<S>(a, ring);
    return;
  }
  wait_for_predecessor();
  if (threadIdx.x > S::kComputeThreads) return;
  RingPlace at;
#pragma unroll 1
  for (int tile = static_cast<int>(blockIdx.x); tile < a.tiles; tile += static_cast<int>(gridDim.x)) {
    std::int32_t sums[S::kRowBlocks][S::kSums];
    multiply<S>(a, ring, at, sums);
    const TilePlace place = TilePlace::of<S>(a, tile);
    if (a.has_borders) {
      finish<S, true>(a, place, sums);
    } else {
      finish<S, false>(a, place, sums);
    }
  }
}

}  // namespace mobicuda::kernels::int8_conv::wgmma
