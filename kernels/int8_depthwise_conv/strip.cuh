// A thread computes kRows x kColumns outputs of four channels. It walks down the rows of its input, of which each word
// is four channels of a pixel; four neighbouring pixels are transposed to words of four pixels of a channel, and one
// dp4a adds a row of the window to a sum. A window that begins at another byte of the word has its weights shifted by
// as many bytes, and reaches into the next word where it is too wide.
#pragma once

#include "kernels/common/byte_window.cuh"
#include "kernels/int8_depthwise_conv/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/int8.cuh"

namespace mobicuda::kernels::int8_depthwise {

inline constexpr int kStripThreads = 128;
inline constexpr int kRowsAhead = 3;  // rows under way while one is added: a word a load is little

template <int kWindowSize, int kOutRows, int kOutColumns, int kMinBlocks>
struct Strip {
  static constexpr int kWindow = kWindowSize;  // rows and columns
  static constexpr int kRows = kOutRows;
  static constexpr int kColumns = kOutColumns;
  static constexpr int kBlocks = kMinBlocks;  // per multiprocessor, for the register budget
};

template <class S, int kStride>
__global__ void __launch_bounds__(kStripThreads, S::kBlocks) strip_kernel(const Arguments a) {
  constexpr int kInColumns = (S::kColumns - 1) * kStride + S::kWindow;
  constexpr int kInRows = (S::kRows - 1) * kStride + S::kWindow;
  constexpr int kWords = (kInColumns + 3) / 4;
  const std::uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
  const bool is_active = index < a.grid.items;
  const Item item = decode(a.grid, is_active ? index : a.grid.items - 1);
  const int c = static_cast<int>(item.vector) * kWord;

  WindowRow<S::kWindow> window[S::kWindow];
#pragma unroll
  for (int ky = 0; ky < S::kWindow; ++ky) {
    const std::uint32_t* const from =
        a.w + static_cast<std::ptrdiff_t>(ky * WindowRow<S::kWindow>::kWords) * a.channels + c;
    const auto low = load<kWord>(from);
    Packet<std::uint32_t, kWord> high{};
    if constexpr (S::kWindow > 4) high = load<kWord>(from + a.channels);
#pragma unroll
    for (int i = 0; i < kWord; ++i) {
      window[ky].low[i] = low.item[i];
      window[ky].high[i] = high.item[i];
    }
  }
  const auto bias = load<kWord>(a.bias + c);
  const auto multiplier = load<kWord>(a.multiplier + c);
  const int oy0 = static_cast<int>(item.tile_y) * S::kRows;
  const int ox0 = static_cast<int>(item.tile_x) * S::kColumns;
  const int iy0 = oy0 * kStride - a.pad_top;
  const int ix0 = ox0 * kStride - a.pad_left;
  const std::int64_t image = static_cast<std::int64_t>(item.n) * a.h;
  std::int8_t* const out = a.y + static_cast<std::int64_t>(item.n) * a.out_h * a.out_w * a.y_pitch + c;
  bool is_inside[kInColumns];
#pragma unroll
  for (int j = 0; j < kInColumns; ++j) {
    is_inside[j] = is_active && static_cast<unsigned>(ix0 + j) < static_cast<unsigned>(a.w_extent);
  }
  wait_for_predecessor();

  const auto load_row = [&](int row, std::uint32_t(&words)[kInColumns]) {
    const bool is_there = static_cast<unsigned>(iy0 + row) < static_cast<unsigned>(a.h);
    const std::int8_t* const from = a.x + ((image + iy0 + row) * a.w_extent + ix0) * a.x_pitch + c;
#pragma unroll
    for (int j = 0; j < kInColumns; ++j) {
      words[j] =
          ptx::load_global_or(from + static_cast<std::ptrdiff_t>(j) * a.x_pitch, is_there && is_inside[j], a.x_zero);
    }
  };

  std::int32_t sums[S::kRows][S::kColumns][kWord];
#pragma unroll
  for (int row = 0; row < S::kRows; ++row) {
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
      for (int i = 0; i < kWord; ++i) sums[row][column][i] = bias.item[i];
    }
  }

  constexpr int kBuffers = kRowsAhead + 1;
  std::uint32_t words[kBuffers][kInColumns];  // the row that is added, and the next on their way
#pragma unroll
  for (int row = 0; row < kRowsAhead && row < kInRows; ++row) load_row(row, words[row]);
#pragma unroll
  for (int row = 0; row < kInRows; ++row) {
    const int ahead = row + kRowsAhead;
    if (ahead < kInRows) load_row(ahead, words[ahead % kBuffers]);
    std::uint32_t pixels[kWords][kWord];
#pragma unroll
    for (int at = 0; at < kWords; ++at) {
      std::uint32_t four[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) four[j] = at * 4 + j < kInColumns ? words[row % kBuffers][at * 4 + j] : 0;
      transpose_bytes(four, pixels[at]);
    }
#pragma unroll
    for (int ky = 0; ky < S::kWindow; ++ky) {
      const int top = row - ky;
      if (top < 0 || top % kStride != 0 || top / kStride >= S::kRows) continue;
      add_window_row<S::kWindow, kStride, S::kColumns, kWords>(pixels, window[ky], sums[top / kStride]);
    }
    const int top = row - (S::kWindow - 1);
    if (top < 0 || top % kStride != 0) continue;

    const int done = top / kStride;  // the output row that is complete now
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
      if (!is_active || oy0 + done >= a.out_h || ox0 + column >= a.out_w) continue;
      const std::int64_t pixel = static_cast<std::int64_t>(oy0 + done) * a.out_w + ox0 + column;
      *reinterpret_cast<std::uint32_t*>(out + pixel * a.y_pitch) =
          finish_word(a.result, sums[done][column], multiplier);
    }
  }
}

}  // namespace mobicuda::kernels::int8_depthwise
