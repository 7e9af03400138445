#pragma once

#include "kernels/common/simt_tile.cuh"

namespace mobicuda::kernels::stem_block_simt {

inline constexpr int kWindow = 3 * 9;

/// h and w are those of the stem's image, pad_top and pad_left the depthwise's, expand_clip is the stem's.
struct Arguments : inverted_simt::Arguments {
  int input_h, input_w;
  int input_top, input_left;  ///< padding of the stem
  float scale[3];
  float shift[3];
};

/// A tile for some channels: that of a block without expansion, and what a thread has of the stem; no channels: what a
/// warp has of it, all channels of whole rows, by tensor cores in double.
struct Tile {
  inverted_simt::Config block;
  int stem_pixels, stem_channels;
};
constexpr bool on_tensor_cores(const Tile& tile) { return tile.stem_channels == 0; }

// Of mma.sync m16n8k8; steps of k for the window and the bias.
inline constexpr int kTensorRows = 16;
inline constexpr int kTensorColumns = 8;
inline constexpr int kTensorSteps = 4;

/// Rows or columns of the input that so many of the stem see.
constexpr int input_extent(int stem) { return 2 * stem + 1; }
/// Threads read 16 bytes at a time.
constexpr int input_row_floats(const Tile& tile) {
  return round_up(input_extent(inverted_simt::sizes_of(tile.block).patch_w), 4);
}
/// Weights (ky, ci, kx, channel), then the bias; for tensor cores (step, fragment, lane, 2) as doubles.
constexpr int stem_floats(const Tile& tile) {
  const int k = on_tensor_cores(tile) ? kTensorSteps * 8 * 2 : kWindow + 1;
  return k * tile.block.c_hidden;
}

/// Dynamic shared memory of a block, in bytes.
constexpr int shared_bytes(const Tile& tile) {
  const inverted_simt::Sizes s = inverted_simt::sizes_of(tile.block);
  const int input = 3 * input_extent(s.patch_h) * input_row_floats(tile);
  return (s.floats + stem_floats(tile) + input) * static_cast<int>(sizeof(float));
}

}  // namespace mobicuda::kernels::stem_block_simt
