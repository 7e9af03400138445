#pragma once

#include "kernels/common/conv_vector.cuh"
#include "kernels/depthwise_conv/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/load_word.cuh"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels::depthwise {

// 3x3 or 5x5, dilation 1. Thread -> rows x columns outputs of one channel vector. The thread walks down the input rows
// it needs, each loaded once, and adds every row to the output rows it belongs to; an output row is stored when its
// last input row has been added. Weights stay in registers. No shared memory: the columns that neighbouring threads
// share come from L1.
//
// Loads keep their order (conv_vector.cuh), so the row in flight while another is used is asked for explicitly.
// Offsets within an image are 32 bits of bytes, which supports() guarantees; those of pixels outside wrap, unused.

/// A configuration. (A type, because nvcc takes no class value as a kernel's template argument.)
template <int kWindow_, int kRows_, int kColumns_, int kVectorBytes_, int kRowsAhead_, int kBlocks_>
struct Strip {
  static constexpr int kWindow = kWindow_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kVectorBytes = kVectorBytes_;
  static constexpr int kRowsAhead = kRowsAhead_;  ///< input rows in flight while one is used
  static constexpr int kBlocks = kBlocks_;        ///< blocks that a multiprocessor must be able to hold
};

inline constexpr int kStripMaxThreads = 128;

template <class T, class S, int kStride>
struct StripShape {
  static constexpr int kVector = S::kVectorBytes / static_cast<int>(sizeof(T));
  static constexpr int kInRows = (S::kRows - 1) * kStride + S::kWindow;
  static constexpr int kInColumns = (S::kColumns - 1) * kStride + S::kWindow;
};

/// The window's weights for a thread's channels. Halves of a 5x5 window stay halves, two in a register, and become
/// floats anew for each row of inputs, where they are those of more than two channels: they would not fit as floats.
template <class T, class S>
class HeldWeights {
 public:
  static constexpr int kVector = S::kVectorBytes / static_cast<int>(sizeof(T));
  static constexpr int kTaps = S::kWindow * S::kWindow;
  static constexpr bool kConvertsLate = S::kWindow > 3 && sizeof(T) == 2 && kVector > 2;

  __device__ __forceinline__ HeldWeights(const T* weight, int c) {
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      const T* from = weight + static_cast<std::size_t>(tap) * c;
      if constexpr (kConvertsLate) {
        words_[tap] = ptx::load_global<Words<S::kVectorBytes>>(from);
      } else {
        load_constants<T>(from, values_[tap]);
      }
    }
  }

  /// Of weights that are loaded already, for those that are floats.
  __device__ __forceinline__ explicit HeldWeights(const Words<S::kVectorBytes> (&words)[kTaps]) {
    static_assert(!kConvertsLate);
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) unpack<T>(words[tap], values_[tap]);
  }

  __device__ __forceinline__ void get(int tap, Real<T> (&values)[kVector]) const {
    if constexpr (kConvertsLate) {
      std::uint32_t pairs[kVector / 2];
      memcpy(pairs, &words_[tap], sizeof pairs);
#pragma unroll
      for (int i = 0; i < kVector / 2; ++i) {
        // Else results would be kept from row to row: they are as many registers as the floats would be.
        ptx::to_floats_volatile(pairs[i], values[2 * i], values[2 * i + 1]);
      }
    } else {
#pragma unroll
      for (int v = 0; v < kVector; ++v) values[v] = values_[tap][v];
    }
  }

 private:
  Words<S::kVectorBytes> words_[kConvertsLate ? kTaps : 1];
  Real<T> values_[kConvertsLate ? 1 : kTaps][kVector];  // (ky * window + kx, channels)
};

/// The row of outputs that an input row adds to through row `ky` of the window, or -1.
template <class S, int kStride>
__device__ __forceinline__ constexpr int output_row(int row, int ky) {
  const int below = row - ky;
  return below < 0 || below % kStride != 0 || below / kStride >= S::kRows ? -1 : below / kStride;
}

template <class R, int kVector>
__device__ __forceinline__ void add_tap(const R (&values)[kVector], const R (&factor)[kVector], R (&sums)[kVector]) {
#pragma unroll
  for (int v = 0; v < kVector; ++v) sums[v] = fused_multiply_add(values[v], factor[v], sums[v]);
}

// Both add one input row, `row` rows below the strip's first, to the outputs it belongs to; an output has its taps
// added in the same order.

/// Column `j` of the row.
template <class T, class S, int kStride, class W, int kVector>
__device__ __forceinline__ void add_column(int row, int j, const W& words, const HeldWeights<T, S>& weights,
                                           Real<T> (&sums)[S::kRows][S::kColumns][kVector]) {
  Real<T> values[kVector];
  unpack<T>(words, values);
#pragma unroll
  for (int ky = 0; ky < S::kWindow; ++ky) {
    const int y = output_row<S, kStride>(row, ky);
    if (y < 0) continue;
#pragma unroll
    for (int kx = 0; kx < S::kWindow; ++kx) {
      const int right = j - kx;
      if (right < 0 || right % kStride != 0 || right / kStride >= S::kColumns) continue;
      Real<T> factor[kVector];
      weights.get(ky * S::kWindow + kx, factor);
      add_tap(values, factor, sums[y][right / kStride]);
    }
  }
}

/// Column by column of the row, for weights that are floats.
template <class T, class S, int kStride, class W, int kVector>
__device__ __forceinline__ void add_columns(int row, const W (&words)[StripShape<T, S, kStride>::kInColumns],
                                            const HeldWeights<T, S>& weights,
                                            Real<T> (&sums)[S::kRows][S::kColumns][kVector]) {
#pragma unroll
  for (int j = 0; j < StripShape<T, S, kStride>::kInColumns; ++j) {
    add_column<T, S, kStride>(row, j, words[j], weights, sums);
  }
}

/// Tap by tap of the window, so that each weight is converted once.
template <class T, class S, int kStride, class W, int kVector>
__device__ __forceinline__ void add_taps(int row, const W (&words)[StripShape<T, S, kStride>::kInColumns],
                                         const HeldWeights<T, S>& weights,
                                         Real<T> (&sums)[S::kRows][S::kColumns][kVector]) {
  Real<T> values[StripShape<T, S, kStride>::kInColumns][kVector];
#pragma unroll
  for (int j = 0; j < StripShape<T, S, kStride>::kInColumns; ++j) unpack<T>(words[j], values[j]);
#pragma unroll
  for (int ky = 0; ky < S::kWindow; ++ky) {
    const int y = output_row<S, kStride>(row, ky);
    if (y < 0) continue;
#pragma unroll
    for (int kx = 0; kx < S::kWindow; ++kx) {
      Real<T> factor[kVector];
      weights.get(ky * S::kWindow + kx, factor);
#pragma unroll
      for (int column = 0; column < S::kColumns; ++column) {
        add_tap(values[column * kStride + kx], factor, sums[y][column]);
      }
    }
  }
}

template <class T, class S, int kStride>
__global__ void __launch_bounds__(kStripMaxThreads, S::kBlocks)
    strip_kernel(const Arguments a, const T* x, const T* __restrict__ weight, const float* __restrict__ bias, T* y) {
  using Shape = StripShape<T, S, kStride>;
  using Vector = Words<S::kVectorBytes>;
  constexpr int kVector = Shape::kVector;

  const std::uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
  // A thread beyond the end has the last item's weights and sees neither input nor output rows.
  const bool active = index < a.grid.items;
  const Item item = decode(a.grid, active ? index : a.grid.items - 1);
  const unsigned h = active ? static_cast<unsigned>(a.h) : 0U;
  const int out_h = active ? a.out_h : 0;
  const int c = static_cast<int>(item.vector) * kVector;

  const HeldWeights<T, S> weights(weight + c, a.c);
  Real<T> offset[kVector] = {};
  if (bias != nullptr) load_biases(bias + c, offset);
  const int oy0 = static_cast<int>(item.tile_y) * S::kRows;
  const int ox0 = static_cast<int>(item.tile_x) * S::kColumns;
  const int iy0 = oy0 * kStride - a.pad_top;
  const int ix0 = ox0 * kStride - a.pad_left;
  const std::size_t picture_bytes = sizeof(T) * static_cast<std::size_t>(a.h) * a.w * a.c;
  const std::size_t out_picture_bytes = sizeof(T) * static_cast<std::size_t>(a.out_h) * a.out_w * a.c;
  const char* picture = reinterpret_cast<const char*>(x) + item.n * picture_bytes;
  char* out_picture = reinterpret_cast<char*>(y) + item.n * out_picture_bytes;
  const unsigned pixel_bytes = static_cast<unsigned>(a.c) * sizeof(T);
  const unsigned row_bytes = static_cast<unsigned>(a.w) * pixel_bytes;
  const unsigned out_row_bytes = static_cast<unsigned>(a.out_w) * pixel_bytes;
  const unsigned first = iy0 * row_bytes + ix0 * pixel_bytes + static_cast<unsigned>(c) * sizeof(T);
  const unsigned out_first = oy0 * out_row_bytes + ox0 * pixel_bytes + static_cast<unsigned>(c) * sizeof(T);
  unsigned columns_inside = 0;
#pragma unroll
  for (int j = 0; j < Shape::kInColumns; ++j) {
    if (static_cast<unsigned>(ix0 + j) < static_cast<unsigned>(a.w)) columns_inside |= 1U << j;
  }
  wait_for_predecessor();

  const auto load_row = [&](int row, Vector(&words)[Shape::kInColumns]) {
    const unsigned inside = static_cast<unsigned>(iy0 + row) < h ? columns_inside : 0U;
#pragma unroll
    for (int j = 0; j < Shape::kInColumns; ++j) {
      ptx::load_global_or_zero(picture + (first + row * row_bytes + j * pixel_bytes), inside & 1U << j, words[j]);
    }
  };

  Real<T> sums[S::kRows][S::kColumns][kVector];
#pragma unroll
  for (int row = 0; row < S::kRows; ++row) {
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) sums[row][column][v] = offset[v];
    }
  }

  constexpr int kBuffers = S::kRowsAhead + 1;
  Vector rows[kBuffers][Shape::kInColumns];
#pragma unroll
  for (int row = 0; row < S::kRowsAhead && row < Shape::kInRows; ++row) load_row(row, rows[row]);
#pragma unroll
  for (int row = 0; row < Shape::kInRows; ++row) {
    const int ahead = row + S::kRowsAhead;
    if (ahead < Shape::kInRows) load_row(ahead, rows[ahead % kBuffers]);
    if constexpr (S::kWindow == 3) {
      add_columns<T, S, kStride>(row, rows[row % kBuffers], weights, sums);
    } else {
      add_taps<T, S, kStride>(row, rows[row % kBuffers], weights, sums);
    }
    const int top = row - (S::kWindow - 1);
    if (top < 0 || top % kStride != 0) continue;

    const int done = top / kStride;  // the output row that is complete now
    const int oy = oy0 + done;
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
      if (oy >= out_h || ox0 + column >= a.out_w) continue;
      Real<T> values[kVector];
#pragma unroll
      for (int v = 0; v < kVector; ++v) values[v] = sums[done][column][v];
      apply(a.activation, values);
      char* target = out_picture + (out_first + done * out_row_bytes + column * pixel_bytes);
      *reinterpret_cast<Vector*>(target) = pack<T, Vector>(values);
    }
  }
}

}  // namespace mobicuda::kernels::depthwise
