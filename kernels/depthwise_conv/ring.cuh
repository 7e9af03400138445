#pragma once

#include "kernels/depthwise_conv/strip.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::depthwise {

// 5x5, dilation 1, half. A lane has two channels of an image; 32 of them, counted over all images, are a group, so that
// warps are full whatever c is. Block = warp -> rows x columns outputs of a group. It walks down the input rows, which
// come through a ring in shared memory by copies in the background. An element then costs a lane one load from an
// address that is part of the instruction, instead of five instructions: pixels beside the image are zeros in the ring.
//
// The walk is a loop that is not unrolled, however many rows there are: a step takes as many input rows as the stride,
// adds them to the kLive output rows that they belong to, and stores the first of those, which is complete then. The
// others move up by one, which costs nothing: the first multiply-add of each reads one register and writes another.
//
// Where a warp is in the image is the same for all its lanes: rows and columns outside are skipped by branches.

/// A configuration.
template <int kRows_, int kColumns_, int kBlocks_>
struct Ring {
  static constexpr int kWindow = 5;
  static constexpr int kVectorBytes = 4;
  static constexpr int kRows = kRows_;  ///< outputs of a warp
  static constexpr int kColumns = kColumns_;
  static constexpr int kBlocks = kBlocks_;  ///< blocks, of a warp each, that a multiprocessor must be able to hold

  static constexpr int kThreads = 32;
  static constexpr int kBlockRows = kRows;
  static constexpr int kBlockColumns = kColumns;
};

template <class S, int kStride>
struct RingShape {
  /// Output rows that a step adds to, and the row of a strip of so many that the step's first input row is.
  static constexpr int kLive = (S::kWindow - 1) / kStride + 1;
  static constexpr int kStripRow = (kLive - 1) * kStride;
  using Live = Strip<S::kWindow, kLive, S::kColumns, S::kVectorBytes, 0, S::kBlocks>;

  static constexpr int kInColumns = StripShape<__half, Live, kStride>::kInColumns;
  static constexpr int kChunkBytes = kCopiedChannels * static_cast<int>(sizeof(__half));
  static constexpr int kPixelBytes = 32 * S::kVectorBytes;
  static constexpr int kChunks = kPixelBytes / kChunkBytes;
  static constexpr int kSlots = 32 / kChunks;  ///< pixels copied by the warp at once
  static constexpr int kPasses = (kInColumns + kSlots - 1) / kSlots;
  static constexpr int kRowBytes = kPasses * kSlots * kPixelBytes;
  static constexpr int kStepBytes = kStride * kRowBytes;
  static constexpr int kStepsAhead = 6 / kStride;  ///< under way while one is used
  static constexpr int kSharedBytes = (kStepsAhead + 1) * kStepBytes;
};

template <class S, int kStride>
using RingSums = float[RingShape<S, kStride>::kLive][S::kColumns][2];

/// Adds column `j` of input row `i` of a step to the rows that it belongs to. An output's first column from `begin` on
/// takes its sum from `sums`, which is how sums move from there to `next`.
template <class S, int kStride, class Weights>
__device__ __forceinline__ void add_ring_column(int i, int j, int begin, std::uint32_t words, const Weights& weights,
                                                const RingSums<S, kStride>& sums, RingSums<S, kStride>& next) {
  float values[2];
  unpack<__half>(words, values);
  // Downwards: the first row's sums leave their registers before the second's need them.
#pragma unroll
  for (int row = 0; row < RingShape<S, kStride>::kLive; ++row) {
    const int ky = RingShape<S, kStride>::kStripRow + i - row * kStride;
    if (ky >= S::kWindow) continue;
#pragma unroll
    for (int kx = 0; kx < S::kWindow; ++kx) {
      const int right = j - kx;
      if (right < 0 || right % kStride != 0 || right / kStride >= S::kColumns) continue;
      const int column = right / kStride;
      const auto& from = j == max(begin, right) ? sums : next;
      float factor[2];
      weights.get(ky * S::kWindow + kx, factor);
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        next[row][column][v] = fused_multiply_add(values[v], factor[v], from[row][column][v]);
      }
    }
  }
}

/// The sums of the rows that the next step adds to.
template <class S, int kStride>
__device__ __forceinline__ void move_up(const RingSums<S, kStride>& next, const float (&offset)[2],
                                        RingSums<S, kStride>& sums) {
  constexpr int kLive = RingShape<S, kStride>::kLive;
#pragma unroll
  for (int row = 0; row < kLive; ++row) {
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
      for (int v = 0; v < 2; ++v) sums[row][column][v] = row + 1 < kLive ? next[row + 1][column][v] : offset[v];
    }
  }
}

/// `lanes`: pairs of channels of all images.
template <class S, int kStride>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    ring_kernel(const Arguments a, std::uint32_t lanes, const __half* x, const __half* __restrict__ weight,
                const float* __restrict__ bias, __half* y) {
  using Shape = RingShape<S, kStride>;
  using Live = typename Shape::Live;
  constexpr int kVector = S::kVectorBytes / static_cast<int>(sizeof(__half));
  constexpr int kTaps = S::kWindow * S::kWindow;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 16, shared);

  std::uint32_t tile_x = 0;
  std::uint32_t tile_y = 0;
  const std::uint32_t group = a.grid.tile_rows.divide(a.grid.tile_columns.divide(blockIdx.x, tile_x), tile_y);
  const int oy0 = static_cast<int>(tile_y) * S::kRows;
  const int ox0 = static_cast<int>(tile_x) * S::kColumns;
  const int iy0 = oy0 * kStride - a.pad_top;
  const int ix0 = ox0 * kStride - a.pad_left;

  // What the lane computes. Those beyond the last have its weights and store nothing.
  const std::uint32_t index = group * 32 + ptx::lane();
  std::uint32_t vector = 0;
  const std::uint32_t image = a.grid.vectors.divide(min(index, lanes - 1), vector);
  const int c = static_cast<int>(vector) * kVector;
  std::uint32_t weight_words[kTaps];
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) {
    weight_words[tap] = ptx::load_global<std::uint32_t>(weight + c + static_cast<std::size_t>(tap) * a.c);
  }
  float offset[kVector] = {};
  if (bias != nullptr) load_biases(bias + c, offset);
  const unsigned pixel_bytes = static_cast<unsigned>(a.c) * sizeof(__half);
  const unsigned row_bytes = static_cast<unsigned>(a.w) * pixel_bytes;
  const unsigned out_row_bytes = static_cast<unsigned>(a.out_w) * pixel_bytes;
  const int out_columns = index < lanes ? a.out_w - ox0 : 0;
  char* out = reinterpret_cast<char*>(y) + image * (static_cast<std::size_t>(out_row_bytes) * a.out_h) +
              (oy0 * out_row_bytes + ox0 * pixel_bytes + vector * S::kVectorBytes);
  ptx::pin(out);  // else `y` is added anew for each store

  // Output row i is complete after step i + kLive - 1. Steps before `first` would add nothing, and none stores before
  // kLive - 1; those from `stop` to `end` add nothing either, but store.
  const int first = min(max(-iy0, 0) / kStride, Shape::kLive - 1);
  const int end = min(S::kRows, a.out_h - oy0) + Shape::kLive - 1;
  const int stop = min(end, (max(a.h - iy0, 0) + kStride - 1) / kStride);

  // What it copies: the same chunk of every kSlots-th pixel of a row.
  const int slot = ptx::as_int::lane() / Shape::kChunks;
  const std::uint32_t copied = group * 32 + ptx::lane() % Shape::kChunks * (32 / Shape::kChunks);
  std::uint32_t copied_vector = 0;
  const std::uint32_t copied_image = a.grid.vectors.divide(min(copied, lanes - 32 / Shape::kChunks), copied_vector);
  const std::uintptr_t copied_from = reinterpret_cast<std::uintptr_t>(x) +
                                     copied_image * (static_cast<std::size_t>(row_bytes) * a.h) +
                                     static_cast<std::size_t>(copied_vector) * S::kVectorBytes +
                                     static_cast<std::int64_t>(iy0 + first * kStride) * row_bytes;
  std::uintptr_t sources[Shape::kPasses];
  bool present[Shape::kPasses];
#pragma unroll
  for (int pass = 0; pass < Shape::kPasses; ++pass) {
    const int ix = ix0 + pass * Shape::kSlots + slot;
    present[pass] = copied < lanes && static_cast<unsigned>(ix) < static_cast<unsigned>(a.w);
    sources[pass] = copied_from + (present[pass] ? ix * pixel_bytes : 0U);
    ptx::pin(sources[pass]);
  }
  const std::uint32_t ring = ptx::shared_address(shared);
  const std::uint32_t copied_ring = ring + ptx::lane() * Shape::kChunkBytes;
  const std::uint32_t copied_end = copied_ring + Shape::kSharedBytes;
  std::uint32_t copied_to = copied_ring;
  const auto copy_step = [&](int step) {
#pragma unroll
    for (int i = 0; i < kStride; ++i) {
      if (step < stop) {
        const int iy = iy0 + step * kStride + i;
        const bool row_inside = static_cast<unsigned>(iy) < static_cast<unsigned>(a.h);
#pragma unroll
        for (int pass = 0; pass < Shape::kPasses; ++pass) {
          ptx::copy_async_cg_or_zero(copied_to + i * Shape::kRowBytes + pass * Shape::kSlots * Shape::kPixelBytes,
                                     reinterpret_cast<const void*>(sources[pass]), present[pass] && row_inside);
        }
      }
#pragma unroll
      for (std::uintptr_t& source : sources) source += row_bytes;
    }
    ptx::copy_async_commit();
    copied_to += Shape::kStepBytes;
    if (copied_to == copied_end) copied_to = copied_ring;
  };
  wait_for_predecessor();

#pragma unroll 1
  for (int i = 0; i < Shape::kStepsAhead; ++i) copy_step(first + i);

#pragma unroll
  for (std::uint32_t& words : weight_words) {
    ptx::pin(words);  // here and no earlier, else the copies would begin when the weights are there
  }
  const HeldWeights<__half, Live> weights(weight_words);
  RingSums<S, kStride> sums;
#pragma unroll
  for (int row = 0; row < Shape::kLive; ++row) {
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) sums[row][column][v] = offset[v];
    }
  }

  // The columns at both ends that padding of two pixels puts outside.
  constexpr int kEdge = kStride == 1 ? 2 : 0;
  const bool left_inside = ix0 + kEdge > 0;
  const bool right_inside = ix0 + Shape::kInColumns - kEdge < a.w;
  const std::uint32_t from_ring = ring + ptx::lane() * S::kVectorBytes;
  const std::uint32_t from_end = from_ring + Shape::kSharedBytes;
  std::uint32_t from = from_ring;
  const auto store = [&](int step, const RingSums<S, kStride>& complete) {
    if (step < Shape::kLive - 1) return;
    float values[S::kColumns * kVector];
#pragma unroll
    for (int i = 0; i < S::kColumns * kVector; ++i) values[i] = complete[0][i / kVector][i % kVector];
    apply(a.activation, values);
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
      const float pair[kVector] = {values[column * kVector], values[column * kVector + 1]};
      const std::uint32_t word[1] = {pack<__half, std::uint32_t>(pair)};
      ptx::store_global_if(column < out_columns, out + column * pixel_bytes, word);
    }
    out += out_row_bytes;
  };

  int step = first;
#pragma unroll 1
  for (; step < stop; ++step) {
    ptx::copy_async_wait<Shape::kStepsAhead - 1>();
    __syncwarp();  // also: all lanes have read the rows that the next copies replace
    copy_step(step + Shape::kStepsAhead);

    RingSums<S, kStride> next;
#pragma unroll
    for (int i = 0; i < kStride; ++i) {
      const auto add = [&](int begin, int past, int moved_from, auto& from_sums, auto& to_sums) {
#pragma unroll
        for (int j = begin; j < past; ++j) {
          const auto words = ptx::load_shared<std::uint32_t>(from + i * Shape::kRowBytes + j * Shape::kPixelBytes);
          add_ring_column<S, kStride>(i, j, moved_from, words, weights, from_sums, to_sums);
        }
      };
      auto& before = i == 0 ? sums : next;
      if (left_inside) add(0, kEdge, 0, before, before);
      add(kEdge, Shape::kInColumns - kEdge, kEdge, before, next);
      if (right_inside) add(Shape::kInColumns - kEdge, Shape::kInColumns, 0, next, next);
    }
    from += Shape::kStepBytes;
    if (from == from_end) from = from_ring;
    store(step, next);
    move_up<S, kStride>(next, offset, sums);
  }
#pragma unroll 1
  for (; step < end; ++step) {
    store(step, sums);
    move_up<S, kStride>(sums, offset, sums);
  }
}

}  // namespace mobicuda::kernels::depthwise
