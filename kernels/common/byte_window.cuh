// Windows over rows of pixels whose four channels are a word: words of four pixels of a channel, and dp4a.
#pragma once

#include "kernels/common/std.h"
#include "kernels/ptx/int8.cuh"

namespace mobicuda::kernels {

/// Four words of four bytes, transposed: byte i of word j becomes byte j of word i. Eight instructions.
__device__ __forceinline__ void transpose_bytes(const std::uint32_t (&from)[4], std::uint32_t (&to)[4]) {
  const std::uint32_t even_01 = __byte_perm(from[0], from[1], 0x6240);  // bytes 0 and 2 of both
  const std::uint32_t odd_01 = __byte_perm(from[0], from[1], 0x7351);
  const std::uint32_t even_23 = __byte_perm(from[2], from[3], 0x6240);
  const std::uint32_t odd_23 = __byte_perm(from[2], from[3], 0x7351);
  to[0] = __byte_perm(even_01, even_23, 0x5410);
  to[1] = __byte_perm(odd_01, odd_23, 0x5410);
  to[2] = __byte_perm(even_01, even_23, 0x7632);
  to[3] = __byte_perm(odd_01, odd_23, 0x7632);
}

inline constexpr int kWordBytes = 4;

/// A row of the window for four channels: kWindow bytes each, in order.
template <int kWindow>
struct WindowRow {
  static constexpr int kWords = (kWindow + 3) / 4;
  std::uint32_t low[kWordBytes];
  std::uint32_t high[kWordBytes];  ///< zeros up to four taps

  /// The weights of word `kAt` of a row of input for a window that begins at byte `kFirst`; zeros where they do not
  /// meet.
  template <int kFirst, int kAt>
  __device__ __forceinline__ std::uint32_t at(int channel) const {
    constexpr int kShift = (kFirst - kAt * 4) * 8;
    if constexpr (kShift >= 32 || kShift <= -64) {
      return 0;
    } else if constexpr (kShift >= 0) {
      return low[channel] << kShift;
    } else if constexpr (kShift > -32) {
      return __funnelshift_r(low[channel], high[channel], -kShift);
    } else {
      return high[channel] >> (-kShift - 32);
    }
  }
};

template <int kWindow, int kFirst, int kAt>
inline constexpr bool kMeets = kFirst<kAt * 4 + 4 && kFirst + kWindow> kAt * 4;

/// Adds a row of the window to the sums of the columns from kColumn on.
template <int kWindow, int kStride, int kColumns, int kWords, int kColumn = 0, int kAt = 0>
__device__ __forceinline__ void add_window_row(const std::uint32_t (&pixels)[kWords][kWordBytes],
                                               const WindowRow<kWindow>& row,
                                               std::int32_t (&sums)[kColumns][kWordBytes]) {
  if constexpr (kAt == kWords) {
    if constexpr (kColumn + 1 < kColumns) {
      add_window_row<kWindow, kStride, kColumns, kWords, kColumn + 1, 0>(pixels, row, sums);
    }
  } else {
    if constexpr (kMeets<kWindow, kColumn * kStride, kAt>) {
#pragma unroll
      for (int c = 0; c < kWordBytes; ++c) {
        sums[kColumn][c] = ptx::dp4a(pixels[kAt][c], row.template at<kColumn * kStride, kAt>(c), sums[kColumn][c]);
      }
    }
    add_window_row<kWindow, kStride, kColumns, kWords, kColumn, kAt + 1>(pixels, row, sums);
  }
}

}  // namespace mobicuda::kernels
