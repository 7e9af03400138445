#pragma once

#include "clip.cuh"
#include "depthwise_conv.h"
#include "fast_division.cuh"

namespace mobicuda::kernels::depthwise {

/// One thread's work is an item; items count channel vectors fastest, then tile columns, tile rows, pictures.
struct Arguments {
  std::uint32_t items;
  FastDivision vectors;       ///< channel vectors of a pixel
  FastDivision tile_columns;  ///< of an output picture
  FastDivision tile_rows;
  int h, w, c, out_h, out_w;
  int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  Clip clip;
};

struct Item {
  std::uint32_t n, tile_y, tile_x, vector;
};

__device__ __forceinline__ Item decode(const Arguments& a, std::uint32_t index) {
  Item item;
  const std::uint32_t tile = a.vectors.divide(index, item.vector);
  const std::uint32_t tile_row = a.tile_columns.divide(tile, item.tile_x);
  item.n = a.tile_rows.divide(tile_row, item.tile_y);
  return item;
}

}  // namespace mobicuda::kernels::depthwise
