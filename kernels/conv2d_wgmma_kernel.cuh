// Convolution as an implicit matrix product with wgmma (half, float sums). A block computes a tile of kBm output pixels
// x kBn channels of one group. One thread fills a ring in shared memory by tensor copies: a slice of A is 64 channels
// of kBm windows at one tap, as the copy engine gathers them from the image; a slice of B is 64 rows of the packed
// weights. Two groups of four warps have half of the rows each. Shared memory: the ring, then its barriers.
#pragma once

#include "conv2d_gemm_arguments.cuh"
#include "conv2d_wgmma_instructions.cuh"

namespace mobicuda::kernels::conv_wgmma {

using conv_gemm::TilePlace;

inline constexpr int kSliceK = 64;
inline constexpr int kRowBytes = 128;  ///< of A: 64 channels; of B: 64 columns
inline constexpr int kGroups = 2;
inline constexpr int kGroupThreads = 128;
inline constexpr int kThreads = kGroups * kGroupThreads + 32;

struct Arguments : conv_gemm::Arguments {
  CUtensorMap pixels, weights;
  int tap_slices;  ///< slices of a tap
  int kernel_w;
};

struct Config {
  int bm, bn;
  int stages;
  int min_blocks;  ///< per multiprocessor
};

template <Config kConfig>
struct Shape {
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr int kPanelBytes = kSliceK * kRowBytes;  ///< 64 columns of a slice of B
  static constexpr int kABytes = kBm * kRowBytes;
  static constexpr int kStageBytes = kABytes + kBn / 64 * kPanelBytes;
  static constexpr int kSharedBytes = kStages * (kStageBytes + 16);
  static constexpr int kRowBlocks = kBm / (64 * kGroups);  ///< of 64 rows, of a group of warps
  static constexpr int kSums = kBn / 2;                    ///< of a thread in a block of rows
  static_assert(kBm % (64 * kGroups) == 0 && kBn % 64 == 0);
};

struct Ring {
  std::uint32_t stages, full, empty;
};

template <class S>
__device__ __forceinline__ void copy_weights(const Arguments& a, const TilePlace& place, const Ring& ring, int stage,
                                             int step) {
  const int tap = step / a.tap_slices;
  const int ci = (step - tap * a.tap_slices) * kSliceK;
  const std::uint32_t full = ring.full + stage * 8;
  const std::uint32_t to = ring.stages + stage * S::kStageBytes + S::kABytes;
  expect_bytes(full, S::kStageBytes);
#pragma unroll
  for (int panel = 0; panel < S::kBn / 64; ++panel) {
    copy_box<1>(to + panel * S::kPanelBytes, a.weights, place.n0 + panel * 64, ci, tap, full);
  }
}

/// What the thread that fills the ring does.
template <class S>
__device__ __forceinline__ void fill(const Arguments& a, const TilePlace& place, const Ring& ring) {
  std::uint32_t pixel;
  std::uint32_t ox;
  const auto n = static_cast<int>(a.of_picture.divide(static_cast<std::uint32_t>(place.m0), pixel));
  const auto oy = static_cast<int>(a.of_row.divide(pixel, ox));
  const int y = oy * a.stride_h - a.pad_top;
  const int x = static_cast<int>(ox) * a.stride_w - a.pad_left;
  const auto copy_a = [&](int stage, int step) {
    const int tap = step / a.tap_slices;
    const int ci = (step - tap * a.tap_slices) * kSliceK;
    const int ky = tap / a.kernel_w;
    const int kx = tap - ky * a.kernel_w;
    copy_pixels(ring.stages + stage * S::kStageBytes, a.pixels, place.group * a.group_in + ci, x, y, n,
                kx * a.dilation_w, ky * a.dilation_h, ring.full + stage * 8);
  };
  const int early = min(S::kStages, a.slices);
  for (int step = 0; step < early; ++step) copy_weights<S>(a, place, ring, step, step);
  wait_for_predecessor();
  for (int step = 0; step < early; ++step) copy_a(step, step);
  int stage = 0;
  std::uint32_t parity = 0;
  for (int step = early; step < a.slices; ++step) {
    wait_for(ring.empty + stage * 8, parity);
    copy_weights<S>(a, place, ring, stage, step);
    copy_a(stage, step);
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
}

/// Stores the sums of 64 rows, of which m is the thread's first.
template <int kSums>
__device__ __forceinline__ void finish_rows(const Arguments& a, const TilePlace& place, int m,
                                            const float (&sums)[kSums]) {
  const int quad = static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int block = 0; block < kSums / 4; block += 4) {
    const int n = place.n0 + (block + quad) * 8;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float value[8];
      conv_gemm::gather_quad(reinterpret_cast<const float(*)[4]>(sums + block * 4), half, value);
      if (m + half * 8 < a.m && n < place.n_end) conv_gemm::finish_run<8, true>(a, m + half * 8, n, place.n_end, value);
    }
  }
}

/// What the groups of warps do.
template <class S>
__device__ __forceinline__ void multiply(const Arguments& a, const TilePlace& place, const Ring& ring) {
  constexpr std::uint32_t kNextPanel = S::kPanelBytes / 16;
  const int group = static_cast<int>(threadIdx.x / kGroupThreads);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::uint32_t own_rows = ring.stages + group * S::kRowBlocks * 64 * kRowBytes;
  float sums[S::kRowBlocks][S::kSums];
  int stage = 0;
  int before = 0;
  std::uint32_t parity = 0;
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) settle(sums[i]);
  for (int step = 0; step < a.slices; ++step) {
    wait_for(ring.full + stage * 8, parity);
    const std::uint32_t rows = (own_rows + stage * S::kStageBytes) >> 4U | 1U << 16U;
    const std::uint32_t columns = (ring.stages + stage * S::kStageBytes + S::kABytes) >> 4U | kNextPanel << 16U;
    begin_products();
#pragma unroll
    for (int k16 = 0; k16 < kSliceK / 16; ++k16) {
#pragma unroll
      for (int i = 0; i < S::kRowBlocks; ++i) {
        start_row_products(sums[i], rows + (i * 64 * kRowBytes + k16 * 32) / 16, columns + k16 * 16 * kRowBytes / 16,
                           step + k16 > 0 ? 1 : 0);
      }
    }
    close_products();
    wait_for_products<1>();
    if (step > 0 && lane == 0) arrive(ring.empty + before * 8);
    before = stage;
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
  wait_for_products<0>();
  const int row = place.m0 + group * S::kRowBlocks * 64 + static_cast<int>(threadIdx.x % kGroupThreads / 32) * 16;
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) {
    settle(sums[i]);
    finish_rows(a, place, row + i * 64 + lane / 4, sums[i]);
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads, S::kMinBlocks) wgmma_kernel(const __grid_constant__ Arguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t stages = shared_address(shared);
  const std::uint32_t full = stages + S::kStages * S::kStageBytes;
  const Ring ring{stages, full, full + S::kStages * 8};
  const TilePlace place = conv_gemm::place_of<S::kBm, S::kBn>(a, static_cast<int>(blockIdx.x));
  if (threadIdx.x == kGroups * kGroupThreads) {
    prefetch(a.weights);
    prefetch(a.pixels);
    for (int i = 0; i < S::kStages; ++i) {
      init_barrier(ring.full + i * 8, 1);
      init_barrier(ring.empty + i * 8, kGroups * 4);
    }
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x == kGroups * kGroupThreads) {
    fill<S>(a, place, ring);
  } else {
    wait_for_predecessor();
    if (threadIdx.x < kGroups * kGroupThreads) multiply<S>(a, place, ring);
  }
}

}  // namespace mobicuda::kernels::conv_wgmma
