// Convolution of bytes as an implicit matrix product with wgmma: exact sums. A block computes every so-manieth tile of
// kBm output pixels x kBn channels. One thread fills a ring in shared memory by tensor copies, ahead across the border
// between tiles: a slice of X is 128 bytes of kBm windows at one tap, as the copy engine gathers them from the image; a
// slice of W is as many of kBn channels. Two groups of four warps share the rows. Outside of the image the copy engine
// writes zeros, where x_zero is meant: pixels whose window reaches there have a bias of their own. A tile's residual
// comes in the same way, behind its slices. Shared memory: the ring, tiles of the residual, barriers.
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

/// Slices, or tiles of the residual.
struct Ring {
  std::uint32_t stages, full, empty;
};

/// A stage of a ring, and the parity of the phase in which it is full, or in which it is free again.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  template <int kStages>
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

struct TilePlace {
  int m0, n0;

  template <class S>
  __device__ __forceinline__ static TilePlace of(const Arguments& a, int tile) {
    std::uint32_t n_tile;
    const std::uint32_t m_tile = a.of_row_of_tiles.divide(static_cast<std::uint32_t>(tile), n_tile);
    return {static_cast<int>(m_tile) * S::kBm, static_cast<int>(n_tile) * S::kBn};
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

/// Where a slice lies in the window and in its tap; the copy engine counts in elements of two bytes.
struct SlicePlace {
  int tap = 0, ky = 0, kx = 0;
  int element = 0;

  __device__ __forceinline__ void advance(const Arguments& a) {
    element += kSliceBytes / 2;
    if (element * 2 < a.tap_bytes) return;
    element = 0;
    ++tap;
    if (++kx < a.window_w) return;
    kx = 0;
    ++ky;
  }
};

template <class S>
__device__ __forceinline__ void copy_weights(const Arguments& a, int n0, const Ring& ring, int stage,
                                             const SlicePlace& place) {
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
                                            const SlicePlace& place) {
  ptx::copy_im2col<1>(ring.stages + stage * S::kStageBytes, a.pixels, place.element, window.x, window.y, window.image,
                      place.kx * a.dilation_w, place.ky * a.dilation_h, ring.full + stage * 8);
}

/// Copies a tile's slices from number `first` on, which is `place`. `at`: of the first of them; then behind the last.
template <class S>
__device__ __forceinline__ void copy_slices(const Arguments& a, const TilePlace& tile, const Window& window,
                                            const Ring& ring, int first, SlicePlace place, RingPlace& at) {
#pragma unroll 1
  for (int slice = first; slice < a.slices; ++slice) {
    ptx::mbarrier_wait(ring.empty + at.stage * 8, at.parity);
    copy_weights<S>(a, tile.n0, ring, at.stage, place);
    copy_pixels<S>(a, window, ring, at.stage, place);
    place.advance(a);
    at.advance<S::kStages>();
  }
}

/// Copies a tile's residual. `at`: of its place; then behind it.
template <class S>
__device__ __forceinline__ void copy_added(const Arguments& a, const TilePlace& place, const Ring& added,
                                           RingPlace& at) {
  const std::uint32_t full = added.full + at.stage * 8;
  ptx::mbarrier_wait(added.empty + at.stage * 8, at.parity);
  ptx::mbarrier_arrive_expect(full, S::kAddedBytes);
#pragma unroll
  for (int panel = 0; panel < S::kPanels; ++panel) {
    ptx::copy_box(added.stages + at.stage * S::kAddedBytes + panel * S::kAddedPanelBytes, a.added,
                  (place.n0 + panel * kPanelColumns) / 2, place.m0, full);
  }
  at.advance<S::kAddedTiles>();
}

/// What the thread that fills the rings does. The first tile's weights do not depend on the predecessor.
template <class S>
__device__ __forceinline__ void fill(const Arguments& a, const Ring& ring, const Ring& added) {
  auto tile = static_cast<int>(blockIdx.x);
  TilePlace place = TilePlace::of<S>(a, tile);
  const Window window(a, place.m0);
  const int early = min(S::kStages, a.slices);
  SlicePlace of_weights;
#pragma unroll 1
  for (int i = 0; i < early; ++i, of_weights.advance(a)) copy_weights<S>(a, place.n0, ring, i, of_weights);
  wait_for_predecessor();
  SlicePlace of_pixels;
#pragma unroll 1
  for (int i = 0; i < early; ++i, of_pixels.advance(a)) copy_pixels<S>(a, window, ring, i, of_pixels);
  // Nobody has to free a stage before its first slice: the phase before the first one counts as over.
  RingPlace at{early, 1};
  if (early == S::kStages) at = {0, 0};
  copy_slices<S>(a, place, window, ring, early, of_pixels, at);
  RingPlace at_added{0, 1};
#pragma unroll 1
  while (true) {
    if (a.finish.adds) copy_added<S>(a, place, added, at_added);
    tile += static_cast<int>(gridDim.x);
    if (tile >= a.tiles) return;
    place = TilePlace::of<S>(a, tile);
    copy_slices<S>(a, place, Window(a, place.m0), ring, 0, {}, at);
  }
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
    at.advance<S::kStages>();
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
  const int border_class = a.row.of(static_cast<int>(oy)) * a.border_columns + a.column.of(static_cast<int>(ox));
  return (1 + border_class) * a.w_rows;
}

/// Finishes and stores a thread's sums: of each of its rows 16 neighbouring channels of every panel. kBorders: a
/// pixel's bias is its class's. kAdds: a residual is added, in shared memory from `added` on.
template <class S, bool kBorders, bool kAdds>
__device__ __forceinline__ void finish(const Arguments& a, const TilePlace& place, std::uint32_t added,
                                       const std::int32_t (&sums)[S::kRowBlocks][S::kSums]) {
  constexpr int kWords = kRun / 4;
  // Rows that share what is loaded of their channels, which takes as long as half of the rest; registers are few beside
  // many sums.
  constexpr int kRows = S::kRowBlocks * S::kSums <= 32 ? 2 : 1;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int quad = ptx::as_int::lane() % 4;
  FinishBytes how = a.finish;
  how.adds = kAdds;
#pragma unroll
  for (int first = 0; first < S::kRowBlocks * 2; first += kRows) {
    // Row number i of a thread, of the tile.
    const auto row_of = [&](int i) {
      return (warp / 4 * S::kRowBlocks + i / 2) * 64 + warp % 4 * 16 + i % 2 * 8 + ptx::as_int::lane() / 4;
    };
    const std::int32_t* biases[kRows];
    std::int8_t* y[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int m = place.m0 + row_of(first + i);
      biases[i] = kBorders ? a.bias + border_bias(a, m) : a.bias;
      y[i] = static_cast<std::int8_t*>(a.y) + static_cast<std::size_t>(m) * static_cast<std::size_t>(a.y_pitch);
    }
#pragma unroll
    for (int panel = 0; panel < S::kPanels; ++panel) {
      int n = place.n0 + panel * kPanelColumns + quad * kRun;
      if (n >= a.columns) continue;
      Packet<std::uint32_t, kWords> bytes[kRows] = {};
#pragma unroll
      for (int i = 0; i < kRows && kAdds; ++i) {
        ptx::load_shared_words<kWords>(
            added + panel * S::kAddedPanelBytes + row_of(first + i) * kPanelColumns + quad * kRun, bytes[i].item);
      }
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        ptx::pin(n);  // channels are loaded here, not all before the first word
        auto channels = load_channels<4>(biases[0] + n + word * 4, a.multiplier + n + word * 4);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          if (kBorders && i > 0) channels.bias = load<4>(biases[i] + n + word * 4);
          float values[4];
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int column = panel * kPanelColumns / 8 + word * 2 + e / 2;  // of eight
            const std::int32_t sum = sums[(first + i) / 2][column * 4 + (first + i) % 2 * 2 + e % 2];
            values[e] = ptx::multiply_rounded(ptx::float_of(add_wrapping(sum, channels.bias.item[e])),
                                              channels.multiplier.item[e]);
          }
          bytes[i].item[word] = finish_bytes(how, values, bytes[i].item[word]);
        }
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (place.m0 + row_of(first + i) < a.m) store(reinterpret_cast<std::uint32_t*>(y[i] + n), bytes[i]);
      }
    }
  }
}

template <class S>
__global__ void __launch_bounds__(S::kBlockThreads, S::kMinBlocks) wgmma_kernel(const __grid_constant__ Arguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const std::uint32_t stages = ptx::shared_address(shared);
  const std::uint32_t tiles = stages + S::kRingBytes;
  const std::uint32_t barriers = tiles + S::kAddedTiles * S::kAddedBytes;
  const std::uint32_t of_added = barriers + S::kStages * 16;
  const Ring ring{stages, barriers, barriers + S::kStages * 8};
  const Ring added{tiles, of_added, of_added + S::kAddedTiles * 8};
  if (threadIdx.x == S::kComputeThreads) {
    ptx::prefetch_tensor_map(a.weights);
    ptx::prefetch_tensor_map(a.pixels);
    if (a.finish.adds) ptx::prefetch_tensor_map(a.added);
    for (int i = 0; i < S::kStages; ++i) {
      ptx::mbarrier_init(ring.full + i * 8, 1);
      ptx::mbarrier_init(ring.empty + i * 8, kGroups * 4);
    }
    for (int i = 0; i < S::kAddedTiles; ++i) {
      ptx::mbarrier_init(added.full + i * 8, 1);
      ptx::mbarrier_init(added.empty + i * 8, kGroups * 4);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == S::kComputeThreads) {
    fill<S>(a, ring, added);
    return;
  }
  wait_for_predecessor();
  if (threadIdx.x > S::kComputeThreads) return;
  RingPlace at;
  RingPlace at_added;
#pragma unroll 1
  for (int tile = static_cast<int>(blockIdx.x); tile < a.tiles; tile += static_cast<int>(gridDim.x)) {
    std::int32_t sums[S::kRowBlocks][S::kSums];
    multiply<S>(a, ring, at, sums);
    const TilePlace place = TilePlace::of<S>(a, tile);
    if (!a.finish.adds) {
      if (a.has_borders) {
        finish<S, true, false>(a, place, 0, sums);
      } else {
        finish<S, false, false>(a, place, 0, sums);
      }
    } else {
      const std::uint32_t residual = added.stages + at_added.stage * S::kAddedBytes;
      ptx::mbarrier_wait(added.full + at_added.stage * 8, at_added.parity);
      if (a.has_borders) {
        finish<S, true, true>(a, place, residual, sums);
      } else {
        finish<S, false, true>(a, place, residual, sums);
      }
      __syncwarp();
      give_back(added, at_added.stage);
      at_added.advance<S::kAddedTiles>();
    }
  }
}

}  // namespace mobicuda::kernels::int8_conv::wgmma
