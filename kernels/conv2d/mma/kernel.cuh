// Convolution as an implicit matrix product with mma.sync (half, float sums), sm_80 and newer. A block computes a tile
// of kBm output pixels x kBn channels of one group; slices of kBk of k pass through a ring in shared memory, filled by
// cp.async. Slices of A are gathered pixel by pixel in chunks of 8 or 4 channels, zeros outside the image; slices of B
// are rows of the packed weights. With kBlocks > 1 the blocks of a cluster share a tile's sum over k: their sums meet
// in distributed shared memory and are added in the order of the blocks.
// Shared memory: the ring, then the sums in its place.
#pragma once

#include "kernels/common/swizzle.cuh"
#include "kernels/conv2d/gemm_arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::conv_gemm {

struct MmaConfig {
  int bm, bn, bk;
  int warps_m, warps_n, warps_k;
  int stages;
  int blocks;              ///< of a cluster, which share the sum
  int min_blocks;          ///< per multiprocessor, for the register budget
  int chunk_channels = 8;  ///< of A, which are copied at once
};

constexpr int larger(int a, int b) { return a > b ? a : b; }

template <MmaConfig kConfig>
struct MmaConv {
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kBk = kConfig.bk;
  static constexpr int kWarpsK = kConfig.warps_k;
  static constexpr int kThreads = 32 * kConfig.warps_m * kConfig.warps_n * kWarpsK;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kBlocks = kConfig.blocks;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr int kChunkChannels = kConfig.chunk_channels;
  static constexpr int kABytes = kBm * kBk * 2;
  static constexpr int kStageBytes = kABytes + kBk * kBn * 2;
  static constexpr int kSumPitch = kBn + 8;  // floats, so that four rows of sums lie in different banks
  static constexpr int kSharedBytes = larger(kStages * kStageBytes, kWarpsK* kBm* kSumPitch * 4);

  static constexpr int kWarpM = kBm / kConfig.warps_m;
  static constexpr int kWarpN = kBn / kConfig.warps_n;
  static constexpr int kFragmentsM = kWarpM / 16;
  static constexpr int kFragmentsN = kWarpN / 8;
  static constexpr int kStepsK = kBk / 16 / kWarpsK;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kBk % (16 * kWarpsK) == 0 && kStages >= 2);
  static_assert(kChunkChannels == 8 || kChunkChannels == 4);

  __device__ __forceinline__ static int lane() { return ptx::as_int::lane(); }
  __device__ __forceinline__ static int warp_m() { return ptx::as_int::warp() % kConfig.warps_m; }
  __device__ __forceinline__ static int warp_n() { return ptx::as_int::warp() / kConfig.warps_m % kConfig.warps_n; }
  __device__ __forceinline__ static int warp_k() { return ptx::as_int::warp() / (kConfig.warps_m * kConfig.warps_n); }
};

/// Copies slices of A. A thread has the same chunk of channels of each of its rows. No chunk crosses the border between
/// taps, nor that to the second convolution: a group has whole chunks of channels.
template <class Tile, bool kSecond>
class Gather {
 public:
  __device__ __forceinline__ Gather(const Arguments& a, const TilePlace& place) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int m = place.m0 + row(i);
      if (m >= a.m) {
        y_[i] = kOutside;
        x_[i] = kOutside;
        pixel_[i] = a.x;
        if constexpr (kSecond) second_.pixel[i] = a.second;
        continue;
      }
      std::uint32_t pixel;
      std::uint32_t ox;
      const std::uint32_t n = a.of_picture.divide(static_cast<std::uint32_t>(m), pixel);
      const std::uint32_t oy = a.of_row.divide(pixel, ox);
      y_[i] = static_cast<int>(oy) * a.stride_h - a.pad_top;
      x_[i] = static_cast<int>(ox) * a.stride_w - a.pad_left;
      pixel_[i] =
          a.x + ((static_cast<std::int64_t>(n) * a.h + y_[i]) * a.w + x_[i]) * a.c_in + place.group * a.group_in;
      if constexpr (kSecond) {
        const auto y = static_cast<std::int64_t>(oy) * a.second_stride_h;
        const auto x = static_cast<std::int64_t>(ox) * a.second_stride_w;
        second_.pixel[i] = a.second + ((n * a.second_h + y) * a.second_w + x) * a.second_in;
      }
    }
  }

  __device__ __forceinline__ void copy(const Arguments& a, unsigned char* slice, int index) const {
    const int k = index * Tile::kBk + chunk() * Tile::kChunkChannels;
    if constexpr (kSecond) {
      if (k >= a.group_in) {
        copy_second(a, slice, k);
        return;
      }
    }
    std::uint32_t ci;
    std::uint32_t kx;
    const std::uint32_t tap = a.of_tap.divide(static_cast<std::uint32_t>(k), ci);
    const std::uint32_t ky = a.of_window_row.divide(tap, kx);
    const int dy = static_cast<int>(ky) * a.dilation_h;
    const int dx = static_cast<int>(kx) * a.dilation_w;
    const std::int64_t offset = (static_cast<std::int64_t>(dy) * a.w + dx) * a.c_in + ci;
    const bool is_tap = k < a.k;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const bool inside = is_tap && static_cast<unsigned>(y_[i] + dy) < static_cast<unsigned>(a.h) &&
                          static_cast<unsigned>(x_[i] + dx) < static_cast<unsigned>(a.w);
      const __half* const from = inside ? pixel_[i] + offset : a.x;
      if constexpr (Tile::kChunkChannels == 8) {
        ptx::copy_async_cg_128_or_zero(slice + swizzled_offset<Tile::kBk * 2>(row(i), chunk()), from, inside);
      } else {  // half of an exchanged chunk; only 16 bytes can be copied past the first-level cache
        unsigned char* const to = slice + swizzled_offset<Tile::kBk * 2>(row(i), chunk() / 2) + chunk() % 2 * 8;
        ptx::copy_async_ca_or_zero<8>(ptx::shared_address(to), from, inside);
      }
    }
  }

 private:
  static constexpr int kChunks = Tile::kBk / Tile::kChunkChannels;
  static constexpr int kRowsAtOnce = Tile::kThreads / kChunks;
  static constexpr int kRows = Tile::kBm / kRowsAtOnce;
  static constexpr int kOutside = -(1 << 30);  // with any tap
  static_assert(Tile::kThreads % kChunks == 0 && Tile::kBm % kRowsAtOnce == 0);

  /// The first convolution is pointwise, of one group.
  __device__ __forceinline__ void copy_second(const Arguments& a, unsigned char* slice, int k) const {
    static_assert(Tile::kChunkChannels == 8);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const bool inside = k < a.k && y_[i] >= 0;
      ptx::copy_async_cg_128_or_zero(slice + swizzled_offset<Tile::kBk * 2>(row(i), chunk()),
                                     inside ? second_.pixel[i] + (k - a.group_in) : a.second, inside);
    }
  }

  __device__ __forceinline__ static int chunk() { return static_cast<int>(threadIdx.x % kChunks); }
  __device__ __forceinline__ static int row(int i) { return static_cast<int>(threadIdx.x / kChunks) + i * kRowsAtOnce; }

  int y_[kRows], x_[kRows];  // of the window's first tap
  const __half* pixel_[kRows];
  struct Second {
    const __half* pixel[kRows];
  };
  struct Nothing {};
  std::conditional_t<kSecond, Second, Nothing> second_;
};

/// Copies a slice of B: rows of the packed weights.
template <class Tile>
__device__ __forceinline__ void copy_weights(const Arguments& a, const TilePlace& place, unsigned char* slice,
                                             int index) {
  constexpr int kChunks = Tile::kBn / 8;
  constexpr int kRowsAtOnce = Tile::kThreads / kChunks;
  static_assert(Tile::kThreads % kChunks == 0 && Tile::kBk % kRowsAtOnce == 0);
  const int chunk = static_cast<int>(threadIdx.x % kChunks);
  const int n = place.n0 + chunk * 8;
#pragma unroll
  for (int i = 0; i < Tile::kBk / kRowsAtOnce; ++i) {
    const int row = static_cast<int>(threadIdx.x / kChunks) + i * kRowsAtOnce;
    const int k = index * Tile::kBk + row;
    const bool inside = k < a.k && n < place.n_end;
    const __half* const from = a.weight + static_cast<std::int64_t>(k) * a.weight_pitch + n;
    ptx::copy_async_cg_128_or_zero(slice + swizzled_offset<Tile::kBn * 2>(row, chunk), inside ? from : a.weight,
                                   inside);
  }
}

template <class Tile>
using Sums = float[Tile::kFragmentsM][Tile::kFragmentsN][4];

template <class Tile>
__device__ __forceinline__ void multiply_slice(Sums<Tile>& sums, const unsigned char* a_slice,
                                               const unsigned char* b_slice) {
  const int lane = Tile::lane();
  const int a_row = Tile::warp_m() * Tile::kWarpM + lane % 16;
  const int b_chunk = Tile::warp_n() * Tile::kWarpN / 8 + lane / 16;
#pragma unroll
  for (int step = 0; step < Tile::kStepsK; ++step) {
    const int k16 = Tile::warp_k() * Tile::kStepsK + step;
    std::uint32_t a[Tile::kFragmentsM][4];
    std::uint32_t b[Tile::kFragmentsN / 2][4];  // {b0, b1} of two fragments
#pragma unroll
    for (int i = 0; i < Tile::kFragmentsM; ++i) {
      ptx::ldmatrix_x4(a[i], a_slice + swizzled_offset<Tile::kBk * 2>(a_row + i * 16, k16 * 2 + lane / 16));
    }
#pragma unroll
    for (int j = 0; j < Tile::kFragmentsN / 2; ++j) {
      ptx::ldmatrix_x4_trans(b[j], b_slice + swizzled_offset<Tile::kBn * 2>(k16 * 16 + lane % 16, b_chunk + j * 2));
    }
#pragma unroll
    for (int i = 0; i < Tile::kFragmentsM; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kFragmentsN; ++j) {
        ptx::mma_16x8x16(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

/// To (kWarpsK, kBm, kSumPitch) in shared memory.
template <class Tile>
__device__ __forceinline__ void store_sums(const Sums<Tile>& sums, float* shared) {
  const int lane = Tile::lane();
  const int row = Tile::warp_k() * Tile::kBm + Tile::warp_m() * Tile::kWarpM + lane / 4;
  float* const to = shared + row * Tile::kSumPitch + Tile::warp_n() * Tile::kWarpN + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < Tile::kFragmentsM; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::kFragmentsN; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<float2*>(to + (i * 16 + half * 8) * Tile::kSumPitch + j * 8) =
            make_float2(sums[i][j][half * 2], sums[i][j][half * 2 + 1]);
      }
    }
  }
}

/// Until all threads of the cluster are here and see each other's writes to shared memory.
template <int kBlocks>
__device__ __forceinline__ void sync_blocks() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (kBlocks > 1) {
    sync_cluster();
    return;
  }
#endif
  __syncthreads();
}

/// Adds 8 floats that lie at `from` in the shared memory of block `block` of the cluster.
template <int kBlocks>
__device__ __forceinline__ void add_from(float (&value)[8], const float* from, [[maybe_unused]] int block) {
  float4 part[2] = {};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (kBlocks > 1) {
    const std::uint32_t there = ptx::map_to_rank(ptx::shared_address(from), block);
#pragma unroll
    for (int i = 0; i < 2; ++i) part[i] = ptx::load_cluster(there + i * 16);
  }
#endif
  if constexpr (kBlocks == 1) {
    part[0] = reinterpret_cast<const float4*>(from)[0];
    part[1] = reinterpret_cast<const float4*>(from)[1];
  }
  const float all[8] = {part[0].x, part[0].y, part[0].z, part[0].w, part[1].x, part[1].y, part[1].z, part[1].w};
#pragma unroll
  for (int i = 0; i < 8; ++i) value[i] += all[i];
}

/// A block's share of the tile's outputs, in runs of 8 channels.
template <class Tile>
__device__ __forceinline__ void finish_tile(const Arguments& a, const TilePlace& place, const float* sums, int rank) {
  constexpr int kRowRuns = Tile::kBn / 8;
  constexpr int kRuns = Tile::kBm * kRowRuns / Tile::kBlocks;
  constexpr int kRounds = (kRuns + Tile::kThreads - 1) / Tile::kThreads;
#pragma unroll 2
  for (int round = 0; round < kRounds; ++round) {
    const int own = static_cast<int>(threadIdx.x) + round * Tile::kThreads;
    if (kRuns % Tile::kThreads != 0 && own >= kRuns) break;
    const int run = rank * kRuns + own;
    const int row = run / kRowRuns;
    const int column = run % kRowRuns * 8;
    if (place.m0 + row >= a.m || place.n0 + column >= place.n_end) continue;
    float value[8] = {};
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; ++block) {
#pragma unroll
      for (int warp = 0; warp < Tile::kWarpsK; ++warp) {
        add_from<Tile::kBlocks>(value, sums + (warp * Tile::kBm + row) * Tile::kSumPitch + column, block);
      }
    }
    finish_run<8>(a, place.m0 + row, place.n0 + column, place.n_end, value);
  }
}

/// kSecond: there is a second convolution.
template <class Tile, bool kSecond>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks) mma_kernel(const __grid_constant__ Arguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  const int rank = static_cast<int>(blockIdx.x) % Tile::kBlocks;
  const TilePlace place = place_of<Tile::kBm, Tile::kBn>(a, static_cast<int>(blockIdx.x) / Tile::kBlocks);
  const int first = rank * a.slices / Tile::kBlocks;
  const int steps = (rank + 1) * a.slices / Tile::kBlocks - first;

  // Weights do not depend on the predecessor.
  for (int s = 0; s < Tile::kStages - 1 && s < steps; ++s) {
    copy_weights<Tile>(a, place, shared + s * Tile::kStageBytes + Tile::kABytes, first + s);
  }
  const Gather<Tile, kSecond> gather(a, place);
  bring_next_weights(a.next);
  wait_for_predecessor();
#pragma unroll
  for (int s = 0; s < Tile::kStages - 1; ++s) {
    if (s < steps) gather.copy(a, shared + s * Tile::kStageBytes, first + s);
    ptx::copy_async_commit();
  }

  Sums<Tile> sums = {};
  int slot = 0;
  for (int step = 0; step < steps; ++step) {
    ptx::copy_async_wait<Tile::kStages - 2>();
    __syncthreads();  // this step's slot is full for all, and the preceding step's slot is free
    const int next = step + Tile::kStages - 1;
    if (next < steps) {
      unsigned char* const free = shared + (slot == 0 ? Tile::kStages - 1 : slot - 1) * Tile::kStageBytes;
      gather.copy(a, free, first + next);
      copy_weights<Tile>(a, place, free + Tile::kABytes, first + next);
    }
    ptx::copy_async_commit();
    const unsigned char* const slice = shared + slot * Tile::kStageBytes;
    multiply_slice<Tile>(sums, slice, slice + Tile::kABytes);
    slot = slot + 1 == Tile::kStages ? 0 : slot + 1;
  }

  ptx::copy_async_wait<0>();
  __syncthreads();  // the ring is free
  float* const tile_sums = reinterpret_cast<float*>(shared);
  store_sums<Tile>(sums, tile_sums);
  sync_blocks<Tile::kBlocks>();
  finish_tile<Tile>(a, place, tile_sums, rank);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (Tile::kBlocks > 1) end_cluster();  // others may still read this block's sums
#endif
}

}  // namespace mobicuda::kernels::conv_gemm
