#pragma once

#include "kernels/depthwise_conv/strip.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::depthwise {

// 5x5, dilation 1, half. A lane has two channels of an image; 32 of them, counted over all images, are a group, so that
// warps are full whatever c is. Warp -> rows x columns outputs of a group, block -> several warps side by side. The
// block copies the input of all its warps into shared memory in the background, from the first row to the last, and
// begins with the first as soon as it is there. Then an element costs a thread one load from an address that is part
// of the instruction, instead of five instructions: outside of the image there are zeros in shared memory.
//
// Where a warp is in the image is the same for all its lanes: input rows outside, and columns, are skipped by branches.

/// A configuration.
template <int kRows_, int kColumns_, int kWarpRows_, int kWarpColumns_, int kBlocks_>
struct Tile {
  static constexpr int kWindow = 5;
  static constexpr int kVectorBytes = 4;
  static constexpr int kRows = kRows_;  ///< outputs of a warp
  static constexpr int kColumns = kColumns_;
  static constexpr int kWarpRows = kWarpRows_;
  static constexpr int kWarpColumns = kWarpColumns_;
  static constexpr int kThreads = 32 * kWarpRows * kWarpColumns;
  static constexpr int kBlocks = kBlocks_;  ///< blocks that a multiprocessor must be able to hold

  static constexpr int kBlockRows = kWarpRows * kRows;
  static constexpr int kBlockColumns = kWarpColumns * kColumns;
};

template <class S, int kStride>
struct TileShape {
  using Warp = StripShape<__half, S, kStride>;
  static constexpr int kChunkBytes = kCopiedChannels * static_cast<int>(sizeof(__half));
  static constexpr int kPixelBytes = 32 * S::kVectorBytes;
  static constexpr int kChunks = kPixelBytes / kChunkBytes;
  static constexpr int kSlots = S::kThreads / kChunks;  ///< pixels copied by all threads at once
  static constexpr int kWarpStepRows = S::kRows * kStride;
  static constexpr int kInRows = (S::kWarpRows - 1) * kWarpStepRows + Warp::kInRows;
  static constexpr int kInColumns = (S::kWarpColumns - 1) * S::kColumns * kStride + Warp::kInColumns;
  static constexpr int kPasses = (kInColumns + kSlots - 1) / kSlots;
  /// Of a row in shared memory: that of one warp has place for what all threads copy, so that none asks.
  static constexpr int kPitch = S::kThreads == 32 ? kPasses * kSlots : kInColumns;
  static constexpr int kRowBytes = kPitch * kPixelBytes;
  static constexpr int kSharedBytes = kInRows * kRowBytes;
  /// A warp's input rows that are waited for at once: a barrier of several warps costs more than the wait of one.
  static constexpr int kGroupRows = S::kThreads == 32 ? 2 : 4;
  static constexpr int kGroups = (Warp::kInRows + kGroupRows - 1) / kGroupRows;
};

/// copy_async_wait() for a number that is known when loops are unrolled.
template <int kMost>
__device__ __forceinline__ void wait_for_copies(int pending) {
  if constexpr (kMost == 0) {
    ptx::copy_async_wait<0>();
  } else if (pending >= kMost) {
    ptx::copy_async_wait<kMost>();
  } else {
    wait_for_copies<kMost - 1>(pending);
  }
}

/// `lanes`: pairs of channels of all images.
template <class S, int kStride>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    tile_kernel(const Arguments a, std::uint32_t lanes, const __half* x, const __half* __restrict__ weight,
                const float* __restrict__ bias, __half* y) {
  using Shape = TileShape<S, kStride>;
  using Warp = typename Shape::Warp;
  constexpr int kVector = Warp::kVector;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 16, shared);

  std::uint32_t tile_x = 0;
  std::uint32_t tile_y = 0;
  const std::uint32_t group = a.grid.tile_rows.divide(a.grid.tile_columns.divide(blockIdx.x, tile_x), tile_y);
  const int warp = S::kThreads == 32 ? 0 : __shfl_sync(0xFFFFFFFFU, ptx::as_int::warp(), 0);
  const int warp_y = warp / S::kWarpColumns;
  const int warp_x = warp % S::kWarpColumns;

  // What the thread computes. Lanes beyond the last have its weights and store nothing.
  const std::uint32_t index = group * 32 + ptx::lane();
  std::uint32_t vector = 0;
  const std::uint32_t image = a.grid.vectors.divide(min(index, lanes - 1), vector);
  const int c = static_cast<int>(vector) * kVector;
  std::uint32_t weight_words[S::kWindow * S::kWindow];
#pragma unroll
  for (int tap = 0; tap < S::kWindow * S::kWindow; ++tap) {
    weight_words[tap] = ptx::load_global<std::uint32_t>(weight + c + static_cast<std::size_t>(tap) * a.c);
  }
  float offset[kVector] = {};
  if (bias != nullptr) load_biases(bias + c, offset);
  const unsigned pixel_bytes = static_cast<unsigned>(a.c) * sizeof(__half);
  const unsigned row_bytes = static_cast<unsigned>(a.w) * pixel_bytes;
  const unsigned out_row_bytes = static_cast<unsigned>(a.out_w) * pixel_bytes;
  const int block_oy = static_cast<int>(tile_y) * S::kBlockRows;
  const int block_ox = static_cast<int>(tile_x) * S::kBlockColumns;
  const int oy0 = block_oy + warp_y * S::kRows;
  const int ox0 = block_ox + warp_x * S::kColumns;
  const int out_columns = index < lanes ? a.out_w - ox0 : 0;
  char* out = reinterpret_cast<char*>(y) + image * (static_cast<std::size_t>(out_row_bytes) * a.out_h) +
              static_cast<std::size_t>(vector) * S::kVectorBytes;
  out += oy0 * out_row_bytes + ox0 * pixel_bytes;
  ptx::pin(out);  // else `y` is added anew for each store

  // What it copies: the same chunk of the pixels `slot`, `slot` + kSlots, ... of a row.
  const int block_iy = block_oy * kStride - a.pad_top;
  const int block_ix = block_ox * kStride - a.pad_left;
  const int slot = static_cast<int>(threadIdx.x) / Shape::kChunks;
  const std::uint32_t copied = group * 32 + threadIdx.x % Shape::kChunks * (32 / Shape::kChunks);
  std::uint32_t copied_vector = 0;
  const std::uint32_t copied_image = a.grid.vectors.divide(min(copied, lanes - 32 / Shape::kChunks), copied_vector);
  const std::uintptr_t copied_from =
      reinterpret_cast<std::uintptr_t>(x) + copied_image * (static_cast<std::size_t>(row_bytes) * a.h) +
      static_cast<std::size_t>(copied_vector) * S::kVectorBytes + static_cast<std::int64_t>(block_iy) * row_bytes;
  std::uint32_t copied_to = ptx::shared_address(shared) + threadIdx.x * Shape::kChunkBytes;
  ptx::pin(copied_to);
  std::uintptr_t sources[Shape::kPasses];  // of the block's first row, which may be above the image
  bool present[Shape::kPasses];
#pragma unroll
  for (int pass = 0; pass < Shape::kPasses; ++pass) {
    const int ix = block_ix + pass * Shape::kSlots + slot;
    present[pass] = copied < lanes && static_cast<unsigned>(ix) < static_cast<unsigned>(a.w);
    sources[pass] = copied_from + (present[pass] ? ix * pixel_bytes : 0U);
    ptx::pin(sources[pass]);
  }
  const auto copy_row = [&](int row) {
    if (static_cast<unsigned>(block_iy + row) >= static_cast<unsigned>(a.h)) return;
#pragma unroll
    for (int pass = 0; pass < Shape::kPasses; ++pass) {
      const int first = pass * Shape::kSlots;
      if (first + Shape::kSlots > Shape::kPitch && first + slot >= Shape::kPitch) continue;
      ptx::copy_async_cg_or_zero(copied_to + row * Shape::kRowBytes + first * Shape::kPixelBytes,
                                 reinterpret_cast<const void*>(sources[pass] + row * row_bytes), present[pass]);
    }
  };
  wait_for_predecessor();

#pragma unroll 1  // long code before the first input has been asked for would be time lost
  for (int first = 0; first < Shape::kGroups * Shape::kGroupRows; first += Shape::kGroupRows) {
#pragma unroll
    for (int i = 0; i < Shape::kGroupRows; ++i) {
      // This row of all warps, unless it has been copied for the warp below.
      const int row = first + i;
#pragma unroll
      for (int below = 0; below < S::kWarpRows; ++below) {
        const int end = below == S::kWarpRows - 1 ? Warp::kInRows : Shape::kWarpStepRows;
        if (row < end) copy_row(below * Shape::kWarpStepRows + row);
      }
    }
    ptx::copy_async_commit();
  }

#pragma unroll
  for (std::uint32_t& words : weight_words) {
    ptx::pin(words);  // here and no earlier, else the copies would begin when the weights are there
  }
  const HeldWeights<__half, S> weights(weight_words);
  const int iy0 = oy0 * kStride - a.pad_top;
  const int ix0 = ox0 * kStride - a.pad_left;
  const std::uint32_t window = ptx::shared_address(shared) + warp_y * Shape::kWarpStepRows * Shape::kRowBytes +
                               warp_x * S::kColumns * kStride * Shape::kPixelBytes + ptx::lane() * S::kVectorBytes;
  std::uint32_t words[2][Warp::kInColumns];
  const auto read_row = [&](int row) {
    if (row % Shape::kGroupRows == 0) {
      wait_for_copies<Shape::kGroups - 1>(Shape::kGroups - 1 - row / Shape::kGroupRows);
      if constexpr (S::kThreads == 32) {
        __syncwarp();
      } else {
        __syncthreads();
      }
    }
#pragma unroll
    for (int j = 0; j < Warp::kInColumns; ++j) {
      words[row % 2][j] = ptx::load_shared<std::uint32_t>(window + row * Shape::kRowBytes + j * Shape::kPixelBytes);
    }
  };

  float sums[S::kRows][S::kColumns][kVector];
#pragma unroll
  for (int row = 0; row < S::kRows; ++row) {
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) sums[row][column][v] = offset[v];
    }
  }

  // The columns at both ends that padding of two pixels puts outside.
  constexpr int kEdge = kStride == 1 ? 2 : 0;
  const bool left_inside = ix0 + kEdge > 0;
  const bool right_inside = ix0 + Warp::kInColumns - kEdge < a.w;
  read_row(0);
#pragma unroll
  for (int row = 0; row < Warp::kInRows; ++row) {
    if (row + 1 < Warp::kInRows) read_row(row + 1);
    if (static_cast<unsigned>(iy0 + row) < static_cast<unsigned>(a.h)) {
      const auto add = [&](int first, int end) {
#pragma unroll
        for (int j = first; j < end; ++j) {
          add_column<__half, S, kStride>(row, j, words[row % 2][j], weights, sums);
        }
      };
      if (left_inside) add(0, kEdge);
      add(kEdge, Warp::kInColumns - kEdge);
      if (right_inside) add(Warp::kInColumns - kEdge, Warp::kInColumns);
    }
    const int top = row - (S::kWindow - 1);
    if (top < 0 || top % kStride != 0) continue;

    const int done = top / kStride;  // the output row that is complete now
    if (oy0 + done >= a.out_h) continue;
    float values[S::kColumns * kVector];
#pragma unroll
    for (int i = 0; i < S::kColumns * kVector; ++i) values[i] = sums[done][i / kVector][i % kVector];
    apply(a.activation, values);
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
      const float pair[kVector] = {values[column * kVector], values[column * kVector + 1]};
      const std::uint32_t word[1] = {pack<__half, std::uint32_t>(pair)};
      ptx::store_global_if(column < out_columns, out + (done * out_row_bytes + column * pixel_bytes), word);
    }
  }
}

}  // namespace mobicuda::kernels::depthwise
