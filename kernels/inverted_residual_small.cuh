// What host and device agree on in the small inverted residual kernel: shapes, layouts, arguments.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "fast_division.cuh"
#include "launch.h"

namespace mobicuda::kernels::inverted_small {

struct HalfClip {
  __half2 lo;
  __half2 hi;
};

struct Config {
  int c_in, c_hidden, c_out;
  int stride;
  int tile_h, tile_w;  ///< of outputs
  int slice;           ///< hidden channels of a warp
  int parts;           ///< warps that share a slice, each with its own pixels
  int min_blocks;
};

struct Arguments {
  int h, w, out_h, out_w;
  int pad_top, pad_left;
  std::uint32_t tiles;
  FastDivision tiles_x, tiles_y;
  bool residual;
  HalfClip expand_clip, depthwise_clip;
  Clip project_clip;
};

/// Packed weights are the projection's biases, then groups of 8 hidden channels, each with the operands of a lane in
/// 16 bytes or multiples: offsets in bytes.
struct GroupLayout {
  int project;
  int taps;      ///< (8 channels, taps 0..7)
  int last_tap;  ///< (8 channels, 2), the second unused
  int bias;      ///< (4, 4) floats: two of expand, two of depthwise
  int bytes;
};

constexpr GroupLayout group_layout(int c_out) {
  GroupLayout layout{};
  layout.project = 512;
  layout.taps = layout.project + ceil_div(c_out, 32) * 512;
  layout.last_tap = layout.taps + 128;
  layout.bias = layout.last_tap + 32;
  layout.bytes = layout.bias + 64;
  return layout;
}

template <Config kConfig>
struct Shape {
  static constexpr int kCIn = kConfig.c_in;
  static constexpr int kCOut = kConfig.c_out;
  static constexpr int kStride = kConfig.stride;
  static constexpr int kTileH = kConfig.tile_h;
  static constexpr int kTileW = kConfig.tile_w;
  static constexpr int kParts = kConfig.parts;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr GroupLayout kLayout = group_layout(kCOut);

  static constexpr int kGroups = kConfig.slice / 8;
  static constexpr int kSlices = kConfig.c_hidden / kConfig.slice;
  static constexpr int kThreads = kSlices * kParts * 32;
  static constexpr int kExpandWords = kCIn / 8;
  static constexpr int kProjectWords = round_up(kCOut / 8, 4);

  static constexpr int kPatchH = (kTileH - 1) * kStride + 3;
  static constexpr int kPatchW = (kTileW - 1) * kStride + 3;
  // A hidden pixel's 8 channels are a slot of 16 bytes; ldmatrix reads 8 slots, best from different banks.
  static constexpr bool kExchanged = kStride == 1 && kTileW == 4;
  static constexpr int kPitch = kExchanged ? 8 : kPatchW;
  static constexpr int kPatchTiles = ceil_div(kPatchH * kPitch, 16);
  static constexpr int kMyPatchTiles = ceil_div(kPatchTiles, kParts);
  static constexpr int kGroupBytes = kPatchTiles * 16 * 16;

  static constexpr int kPixels = kTileH * kTileW;
  static constexpr bool kOneBand = kPixels <= 8;  // the pixels fill half of a fragment
  static constexpr int kOutTiles = ceil_div(kPixels, 16);
  static constexpr int kMyOutTiles = kOutTiles / kParts;
  static constexpr int kOutTileBytes = 16 / kTileW * kStride * kPitch * 16;

  // Floats; 8 words modulo 16, so that a half-warp stores 4 rows of 8 words.
  static constexpr int kPartialRow = kCOut % 16 == 8 ? kCOut : kCOut + 8;
  static constexpr int kPartialFloats = kPixels * kPartialRow;
  static constexpr int kHiddenBytes = kSlices * kGroups * kGroupBytes;
  static constexpr int kPartialBytes = kSlices * kPartialFloats * 4;
  static constexpr int kQuads = kCOut / 4;

  static_assert(kCIn == 16 || kCIn == 24 || kCIn == 32);
  static_assert(kConfig.slice % 8 == 0 && kConfig.c_hidden % kConfig.slice == 0 && kCOut % 8 == 0);
  static_assert(kTileW == 2 || kTileW == 4 || kTileW == 8);
  static_assert(kOneBand ? kParts == 1 : kPixels % 16 == 0 && kOutTiles % kParts == 0);
  static_assert(kPixels * kQuads <= kThreads, "a thread finishes 4 outputs");
  static_assert(kParts == 1 || kSlices < 16, "a slice has a barrier of its own");

  /// The slot in its row where a column of the patch lies: even columns before odd ones where outputs take every other
  /// column, odd rows turned by 4 where 8 neighbouring outputs are from two rows.
  __host__ __device__ static constexpr int place_of(int row, int column) {
    if constexpr (kExchanged) return column ^ (row % 2 * 4);
    if constexpr (kStride == 2) return column % 2 * (kTileW + 1) + column / 2;
    return column;
  }
  __host__ __device__ static constexpr int column_of(int row, int place) {
    if constexpr (kExchanged) return place ^ (row % 2 * 4);
    if constexpr (kStride == 2) return place <= kTileW ? 2 * place : 2 * (place - kTileW) - 1;
    return place;
  }
};

}  // namespace mobicuda::kernels::inverted_small
