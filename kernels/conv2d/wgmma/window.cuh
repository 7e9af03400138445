// Convolution of stride 1 or 2 as an implicit matrix product with wgmma (half, float sums), whose input window stays in
// shared memory for all taps. A block computes kBm rows x kBn channels. Its rows are pixels of all images in a line
// that has padding as well (../window_line.h): a tap is a constant distance in this line, or in one of its four planes,
// and sums of padding are not stored. One thread copies windows, 64 channels of all pixels that a tile
// reads, row by row by tensor copies, into one of two buffers; another fills a ring with slices of the weights, 64
// channels of a tap. Groups of four warps share the rows. wgmma takes an operand that begins at any row of the swizzled
// window: the swizzle goes by the address. The blocks of a cluster may share a tile's sum: each has a part of the
// channels, and finishes a part of the rows, of which the others send it their sums. Shared memory: the ring; two
// windows; sums that others send; barriers.
#pragma once

#include "kernels/conv2d/wgmma/finish.cuh"
#include "kernels/conv2d/wgmma/shape.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace mobicuda::kernels::conv_wgmma {

inline constexpr int kMostWindows = 2;  ///< in shared memory

struct WindowArguments : conv_gemm::Arguments {
  CUtensorMap pixels, weights;
  int out_h, out_w;
  int kernel_h, kernel_w;
  int channel_slices;  ///< of a group
  int stride;
  int taps_h, taps_w, columns, image_rows;  ///< as WindowLine has them
  int line;                                 ///< rows of tiles, up to the last output
  int stages;                               ///< of the ring
  int windows;                              ///< in shared memory: no more than a block has slices
  int plane_bytes, window_bytes;
  // From a tap to the next of its row, and from a row of taps to the next, by turns: 16 bytes.
  int column_steps[2], row_steps[2];
  FastDivision of_columns, of_image_rows;
};

struct WindowConfig {
  int bm, bn;
  int split = 1;   ///< blocks of a cluster, which share a tile's sum
  int groups = 2;  ///< of four warps, which share the rows
};

template <WindowConfig kConfig>
struct WindowShape {
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kSplit = kConfig.split;
  static constexpr int kGroups = kConfig.groups;
  static constexpr int kComputeThreads = kGroups * kGroupThreads;
  static constexpr int kBlockThreads = kComputeThreads + 64;
  static constexpr int kPanels = kBn / kPanelColumns;
  static constexpr int kPanelBytes = kSliceK * kRowBytes;
  static constexpr int kStageBytes = kPanels * kPanelBytes;
  static constexpr int kRowBlocks = kBm / (64 * kGroups);
  static constexpr int kSums = kBn / 2;
  static constexpr int kOwnRows = kBm / kSplit;  ///< that a block finishes
  // Sums lie row by row; the next row is eight banks further, so that four rows lie in different banks.
  static constexpr int kSumRowBytes = (kBn + 8) * static_cast<int>(sizeof(float));
  static constexpr int kSumsBytes = kSplit == 1 ? 0 : kBm * kSumRowBytes;
  static constexpr int kLeastStages = 3;
  static constexpr int kMostStages = 8;
  static_assert(kBm % (64 * kGroups) == 0 && kBn % kPanelColumns == 0 && kBm % kSplit == 0);

  static constexpr int shared_bytes(int stages, int windows, int window_bytes) {
    return stages * kStageBytes + windows * window_bytes + kSumsBytes + (2 * stages + 2 * kMostWindows + 1) * 8;
  }
};

struct WindowRing {
  std::uint32_t stages, windows;
  std::uint32_t sums;         ///< of this block's rows, from all blocks of the cluster, one after the other
  std::uint32_t full, empty;  ///< of the stages
  std::uint32_t window_full, window_empty;  ///< of the windows
  std::uint32_t sums_full;

  template <class S>
  static __device__ __forceinline__ WindowRing of(const WindowArguments& a, std::uint32_t shared) {
    const std::uint32_t windows = shared + a.stages * S::kStageBytes;
    const std::uint32_t sums = windows + a.windows * a.window_bytes;
    const std::uint32_t full = sums + S::kSumsBytes;
    const std::uint32_t window_full = full + a.stages * 16;
    const std::uint32_t window_empty = window_full + kMostWindows * 8;
    return {
        shared, windows, sums, full, full + a.stages * 8, window_full, window_empty, window_empty + kMostWindows * 8};
  }
};

/// Slices of 64 channels that a block multiplies: all, or its share of a cluster's.
struct ChannelSlices {
  int first, count;

  template <class S>
  static __device__ __forceinline__ ChannelSlices of(const WindowArguments& a) {
    const int rank = static_cast<int>(blockIdx.x) % S::kSplit;
    const int first = rank * a.channel_slices / S::kSplit;
    return {first, (rank + 1) * a.channel_slices / S::kSplit - first};
  }
};

/// What the thread that fills the ring does; weights are no predecessor's.
template <class S>
__device__ __forceinline__ void fill_weights(const WindowArguments& a, const TilePlace& place,
                                             const ChannelSlices& slices, const WindowRing& ring) {
  int stage = 0;
  std::uint32_t parity = 1;  // nobody has to free a stage before its first slice
  const int taps = a.kernel_h * a.kernel_w;
#pragma unroll 1
  for (int slice = slices.first; slice < slices.first + slices.count; ++slice) {
#pragma unroll 1
    for (int tap = 0; tap < taps; ++tap) {
      const std::uint32_t full = ring.full + stage * 8;
      ptx::mbarrier_wait(ring.empty + stage * 8, parity);
      ptx::mbarrier_arrive_expect(full, S::kStageBytes);
#pragma unroll
      for (int panel = 0; panel < S::kPanels; ++panel) {
        ptx::copy_box<1>(ring.stages + stage * S::kStageBytes + panel * S::kPanelBytes, a.weights,
                         place.n0 + panel * kPanelColumns, slice * kSliceK, tap, full);
      }
      if (++stage == a.stages) {
        stage = 0;
        parity ^= 1U;
      }
    }
  }
}

/// What the thread that copies windows does.
template <class S>
__device__ __forceinline__ void fill_windows(const WindowArguments& a, const TilePlace& place,
                                             const ChannelSlices& slices, const WindowRing& ring) {
  std::uint32_t column;
  const auto first = static_cast<int>(a.of_columns.divide(static_cast<std::uint32_t>(place.m0), column));
  const auto last = static_cast<std::uint32_t>(place.m0 + S::kBm - 1 + a.taps_w - 1);
  const int rows = static_cast<int>(a.of_columns.quotient(last)) + a.taps_h - first;
  std::uint32_t first_row;
  const auto first_image = static_cast<int>(a.of_image_rows.divide(static_cast<std::uint32_t>(first), first_row));
  wait_for_predecessor();
#pragma unroll 1
  for (int i = 0; i < slices.count; ++i) {
    const int buffer = i % kMostWindows;
    const std::uint32_t full = ring.window_full + buffer * 8;
    ptx::mbarrier_wait(ring.window_empty + buffer * 8, static_cast<std::uint32_t>(i / kMostWindows + 1) & 1U);
    ptx::mbarrier_arrive_expect(full, a.stride * a.stride * rows * a.columns * kRowBytes);
    const int channel = place.group * a.group_in + (slices.first + i) * kSliceK;
    std::uint32_t plane = ring.windows + buffer * a.window_bytes;
#pragma unroll 1
    for (int y = 0; y < a.stride; ++y) {
#pragma unroll 1
      for (int x = 0; x < a.stride; ++x) {
        std::uint32_t to = plane;
        int image = first_image;
        auto row = static_cast<int>(first_row);
#pragma unroll 1
        for (int left = rows; left > 0; --left) {
          ptx::copy_box(to, a.pixels, channel, x - a.pad_left, y + row * a.stride - a.pad_top, image, full);
          to += a.columns * kRowBytes;
          if (++row == a.image_rows) {
            row = 0;
            ++image;
          }
        }
        plane += a.plane_bytes;
      }
    }
  }
}

/// Tells the thread that fills it that this warp has read a stage or a window.
__device__ __forceinline__ void give_back(std::uint32_t barrier) {
  if (ptx::as_int::lane() == 0) ptx::mbarrier_arrive(barrier);
}

/// The sums of a tile's rows, whose first is `column` pixels behind the first of the window.
template <class S>
__device__ __forceinline__ void multiply(const WindowArguments& a, int column, int slices, const WindowRing& ring,
                                         float (&sums)[S::kRowBlocks][S::kSums]) {
  constexpr std::uint32_t kNextPanel = S::kPanelBytes / 16;
  const int group = static_cast<int>(threadIdx.x / kGroupThreads);
  const int first_row = column + group * S::kRowBlocks * 64;
  int stage = 0;
  int before = 0;
  std::uint32_t parity = 0;
  int adds = 0;
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) ptx::pin_accumulators(sums[i]);
#pragma unroll 1
  for (int slice = 0; slice < slices; ++slice) {
    const int buffer = slice % kMostWindows;
    ptx::mbarrier_wait(ring.window_full + buffer * 8, static_cast<std::uint32_t>(slice / kMostWindows) & 1U);
    const std::uint32_t window =
        ptx::wgmma_operand_128b(ring.windows + buffer * a.window_bytes + first_row * kRowBytes);
    std::uint32_t tap_row = window;
    int row_step = a.row_steps[0];
#pragma unroll 1
    for (int ky = 0; ky < a.kernel_h; ++ky) {
      std::uint32_t rows = tap_row;
      int column_step = a.column_steps[0];
#pragma unroll 1
      for (int kx = 0; kx < a.kernel_w; ++kx) {
        ptx::mbarrier_wait(ring.full + stage * 8, parity);
        const std::uint32_t columns = ptx::wgmma_operand_128b(ring.stages + stage * S::kStageBytes, kNextPanel);
        ptx::wgmma_fence();
#pragma unroll
        for (int k16 = 0; k16 < kSliceK / 16; ++k16) {
#pragma unroll
          for (int i = 0; i < S::kRowBlocks; ++i) {
            ptx::start_wgmma_transposed_b(sums[i], rows + (i * 64 * kRowBytes + k16 * 32) / 16,
                                          columns + k16 * 16 * kRowBytes / 16, adds + k16 > 0 ? 1 : 0);
          }
        }
        ptx::wgmma_commit();
        rows += column_step;
        column_step = a.column_steps[0] + a.column_steps[1] - column_step;
        ptx::wgmma_wait<1>();
        if (adds > 0) {
          give_back(ring.empty + before * 8);
          if (ky + kx == 0) give_back(ring.window_empty + (buffer ^ 1) * 8);
        }
        adds = 1;
        before = stage;
        if (++stage == a.stages) {
          stage = 0;
          parity ^= 1U;
        }
      }
      tap_row += row_step;
      row_step = a.row_steps[0] + a.row_steps[1] - row_step;
    }
  }
  ptx::wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) ptx::pin_accumulators(sums[i]);
}

/// The output pixel of a row of a tile; negative where it is padding.
__device__ __forceinline__ int pixel_of(const WindowArguments& a, int row) {
  std::uint32_t x;
  std::uint32_t y;
  const std::uint32_t line = a.of_columns.divide(static_cast<std::uint32_t>(row), x);
  const auto image = static_cast<int>(a.of_image_rows.divide(line, y));
  const bool inside = row < a.line && static_cast<int>(x) < a.out_w && static_cast<int>(y) < a.out_h;
  return inside ? (image * a.out_h + static_cast<int>(y)) * a.out_w + static_cast<int>(x) : -1;
}

/// Sends each block of the cluster this one's sums of the rows that it finishes.
template <class S>
__device__ __forceinline__ void send_sums(const WindowRing& ring, const float (&sums)[S::kRowBlocks][S::kSums]) {
  const int lane = ptx::as_int::lane();
  const int own = static_cast<int>(blockIdx.x) % S::kSplit;
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row<S>() + i * 64 + half * 8 + lane / 4;
      const std::uint32_t to = ring.sums + (own * S::kOwnRows + row % S::kOwnRows) * S::kSumRowBytes +
                               lane % 4 * static_cast<int>(sizeof(float2));
#pragma unroll
      for (int block = 0; block < S::kBn / 8; ++block) {
        const float* const pair = sums[i] + block * 4 + half * 2;
        ptx::send(to + block * 8 * static_cast<int>(sizeof(float)), make_float2(pair[0], pair[1]), ring.sums_full,
                  row / S::kOwnRows);
      }
    }
  }
}

/// Finishes this block's rows, 8 columns a thread at a time: adds up what the blocks of the cluster have sent, in their
/// order.
template <class S>
__device__ __forceinline__ void finish_sent(const WindowArguments& a, const TilePlace& place, const WindowRing& ring) {
  constexpr int kRuns = S::kBn / 8;
  const int first = place.m0 + static_cast<int>(blockIdx.x) % S::kSplit * S::kOwnRows;
  ptx::mbarrier_wait(ring.sums_full, 0);
#pragma unroll 1
  for (int run = static_cast<int>(threadIdx.x); run < S::kOwnRows * kRuns; run += S::kComputeThreads) {
    const int row = run / kRuns;
    const int column = run % kRuns * 8;
    const std::uint32_t from = ring.sums + row * S::kSumRowBytes + column * static_cast<int>(sizeof(float));
    float value[8];
#pragma unroll
    for (int rank = 0; rank < S::kSplit; ++rank) {
#pragma unroll
      for (int part = 0; part < 8; part += 4) {
        const auto four = ptx::load_shared<float4>(from + rank * S::kOwnRows * S::kSumRowBytes +
                                                   part * static_cast<int>(sizeof(float)));
        const float parts[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) value[part + e] = rank == 0 ? parts[e] : value[part + e] + parts[e];
      }
    }
    const int pixel = pixel_of(a, first + row);
    const int n = place.n0 + column;
    if (pixel >= 0 && n < place.n_end) conv_gemm::finish_run<8, true>(a, pixel, n, place.n_end, value);
  }
}

template <class S>
__global__ void __launch_bounds__(S::kBlockThreads) window_kernel(const __grid_constant__ WindowArguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const WindowRing ring = WindowRing::of<S>(a, ptx::shared_address(shared));
  constexpr unsigned kWeightsThread = S::kComputeThreads;
  constexpr unsigned kWindowsThread = kWeightsThread + 32;
  if (threadIdx.x == kWeightsThread) {
    ptx::prefetch_tensor_map(a.weights);
    ptx::prefetch_tensor_map(a.pixels);
    for (int i = 0; i < a.stages; ++i) {
      ptx::mbarrier_init(ring.full + i * 8, 1);
      ptx::mbarrier_init(ring.empty + i * 8, S::kGroups * 4);
    }
    for (int i = 0; i < kMostWindows; ++i) {
      ptx::mbarrier_init(ring.window_full + i * 8, 1);
      ptx::mbarrier_init(ring.window_empty + i * 8, S::kGroups * 4);
    }
    if constexpr (S::kSplit > 1) {
      ptx::mbarrier_init(ring.sums_full, 1);
      ptx::mbarrier_arrive_expect(ring.sums_full, S::kBm * S::kBn * static_cast<int>(sizeof(float)));
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if constexpr (S::kSplit > 1) arrive_at_cluster_begin();
  const TilePlace place = conv_gemm::place_of<S::kBm, S::kBn>(a, static_cast<int>(blockIdx.x) / S::kSplit);
  const ChannelSlices slices = ChannelSlices::of<S>(a);
  if (threadIdx.x < S::kComputeThreads) {  // from the products to y without leaving this path
    bring_next_weights(a.next);
    wait_for_predecessor();
    std::uint32_t column;
    a.of_columns.divide(static_cast<std::uint32_t>(place.m0), column);
    float sums[S::kRowBlocks][S::kSums];
    multiply<S>(a, static_cast<int>(column), slices.count, ring, sums);
    if constexpr (S::kSplit == 1) {
      finish_rows<S>(a, place, warp_row<S>(), sums, [&a](int row) { return pixel_of(a, row); });
    } else {
      wait_for_cluster_begin();
      send_sums<S>(ring, sums);
      finish_sent<S>(a, place, ring);
    }
    return;
  }
  if (threadIdx.x == kWindowsThread) {
    fill_windows<S>(a, place, slices, ring);  // waits where it has to
  } else {
    if (threadIdx.x == kWeightsThread) fill_weights<S>(a, place, slices, ring);
    wait_for_predecessor();
  }
  if constexpr (S::kSplit > 1) {
    __syncwarp();
    wait_for_cluster_begin();
  }
}

}  // namespace mobicuda::kernels::conv_wgmma
