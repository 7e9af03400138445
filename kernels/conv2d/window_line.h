// The line of pixels and padding whose pieces are the tiles of window.cuh.
#pragma once

#include <cstdint>

#include "kernels/conv2d/conv2d.h"

namespace mobicuda::kernels::conv_wgmma {

/// A row of the line is an output pixel, or padding. With a stride of 1 it is a pixel of the input too: each row of an
/// image has the zeros at its left, which are those at the right of the row before, and each image the rows of zeros
/// above it. With a stride of 2 the input lies in four planes, of even and odd rows and columns: a window has each of
/// them, and a tap is a constant distance in one.
struct WindowLine {
  int stride;
  int columns;         ///< of a row of a plane
  int image_rows;      ///< of a plane
  int taps_h, taps_w;  ///< in a plane, at the most
};

constexpr WindowLine window_line(const Conv2dParams& p) {
  if (p.stride_w == 1) return {1, p.w + p.pad_left, p.h + p.pad_top, p.kernel_h, p.kernel_w};
  return {2, p.out_w + (p.kernel_w - 1) / 2, p.out_h + (p.kernel_h - 1) / 2, (p.kernel_h + 1) / 2,
          (p.kernel_w + 1) / 2};
}

/// Rows of so many images, up to the last output.
constexpr std::int64_t line_rows(const Conv2dParams& p, std::int64_t images) {
  if (images == 0) return 0;
  const WindowLine line = window_line(p);
  return ((images - 1) * line.image_rows + p.out_h - 1) * line.columns + p.out_w;
}

/// Pixels of a plane that a tile of `bm` rows reads at the most, in whole rows of the image.
constexpr int plane_pixels(const WindowLine& line, int bm) {
  return ((line.columns - 1 + bm - 1 + line.taps_w - 1) / line.columns + line.taps_h) * line.columns;
}

}  // namespace mobicuda::kernels::conv_wgmma
