// The tiled variants. A block owns one strip of kBn output channels and walks over tiles of kBm output pixels; slices
// of kBk bytes of k of X (and of W) pass through a ring of kStages buffers in shared memory, filled by cp.async ahead
// of the arithmetic and across the border between tiles. Rows of X are pixels (a pointwise convolution of stride 1), or
// are gathered, a chunk of 16 bytes lying within one tap of the window. Shared memory: bias | multiplier | partial sums
// (kSplitK > 1) | W slices | X slices.
#pragma once

#include "kernels/common/slices.cuh"
#include "kernels/int8_conv2d/arguments.cuh"
#include "kernels/int8_conv2d/mma.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::int8_conv {

template <class Tile>
inline constexpr int kChannelBytes = Tile::kBn * 4 + (128 - Tile::kBn * 4 % 128) % 128;  // of bias or multiplier
template <class Tile>
inline constexpr int kPartialBytes = Tile::kSplitK > 1 ? Tile::kSplitK* Tile::kBm* Tile::kBn * 4 : 0;

/// Shared memory of a launch; `steps` slices are the most that a block sees.
template <class Tile>
constexpr std::size_t shared_bytes(int k_slices, std::int64_t steps) {
  const std::int64_t slots = steps < Tile::kStages ? steps : Tile::kStages;
  return static_cast<std::size_t>(2 * kChannelBytes<Tile> + kPartialBytes<Tile> + slots * kXSliceBytes<Tile> +
                                  (Tile::kResident ? std::int64_t{k_slices} : slots) * kWSliceBytes<Tile>);
}

/// Slices of X whose rows are pixels.
template <class Tile>
class PixelRows {
 public:
  __device__ __forceinline__ explicit PixelRows(const Arguments& a) : a_(a) {}

  __device__ __forceinline__ void start(int tile) { m0_ = tile * Tile::kBm; }

  __device__ __forceinline__ void fill(unsigned char* slice, int k_slice) const {
    const std::int8_t* rows = a_.x + static_cast<std::size_t>(m0_) * static_cast<std::size_t>(a_.x_pitch);
    fill_slice<Tile, Tile::kBm, Tile::kXPeriod, false>(slice, rows, a_.m - m0_, a_.x_pitch, k_slice * Tile::kBk, a_.k,
                                                       [](int m) { return m; });
  }

 private:
  const Arguments& a_;
  int m0_ = 0;
};

/// Slices of X whose rows are windows.
template <class Tile>
class WindowRows {
 public:
  __device__ __forceinline__ explicit WindowRows(const Arguments& a) : a_(a) {}

  __device__ __forceinline__ void start(int tile) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) places_[i] = window_of(a_, tile * Tile::kBm + row(i));
  }

  __device__ __forceinline__ void fill(unsigned char* slice, int k_slice) const {
    const int chunk = static_cast<int>(threadIdx.x % kChunks);
    std::uint32_t in_tap;
    std::uint32_t kx;
    const std::uint32_t tap = a_.of_tap.divide(static_cast<std::uint32_t>(k_slice * kChunks + chunk), in_tap);
    const std::uint32_t ky = a_.of_window_row.divide(tap, kx);
    const bool is_tap = tap < static_cast<std::uint32_t>(a_.taps);
    const int dy = static_cast<int>(ky) * a_.dilation_h;
    const int dx = static_cast<int>(kx) * a_.dilation_w;
    const std::int64_t offset = (static_cast<std::int64_t>(dy) * a_.w_extent + dx) * a_.x_pitch +
                                static_cast<std::int64_t>(in_tap) * kChunkBytes;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (Tile::kBm % kRowsAtOnce != 0 && row(i) >= Tile::kBm) break;
      unsigned char* const to = slice + Tile::chunk_offset(row(i), chunk);
      if (is_tap && is_inside(a_, places_[i].iy + dy, places_[i].ix + dx)) {
        ptx::copy_async_cg_128_or_zero(to, a_.x + (places_[i].at + offset), true);
      } else {
        // Behind the last tap W has zeros.
        *reinterpret_cast<uint4*>(to) = make_uint4(a_.x_zero, a_.x_zero, a_.x_zero, a_.x_zero);
      }
    }
  }

 private:
  static constexpr int kChunks = Tile::kBk / kChunkBytes;
  static constexpr int kRowsAtOnce = Tile::kThreads / kChunks;
  static constexpr int kRows = (Tile::kBm + kRowsAtOnce - 1) / kRowsAtOnce;

  __device__ __forceinline__ static int row(int i) { return static_cast<int>(threadIdx.x / kChunks) + i * kRowsAtOnce; }

  const Arguments& a_;
  WindowPlace places_[kRows];
};

/// Ends a tile whose sums are spread over kSplitK groups of warps, four neighbouring columns a thread.
template <class Tile>
__device__ __forceinline__ void finish_split(const Arguments& a, const typename Tile::Sums& sums, int m0, int n0,
                                             std::int32_t* partial, const std::int32_t* bias, const float* multiplier) {
  sums.store_partial(partial);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kBm * Tile::kBn / 4; i += Tile::kThreads) {
    const int row = i / (Tile::kBn / 4);
    const int column = i % (Tile::kBn / 4) * 4;
    std::int32_t total[4] = {};
#pragma unroll
    for (int group = 0; group < Tile::kSplitK; ++group) {
      const auto part = load<4>(partial + (group * Tile::kBm + row) * Tile::kBn + column);
#pragma unroll
      for (int j = 0; j < 4; ++j) total[j] = add_wrapping(total[j], part.item[j]);
    }
    finish_run<4>(a, m0 + row, n0 + column, total, load_channels<4>(bias + column, multiplier + column));
  }
}

template <class Tile, template <class> class Rows>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks) conv_kernel(const Arguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  const int n0 = static_cast<int>(blockIdx.x) * Tile::kBn;
  const int m_tile_stride = static_cast<int>(gridDim.y);
  int m_tile = static_cast<int>(blockIdx.y);
  const int steps = (a.whole_rounds + (m_tile < a.last_round ? 1 : 0)) * a.k_slices;

  std::int32_t* const bias = reinterpret_cast<std::int32_t*>(shared);
  float* const multiplier = reinterpret_cast<float*>(shared + kChannelBytes<Tile>);
  std::int32_t* const partial = reinterpret_cast<std::int32_t*>(shared + 2 * kChannelBytes<Tile>);
  unsigned char* const w_slices = shared + 2 * kChannelBytes<Tile> + kPartialBytes<Tile>;
  const int w_slots = Tile::kResident ? a.k_slices : (steps < Tile::kStages ? steps : Tile::kStages);
  unsigned char* const x_slices = w_slices + w_slots * kWSliceBytes<Tile>;

  const auto fill_w = [&](int slot, int k_slice) {
    const std::int8_t* rows = a.w + static_cast<std::size_t>(n0) * static_cast<std::size_t>(a.k);
    fill_slice<Tile, Tile::kBn, Tile::kWPeriod, false>(w_slices + slot * kWSliceBytes<Tile>, rows, a.w_rows - n0, a.k,
                                                       k_slice * Tile::kBk, a.k, [](int n) { return Tile::w_row(n); });
  };

  // Weights do not depend on the predecessor.
  if constexpr (Tile::kResident) {
    for (int k_slice = 0; k_slice < a.k_slices; ++k_slice) fill_w(k_slice, k_slice);
  } else {
    for (int s = 0; s < Tile::kStages - 1 && s < steps; ++s) fill_w(s, s % a.k_slices);
  }
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kBn; i += Tile::kThreads) {
    const bool is_there = n0 + i < a.w_rows;
    bias[i] = is_there ? __ldg(a.bias + n0 + i) : 0;
    multiplier[i] = is_there ? __ldg(a.multiplier + n0 + i) : 0.0F;
  }
  wait_for_predecessor();

  Rows<Tile> rows(a);
  int ahead_tile = m_tile;  // of the slice that is filled next
  int ahead_slice = 0;
  rows.start(ahead_tile);
  const auto fill_next_x = [&](int slot) {
    rows.fill(x_slices + slot * kXSliceBytes<Tile>, ahead_slice);
    if (++ahead_slice == a.k_slices) {
      ahead_slice = 0;
      ahead_tile += m_tile_stride;
      rows.start(ahead_tile);
    }
  };
#pragma unroll
  for (int s = 0; s < Tile::kStages - 1; ++s) {
    if (s < steps) fill_next_x(s);
    ptx::copy_async_commit();
  }

  typename Tile::Sums sums;
  int k_slice = 0;
  int slot = 0;
  for (int step = 0; step < steps; ++step) {
    ptx::copy_async_wait<Tile::kStages - 2>();
    __syncthreads();  // this step's slot is full for all, and the preceding step's slot is free
    if (step + Tile::kStages - 1 < steps) {
      const int free_slot = slot == 0 ? Tile::kStages - 1 : slot - 1;
      if constexpr (!Tile::kResident) fill_w(free_slot, ahead_slice);
      fill_next_x(free_slot);
    }
    ptx::copy_async_commit();

    sums.add(x_slices + slot * kXSliceBytes<Tile>, w_slices + (Tile::kResident ? k_slice : slot) * kWSliceBytes<Tile>);

    slot = slot + 1 == Tile::kStages ? 0 : slot + 1;
    if (++k_slice == a.k_slices) {
      const int m0 = m_tile * Tile::kBm;
      if constexpr (Tile::kSplitK > 1) {
        finish_split<Tile>(a, sums, m0, n0, partial, bias, multiplier);
      } else {
        sums.visit_runs([&](int row, int column, const std::int32_t(&run)[Tile::kRun]) {
          finish_run<Tile::kRun>(a, m0 + row, n0 + column, run,
                                 load_channels<Tile::kRun>(bias + column, multiplier + column));
        });
      }
      sums.clear();
      k_slice = 0;
      m_tile += m_tile_stride;
    }
  }
}

}  // namespace mobicuda::kernels::int8_conv
