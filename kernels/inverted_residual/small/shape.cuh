// What host and device agree on in the small inverted residual kernel: shapes, layouts, arguments.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/fast_division.cuh"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_small {

/// The compile-time side of a kernel.
struct Config {
  int c_in, c_hidden, c_out;  ///< multiples of 8
  int stride;
  int tile_h, tile_w;  ///< of outputs
  int slice;           ///< hidden channels of a warp, a multiple of kUnit; the last slice may have fewer
  int parts;           ///< warps that share a slice, each with its own pixels
  int min_blocks;      ///< per SM, for the register budget
  int walks = 0;       ///< 1: a block takes one tile after another, each one's patch arriving during the one before
  int hard_swish = 0;  ///< 1: e and d are hard-swished, 0: clipped
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

/// Packed weights are the projection's biases and a pixel of zeros, then units of 16 hidden channels, each with the
/// operands of a lane in 8 or 16 bytes: offsets in bytes. `group` is a half of a unit.
inline constexpr int kUnit = 16;
struct UnitLayout {
  int project;         ///< (two strips of 8 output channels, lane, 16 bytes); before it expand: (16 of c_in, lane, 16)
  int expand_bias;     ///< (8 channels, group, twice) floats
  int depthwise_bias;  ///< (group, 4, twice, 2 channels) floats
  int taps;            ///< (group, 8 channels, taps 0..7), each tap in the half of a word where the operand has it
  int last_tap;        ///< (8 channels, group)
  int bytes;
};

/// What follows from a Config.
struct Sizes {
  int units;   ///< of a slice
  int slices;  ///< the last one's units beyond c_hidden add nothing
  int threads;
  int steps_k;  ///< of 16 input channels; the last may have 8
  int strips;   ///< of 8 output channels

  int patch_h, patch_w;
  bool row_pairs;
  int pitch;
  int slots;           ///< of hidden pixels
  int my_patch_tiles;  ///< of 8 slots, every parts-th
  int table_slots;
  int group_bytes;  ///< of 8 hidden channels

  int pixels;
  bool one_band;  ///< the pixels fill half of a fragment
  int out_tiles, my_out_tiles;

  int partial_row, partial_floats;  ///< sums of a pixel, of a tile
  int finish_channels;              ///< of a thread: the fewest that one round of them can do

  // Shared memory, in bytes: hidden pixels | partial sums | table; where blocks walk, the last two twice.
  int hidden_bytes, partial_bytes, table_bytes;
  int shared_bytes;

  // Packed weights, in bytes.
  UnitLayout unit;
  int zero_bytes, units_offset, packed_bytes;
};

constexpr UnitLayout unit_layout(int steps_k, int strips) {
  UnitLayout layout{};
  layout.project = steps_k * 512;
  layout.expand_bias = layout.project + ceil_div(strips, 2) * 512;
  layout.depthwise_bias = layout.expand_bias + 128;
  layout.taps = layout.depthwise_bias + 128;
  layout.last_tap = layout.taps + 512;
  layout.bytes = layout.last_tap + 64;
  return layout;
}

constexpr Sizes sizes_of(const Config& c) {
  Sizes s{};
  s.units = c.slice / kUnit;
  s.slices = ceil_div(c.c_hidden, c.slice);
  s.threads = s.slices * c.parts * 32;
  s.steps_k = ceil_div(c.c_in, 16);
  s.strips = c.c_out / 8;

  s.patch_h = (c.tile_h - 1) * c.stride + 3;
  s.patch_w = (c.tile_w - 1) * c.stride + 3;
  // A hidden pixel's 8 channels are a slot of 16 bytes. Slots are numbered so that the 8 which an ldmatrix reads lie in
  // different banks: every other column where outputs take every other one; 4 of an even row, then 4 of the odd one
  // below, where 8 neighbouring outputs are from two rows.
  s.row_pairs = c.stride == 1 && c.tile_w == 4;
  s.pitch = c.stride == 2 && c.tile_w == 4 ? s.patch_w + 1 : s.patch_w;
  s.slots = s.row_pairs ? round_up(ceil_div(s.patch_h, 2) * s.patch_w, 4) * 2 : (s.patch_h - 1) * s.pitch + s.patch_w;
  s.my_patch_tiles = ceil_div(s.slots, 8 * c.parts);
  s.table_slots = s.my_patch_tiles * c.parts * 8;
  s.group_bytes = s.table_slots * 16;

  s.pixels = c.tile_h * c.tile_w;
  s.one_band = s.pixels <= 8;
  s.out_tiles = ceil_div(s.pixels, 16);
  s.my_out_tiles = s.out_tiles / c.parts;

  // 8 words modulo 16, so that a half-warp stores 4 rows of 8 words.
  s.partial_row = c.c_out % 16 == 8 ? c.c_out : c.c_out + 8;
  s.partial_floats = s.pixels * s.partial_row;
  const int sums = s.pixels * c.c_out;
  s.finish_channels = sums <= 2 * s.threads ? 2 : sums <= 4 * s.threads ? 4 : 8;

  s.hidden_bytes = s.slices * s.units * 2 * s.group_bytes;
  s.partial_bytes = s.slices * s.partial_floats * 4;
  s.table_bytes = s.table_slots * 10;
  s.shared_bytes = s.hidden_bytes + (1 + c.walks) * (s.partial_bytes + s.table_bytes);

  s.unit = unit_layout(s.steps_k, s.strips);
  s.zero_bytes = round_up(c.c_in * 2, 64);
  s.units_offset = c.c_out * 4 + s.zero_bytes;
  s.packed_bytes = s.units_offset + s.slices * s.units * s.unit.bytes;
  return s;
}

/// Whether the kernel can be compiled for it and is right. Shared memory is a matter of the GPU: supports().
constexpr bool is_valid(const Config& c) {
  constexpr int kMostThreads = 1024;
  constexpr int kMostThreadsOfSm = 2048;
  constexpr int kSliceBarriers = 15;  // and number 0 is the block's
  const bool extents = (c.stride == 1 || c.stride == 2) && (c.tile_w == 2 || c.tile_w == 4 || c.tile_w == 8) &&
                       c.tile_h > 0 && c.parts > 0 && c.min_blocks > 0 && (c.walks == 0 || c.walks == 1) &&
                       (c.hard_swish == 0 || c.hard_swish == 1);
  const bool channels = c.c_in > 0 && c.c_in % 8 == 0 && c.c_hidden > 0 && c.c_hidden % 8 == 0 && c.c_out > 0 &&
                        c.c_out % 8 == 0 && c.slice > 0 && c.slice % kUnit == 0;
  if (!extents || !channels) return false;
  constexpr int kMostOutputs = 8 * kMostThreads;  // of a tile: what its threads finish
  if (c.tile_h > kMostOutputs / c.tile_w / c.c_out) return false;
  const Sizes s = sizes_of(c);
  return s.threads <= kMostThreads && s.threads * c.min_blocks <= kMostThreadsOfSm &&
         (s.one_band ? c.parts == 1 : s.pixels % 16 == 0 && s.out_tiles % c.parts == 0) &&
         (c.parts == 1 || s.slices <= kSliceBarriers) && s.pixels * c.c_out <= s.finish_channels * s.threads;
}

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static_assert(is_valid(kConfig));
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr int kCIn = kConfig.c_in;
  static constexpr int kCOut = kConfig.c_out;
  static constexpr int kStride = kConfig.stride;
  static constexpr int kTileH = kConfig.tile_h;
  static constexpr int kTileW = kConfig.tile_w;
  static constexpr int kParts = kConfig.parts;
  static constexpr bool kWalks = kConfig.walks == 1;
  static constexpr bool kHardSwish = kConfig.hard_swish == 1;
  static constexpr bool kMayAdd = kStride == 1 && kCIn == kCOut;
  static constexpr UnitLayout kLayout = kSizes.unit;
  static constexpr int kUnitsOffset = kSizes.units_offset;

  static constexpr int kUnits = kSizes.units;
  static constexpr int kSlices = kSizes.slices;
  static constexpr int kThreads = kSizes.threads;
  static constexpr int kStepsK = kSizes.steps_k;
  static constexpr int kStrips = kSizes.strips;

  static constexpr int kPatchH = kSizes.patch_h;
  static constexpr int kPatchW = kSizes.patch_w;
  static constexpr bool kRowPairs = kSizes.row_pairs;
  static constexpr int kPitch = kSizes.pitch;
  static constexpr int kMyPatchTiles = kSizes.my_patch_tiles;
  static constexpr int kTableSlots = kSizes.table_slots;
  static constexpr int kGroupBytes = kSizes.group_bytes;

  static constexpr int kPixels = kSizes.pixels;
  static constexpr bool kOneBand = kSizes.one_band;
  static constexpr int kMyOutTiles = kSizes.my_out_tiles;

  static constexpr int kPartialRow = kSizes.partial_row;
  static constexpr int kPartialFloats = kSizes.partial_floats;
  static constexpr int kFinishChannels = kSizes.finish_channels;
  static constexpr int kHiddenBytes = kSizes.hidden_bytes;
  static constexpr int kPartialBytes = kSizes.partial_bytes;
  static constexpr int kTableBytes = kSizes.table_bytes;
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
