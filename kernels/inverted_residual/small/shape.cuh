// What host and device agree on in the small inverted residual kernel: shapes, layouts, arguments.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/fast_division.cuh"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_small {

struct Config {
  int c_in, c_hidden, c_out;
  int stride;
  int tile_h, tile_w;  ///< of outputs
  int slice;           ///< hidden channels of a warp, a multiple of kUnit
  int parts;           ///< warps that share a slice, each with its own pixels
  int min_blocks;
};

struct Arguments {
  int h, w, out_h, out_w;
  int pad_top, pad_left;
  std::uint32_t tiles;
  FastDivision tiles_x, tiles_y;
  bool residual;
  __half2 expand_hi, depthwise_hi;  ///< the lower bounds are zero
  Clip project_clip;
};

/// Packed weights are the projection's biases and some zeros, then units of 16 hidden channels, each with the operands
/// of a lane in 8 or 16 bytes: offsets in bytes. `group` is a half of a unit.
inline constexpr int kUnit = 16;
inline constexpr int kZeroBytes = 64;
struct UnitLayout {
  int project;         ///< (two strips of 8 output channels, lane, 16 bytes); before it expand: (16 of c_in, lane, 16)
  int expand_bias;     ///< (8 channels, group, twice) floats
  int depthwise_bias;  ///< (group, 4, twice, 2 channels) floats
  int taps;            ///< (group, 8 channels, taps 0..7), each tap in the half of a word where the operand has it
  int last_tap;        ///< (8 channels, group)
  int bytes;
};

constexpr UnitLayout unit_layout(int c_in, int c_out) {
  UnitLayout layout{};
  layout.project = ceil_div(c_in, 16) * 512;
  layout.expand_bias = layout.project + ceil_div(c_out, 16) * 512;
  layout.depthwise_bias = layout.expand_bias + 128;
  layout.taps = layout.depthwise_bias + 128;
  layout.last_tap = layout.taps + 512;
  layout.bytes = layout.last_tap + 64;
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
  static constexpr bool kMayAdd = kStride == 1 && kCIn == kCOut;
  static constexpr UnitLayout kLayout = unit_layout(kCIn, kCOut);
  static constexpr int kUnitsOffset = kCOut * 4 + kZeroBytes;

  static constexpr int kUnits = kConfig.slice / kUnit;
  static constexpr int kSlices = kConfig.c_hidden / kConfig.slice;
  static constexpr int kThreads = kSlices * kParts * 32;
  static constexpr int kStrips = kCOut / 8;

  static constexpr int kPatchH = (kTileH - 1) * kStride + 3;
  static constexpr int kPatchW = (kTileW - 1) * kStride + 3;
  // A hidden pixel's 8 channels are a slot of 16 bytes. Slots are numbered so that the 8 which an ldmatrix reads lie in
  // different banks: every other column where outputs take every other one; 4 of an even row, then 4 of the odd one
  // below, where 8 neighbouring outputs are from two rows.
  static constexpr bool kRowPairs = kStride == 1 && kTileW == 4;
  static constexpr int kPitch = kStride == 2 && kTileW == 4 ? kPatchW + 1 : kPatchW;
  static constexpr int kSlots =
      kRowPairs ? round_up(ceil_div(kPatchH, 2) * kPatchW, 4) * 2 : (kPatchH - 1) * kPitch + kPatchW;
  static constexpr int kMyPatchTiles = ceil_div(kSlots, 8 * kParts);  // of 8 slots, every kParts-th
  static constexpr int kTableSlots = kMyPatchTiles * kParts * 8;
  static constexpr int kGroupBytes = kTableSlots * 16;

  static constexpr int kPixels = kTileH * kTileW;
  static constexpr bool kOneBand = kPixels <= 8;  // the pixels fill half of a fragment
  static constexpr int kOutTiles = ceil_div(kPixels, 16);
  static constexpr int kMyOutTiles = kOutTiles / kParts;

  // Floats; 8 words modulo 16, so that a half-warp stores 4 rows of 8 words.
  static constexpr int kPartialRow = kCOut % 16 == 8 ? kCOut : kCOut + 8;
  static constexpr int kPartialFloats = kPixels * kPartialRow;
  static constexpr int kHiddenBytes = kSlices * kUnits * 2 * kGroupBytes;
  static constexpr int kPartialBytes = kSlices * kPartialFloats * 4;
  // Of a thread: the fewest that one round of them can do.
  static constexpr int kFinishChannels = kPixels * kCOut <= 2 * kThreads ? 2 : kPixels * kCOut <= 4 * kThreads ? 4 : 8;

  static_assert(kCIn == 16 || kCIn == 24 || kCIn == 32);
  static_assert(kConfig.slice % kUnit == 0 && kConfig.c_hidden % kConfig.slice == 0 && kCOut % 8 == 0);
  static_assert(kTileW == 2 || kTileW == 4 || kTileW == 8);
  static_assert(kOneBand ? kParts == 1 : kPixels % 16 == 0 && kOutTiles % kParts == 0);
  static_assert(kPixels * kCOut <= kFinishChannels * kThreads);
  static_assert(kParts == 1 || kSlices < 16, "a slice has a barrier of its own");
  static_assert(kHiddenBytes >= kThreads * 8, "pins");

  __host__ __device__ static constexpr unsigned slot_of(unsigned row, unsigned column) {
    if constexpr (kRowPairs) {
      const unsigned place = row / 2 * kPatchW + column;
      return place / 4 * 8 + row % 2 * 4 + place % 4;
    }
    if constexpr (kStride == 2) return row * kPitch + column % 2 * (kTileW + 1) + column / 2;
    return row * kPitch + column;
  }
  __host__ __device__ static constexpr unsigned row_of(unsigned slot) {
    if constexpr (kRowPairs) return (slot / 8 * 4 + slot % 4) / kPatchW * 2 + slot / 4 % 2;
    return slot / kPitch;
  }
  /// kPatchW or more where the slot is of no pixel.
  __host__ __device__ static constexpr unsigned column_of(unsigned slot) {
    if constexpr (kRowPairs) return (slot / 8 * 4 + slot % 4) % kPatchW;
    const unsigned place = slot % kPitch;
    if constexpr (kStride == 2) {
      return place <= kTileW ? 2 * place : place < kPatchW ? 2 * (place - kTileW) - 1 : kPatchW;
    }
    return place;
  }
};

}  // namespace mobicuda::kernels::inverted_small
