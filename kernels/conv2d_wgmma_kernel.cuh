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

/// A cluster of cluster_m x cluster_n blocks has neighbouring tiles of rows and columns.
struct Config {
  int bm, bn;
  int stages;
  int min_blocks;  ///< per multiprocessor
  int cluster_m, cluster_n;
};

template <Config kConfig>
struct Shape {
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr int kClusterM = kConfig.cluster_m;
  static constexpr int kClusterN = kConfig.cluster_n;
  static constexpr int kBlocks = kClusterM * kClusterN;
  static constexpr int kCopiedPixels = kBm / kClusterN;  ///< by one copy, for all blocks with these rows
  static constexpr int kCopiedK = kSliceK / kClusterM;   ///< by one copy of weights, for all blocks with these columns
  static constexpr int kPanelBytes = kSliceK * kRowBytes;  ///< 64 columns of a slice of B
  static constexpr int kABytes = kBm * kRowBytes;
  static constexpr int kStageBytes = kABytes + kBn / 64 * kPanelBytes;
  static constexpr int kSharedBytes = kStages * (kStageBytes + 16);
  static constexpr int kRowBlocks = kBm / (64 * kGroups);  ///< of 64 rows, of a group of warps
  static constexpr int kSums = kBn / 2;                    ///< of a thread in a block of rows
  static_assert(kBm % (64 * kGroups) == 0 && kBn % 64 == 0 && kClusterM <= 2 && kClusterN <= 2);
};

struct Ring {
  std::uint32_t stages, full, empty;
};

/// Of a block in its cluster.
struct Rank {
  int m, n;
};

/// This block's share of a slice of B, for all blocks with these columns.
template <class S>
__device__ __forceinline__ void copy_weights(const Arguments& a, const TilePlace& place, const Rank& rank,
                                             const Ring& ring, int stage, int step) {
  const int tap = step / a.tap_slices;
  const int ci = (step - tap * a.tap_slices) * kSliceK + rank.m * S::kCopiedK;
  const std::uint32_t full = ring.full + stage * 8;
  const std::uint32_t to = ring.stages + stage * S::kStageBytes + S::kABytes + rank.m * S::kCopiedK * kRowBytes;
  const auto column_blocks = static_cast<std::uint16_t>(((1U << S::kClusterM) - 1U) << (rank.n * S::kClusterM));
  expect_bytes(full, S::kStageBytes);
#pragma unroll
  for (int panel = 0; panel < S::kBn / 64; ++panel) {
    copy_rows<(S::kClusterM > 1)>(to + panel * S::kPanelBytes, a.weights, place.n0 + panel * 64, ci, tap, full,
                                  column_blocks);
  }
}

/// What the thread that fills the ring does. A block's slot is free when all blocks of the cluster have used theirs, as
/// its copies go to theirs as well.
template <class S>
__device__ __forceinline__ void fill(const Arguments& a, const TilePlace& place, const Rank& rank, const Ring& ring) {
  std::uint32_t pixel;
  std::uint32_t ox;
  const int first_pixel = place.m0 + rank.n * S::kCopiedPixels;
  const auto n = static_cast<int>(a.of_picture.divide(static_cast<std::uint32_t>(first_pixel), pixel));
  const auto oy = static_cast<int>(a.of_row.divide(pixel, ox));
  const int y = oy * a.stride_h - a.pad_top;
  const int x = static_cast<int>(ox) * a.stride_w - a.pad_left;
  const auto row_blocks = static_cast<std::uint16_t>((1U | 1U << S::kClusterM) << rank.m);
  const auto copy_a = [&](int stage, int step) {
    const int tap = step / a.tap_slices;
    const int ci = (step - tap * a.tap_slices) * kSliceK;
    const int ky = tap / a.kernel_w;
    const int kx = tap - ky * a.kernel_w;
    copy_pixels<(S::kClusterN > 1)>(ring.stages + stage * S::kStageBytes + rank.n * S::kCopiedPixels * kRowBytes,
                                    a.pixels, place.group * a.group_in + ci, x, y, n, kx * a.dilation_w,
                                    ky * a.dilation_h, ring.full + stage * 8, row_blocks);
  };
  const int early = min(S::kStages, a.slices);
  for (int step = 0; step < early; ++step) copy_weights<S>(a, place, rank, ring, step, step);
  wait_for_predecessor();
  for (int step = 0; step < early; ++step) copy_a(step, step);
  int stage = 0;
  std::uint32_t parity = 0;
  for (int step = early; step < a.slices; ++step) {
    wait_for(ring.empty + stage * 8, parity);
    copy_weights<S>(a, place, rank, ring, stage, step);
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
      if (m + half * 8 < a.m && n < place.n_end) conv_gemm::finish_run<8>(a, m + half * 8, n, place.n_end, value);
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
    if (step > 0 && lane < S::kBlocks) arrive_at(ring.empty + before * 8, lane);
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

/// Until all threads of the cluster are here; barriers that were initialised before are seen by all.
template <int kBlocks>
__device__ __forceinline__ void sync_blocks() {
  if constexpr (kBlocks > 1) {
    sync_cluster();
  } else {
    __syncthreads();
  }
}

/// Tiles of a cluster are neighbours; those behind the last row or column have nothing to store.
template <class S>
__device__ __forceinline__ TilePlace place_in_cluster(const Arguments& a, int cluster, const Rank& rank) {
  const int group_clusters = (a.group_tiles + S::kClusterN - 1) / S::kClusterN;
  const int n_clusters = a.n_tiles / a.group_tiles * group_clusters;
  const int m_cluster = cluster / n_clusters;
  const int n_cluster = cluster - m_cluster * n_clusters;
  const int group = n_cluster / group_clusters;
  const int first = group * a.group_out;
  const int n_tile = (n_cluster - group * group_clusters) * S::kClusterN + rank.n;
  return {(m_cluster * S::kClusterM + rank.m) * S::kBm, first + n_tile * S::kBn, first + a.group_out, group};
}

template <class S>
__global__ void __launch_bounds__(kThreads, S::kMinBlocks) wgmma_kernel(const __grid_constant__ Arguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t stages = shared_address(shared);
  const std::uint32_t full = stages + S::kStages * S::kStageBytes;
  const Ring ring{stages, full, full + S::kStages * 8};
  const int in_cluster = static_cast<int>(blockIdx.x) % S::kBlocks;
  const Rank rank{in_cluster % S::kClusterM, in_cluster / S::kClusterM};
  const TilePlace place = place_in_cluster<S>(a, static_cast<int>(blockIdx.x) / S::kBlocks, rank);
  if (threadIdx.x == kGroups * kGroupThreads) {
    prefetch(a.weights);
    prefetch(a.pixels);
    for (int i = 0; i < S::kStages; ++i) {
      init_barrier(ring.full + i * 8, 1);
      init_barrier(ring.empty + i * 8, S::kBlocks * kGroups * 4);
    }
    publish_barriers();
  }
  sync_blocks<S::kBlocks>();
  if (threadIdx.x == kGroups * kGroupThreads) {
    fill<S>(a, place, rank, ring);
  } else {
    wait_for_predecessor();
    if (threadIdx.x < kGroups * kGroupThreads) multiply<S>(a, place, ring);
  }
  if constexpr (S::kBlocks > 1) {
    __syncwarp();
    sync_blocks<S::kBlocks>();  // other blocks may still tell this one's barriers
  }
}

}  // namespace mobicuda::kernels::conv_wgmma
