// What host and device agree on in the image inverted residual kernel: shapes, layouts, arguments.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/hardware_limits.h"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_image {

inline constexpr int kUnit = 16;     // hidden channels: a step of project's sums
inline constexpr int kDepth = 2;     // chunks whose weights are in shared memory or on their way
inline constexpr int kColumns = 16;  // of an mma's left operand: pixels of a row, with the halo
inline constexpr int kHalo = 2;      // rows or columns of a tile that its neighbours finish, where it has two
inline constexpr int kFragmentBytes = 512;
inline constexpr int kRowsOfWarp = 2;
inline constexpr int kBarrierBytes = 8;
inline constexpr int kBarriers = 2 * kDepth + 1;

/// The compile-time side of a kernel.
struct Config {
  int c_in, c_hidden, c_out;  ///< c_in, c_out: multiples of 8
  int stride;
  int blocks;          ///< of a cluster, which share the hidden channels of a tile: 1 or 2, with stride 1 also 4 or 8
  int chunk;           ///< hidden channels between two barriers; there are whole chunks for each block, with zeros
  int h = 14, w = 14;  ///< of x
  int warps = 4;       ///< of a block; each expands two rows
  int columns = 16;    ///< of a tile with its halo: 16, or, with stride 1, 8 for two tiles side by side
  int min_blocks = 2;  ///< per SM, for the register budget
  int staged = 0;      ///< 1: x stays in shared memory, 0: in registers
  int hard_swish = 0;  ///< 1: e and d are hard-swished, 0: clipped
};

struct Arguments {
  bool residual;
  int pad_top, pad_left;            ///< where the stride is 2, else 1
  __half2 expand_hi, depthwise_hi;  ///< the lower bounds are zero
  Clip project_clip;
  int images;
};

// Weights are the projection's biases, expand of all units, then project and depthwise of all units. In bytes.
inline constexpr int kGroupBiasBytes = 8 * 4;
inline constexpr int kTapsBytes = 8 * 16;  // of 8 channels: the first 8 taps
inline constexpr int kLastTapBytes = 8 * 4;
/// Of a depthwise window, in the order of the instructions.
__host__ __device__ constexpr int tap(int i) { return i < 6 ? i % 3 * 3 + (i < 3 ? 1 : 0) : 2 + (i - 6) * 3; }
inline constexpr int kDepthwiseBytes = kTapsBytes + kLastTapBytes + kGroupBiasBytes;

/// What follows from it.
struct Sizes {
  int threads;
  int rows;                     ///< of a tile with its halo
  int row_tiles, column_tiles;  ///< of an image
  int neighbours;               ///< tiles side by side in the columns of an mma
  int in_steps;                 ///< of 16 input channels
  int out_strips;               ///< of 8 output channels, an even number
  int units, chunks;            ///< of a chunk; of a block
  // Weights, in bytes.
  int expand_unit_bytes, project_unit_bytes;
  int expand_bytes, project_bytes;  ///< of a chunk
  int packed_expand_at, packed_project_at, packed_bytes;
  // A hidden pixel's 8 channels are a slot of 16 bytes: zeros at the sides of each tile, its pixels between them. A
  // row's last zero is the next one's first. The rows above and below the tile are zeros as well.
  int row_slots;
  int group_bytes;  ///< of 8 channels
  int patch_bytes;
  int tail_bytes;  ///< what windows of pixels that do not exist read behind a patch
  // Sums that come from other warps. With stride 1 all from the other blocks of the cluster, in quads: 4 channels of a
  // pixel in each thread. With stride 2, in pieces, 8 channels of a pixel in each lane, first those from warps of the
  // same block.
  int quads;  ///< that a block finishes
  int local_pieces;
  int remote_bytes;  ///< that a block is sent
  int exchange_bytes;
  // Shared memory: barriers | two patches and what lanes read behind them | rings of weights | sums | x.
  int patch_at, expand_at, project_at, exchange_at, pixels_at, shared_bytes;
};

/// Tiles of `size` that cover `extent`, where each finishes all but the halo that its neighbours finish.
constexpr int tiles_of(int extent, int size) { return extent <= size ? 1 : ceil_div(extent - kHalo, size - kHalo); }

constexpr int kPieceBytes = 2 * kFragmentBytes;

constexpr Sizes sizes_of(const Config& c) {
  Sizes s{};
  s.threads = c.warps * 32;
  s.rows = c.warps * kRowsOfWarp;
  s.row_tiles = tiles_of(c.h, s.rows);
  s.column_tiles = tiles_of(c.w, c.columns);
  s.neighbours = kColumns / c.columns;
  s.in_steps = ceil_div(c.c_in, 16);
  s.out_strips = ceil_div(c.c_out, 16) * 2;
  s.units = c.chunk / kUnit;
  s.chunks = ceil_div(c.c_hidden, c.chunk * c.blocks);

  s.expand_unit_bytes = s.in_steps * kFragmentBytes + 2 * kGroupBiasBytes;
  s.project_unit_bytes = s.out_strips / 2 * kFragmentBytes + 2 * kDepthwiseBytes;
  s.expand_bytes = s.units * s.expand_unit_bytes;
  s.project_bytes = s.units * s.project_unit_bytes;
  s.packed_expand_at = s.out_strips * 8 * 4;
  s.packed_project_at = s.packed_expand_at + c.blocks * s.chunks * s.expand_bytes;
  s.packed_bytes = s.packed_project_at + c.blocks * s.chunks * s.project_bytes;

  // Pixels past the image are zeros: where they are at the side, they are the padding there.
  if (c.stride == 1) {
    const bool gap = s.neighbours == 2 && c.w >= c.columns;
    s.row_slots = gap ? kColumns + 2 : c.w >= kColumns ? kColumns + 1 : kColumns;
  } else {
    s.row_slots = c.w >= kColumns - 1 ? kColumns + 2 : kColumns;
  }
  const int row_bytes = s.row_slots * 16;
  s.group_bytes = (s.rows + 2) * row_bytes;
  s.patch_bytes = s.units * 2 * s.group_bytes;
  s.tail_bytes = ceil_div(row_bytes, 128) * 128 + 128;

  const int tiles = c.warps / 2;  // of outputs, where the stride is 2
  const int out_blocks = ceil_div(s.out_strips, 4);
  s.quads = kRowsOfWarp * s.out_strips / c.blocks;
  s.local_pieces = c.stride == 1 ? 0 : 2 / c.blocks * tiles * out_blocks;
  const int others = c.blocks - 1;
  const int remote_buffer = others * (c.stride == 1 ? s.quads * s.threads * 16 : 2 * tiles * out_blocks * kPieceBytes);
  s.remote_bytes = c.stride == 1 ? remote_buffer : others * 2 * tiles * s.out_strips * (kPieceBytes / 4);
  s.exchange_bytes = s.local_pieces * kPieceBytes + remote_buffer;

  s.patch_at = 128;
  s.expand_at = s.patch_at + 2 * s.patch_bytes + s.tail_bytes;
  s.project_at = s.expand_at + kDepth * s.expand_bytes;
  s.exchange_at = s.project_at + kDepth * s.project_bytes;
  s.pixels_at = s.exchange_at + s.exchange_bytes;
  s.shared_bytes = s.pixels_at + (c.staged != 0 ? kRowsOfWarp * s.in_steps * s.threads * 16 : 0);
  return s;
}

/// Whether the kernel can be compiled for it and runs: not whether it spills registers.
constexpr bool is_valid(const Config& c) {
  constexpr int kMostWarps = 8;  // one block with all registers of an SM
  constexpr int kMostPixels = 1 << 16;
  constexpr int kMostChannels = 1 << 12;  // of x and y; bytes are ints
  constexpr int kMostHidden = 1 << 16;
  constexpr int kMostBlocks = 8;
  if (c.c_in < 1 || c.c_out < 1 || c.c_hidden < 1 || c.c_in % 8 != 0 || c.c_out % 8 != 0) return false;
  if (c.c_in > kMostChannels || c.c_out > kMostChannels || c.c_hidden > kMostHidden) return false;
  if (c.h < 1 || c.w < 1 || c.h > kMostPixels / c.w || c.warps < 2 || c.warps > kMostWarps) return false;
  if ((c.stride != 1 && c.stride != 2) || c.blocks < 1 || c.blocks > kMostBlocks) return false;
  if (c.chunk < kUnit || c.chunk % kUnit != 0 || c.min_blocks < 1 || (c.staged != 0 && c.staged != 1)) return false;
  if (c.hard_swish != 0 && c.hard_swish != 1) return false;
  if (c.columns != kColumns && (c.columns != kColumns / 2 || c.stride != 1)) return false;
  const Sizes s = sizes_of(c);
  if (s.shared_bytes > shared_bytes_of_each(90, c.min_blocks)) return false;
  // With stride 2 two warps share a tile's units, and tiles.
  if (c.stride == 2) return (c.blocks == 1 || c.blocks == 2) && s.units % 2 == 0 && c.warps % 2 == 0;
  // From four blocks on, the order in which sums are added depends on which one finishes them, and that on which of two
  // neighbours the tile is: for an image it may not depend on the images before.
  const bool has_order = c.blocks <= 2 || s.neighbours == 1 || s.column_tiles % 2 == 0;
  // Each block finishes equally many quads.
  const bool shares = c.blocks == 1 || c.blocks == 2 || c.blocks == 4 || (c.blocks == 8 && s.out_strips % 4 == 0);
  return has_order && shares;
}

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static_assert(is_valid(kConfig));
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr bool kHardSwish = kConfig.hard_swish == 1;
  static constexpr int kThreads = kSizes.threads;
  static constexpr int kRows = kSizes.rows;
  static constexpr int kRowTiles = kSizes.row_tiles;
  static constexpr int kColumnTiles = kSizes.column_tiles;
  static constexpr bool kHasNeighbours = kSizes.neighbours == 2;
  /// Whether all rows of all tiles are the image's.
  static constexpr bool kRowsFit = kRowTiles * (kRows - kHalo) + kHalo == kConfig.h;
  /// Rows of a warp of which one may be the image's and the other not.
  static constexpr int kBounds = kRowsFit || kConfig.h % kRowsOfWarp == 0 ? 1 : kRowsOfWarp;

  // Channels are in blocks of 32, of which a lane has 8 neighbours. The last block may be a half of one, of which it
  // has 4 neighbours.
  static constexpr int kInSteps = kSizes.in_steps;
  static constexpr int kInBlocks = ceil_div(kInSteps, 2);
  static constexpr int kFullInBlocks = kInSteps / 2;
  static constexpr int kStrips = kSizes.out_strips;
  static constexpr int kOutBlocks = ceil_div(kStrips, 4);
  static constexpr int kFullOutBlocks = kStrips / 4;
  static constexpr bool kMayAdd = kConfig.stride == 1 && kConfig.c_in == kConfig.c_out;
  static constexpr int kUnits = kSizes.units;
  static constexpr int kChunks = kSizes.chunks;
  static constexpr int kExpandUnitBytes = kSizes.expand_unit_bytes;
  static constexpr int kProjectUnitBytes = kSizes.project_unit_bytes;
  static constexpr int kExpandBytes = kSizes.expand_bytes;
  static constexpr int kProjectBytes = kSizes.project_bytes;
  static constexpr int kPackedExpandAt = kSizes.packed_expand_at;
  static constexpr int kPackedProjectAt = kSizes.packed_project_at;

  static constexpr int kRowSlots = kSizes.row_slots;
  static constexpr int kRowBytes = kRowSlots * 16;
  static constexpr int kGroupBytes = kSizes.group_bytes;
  static constexpr int kPatchBytes = kSizes.patch_bytes;
  /// Whether two tiles in a row have a zero of their own between them.
  static constexpr bool kHasGap = kHasNeighbours && kRowSlots > kColumns;
  /// Whether windows of pixels that exist read the slot behind the patches.
  static constexpr bool kReadsTail =
      kConfig.stride == 1 && (kRowSlots > kColumns || kConfig.w % kConfig.columns == kConfig.columns - 1);

  /// Where the window of a column of an mma begins, where the stride is 1.
  __device__ static constexpr unsigned window_slot(unsigned column) { return kHasGap ? column + column / 8 : column; }
  /// With stride 2 even slots come before odd ones, as a window takes every other one.
  __device__ static constexpr unsigned split_slot(unsigned slot) { return slot % 2 * (kRowSlots / 2) + slot / 2; }
  __device__ static constexpr unsigned slot_of(unsigned column) {
    if constexpr (kConfig.stride == 1) return window_slot(column) + 1;
    return column + 1 == kRowSlots ? 0 : split_slot(column + 1);
  }

  static constexpr int kTiles = kConfig.warps / 2;  // of outputs, where the stride is 2: two rows of 8
  static constexpr int kQuadBytes = kThreads * 16;
  static constexpr int kQuads = kSizes.quads;
  static constexpr int kRemoteBytes = kSizes.remote_bytes;

  static constexpr int kPatchAt = kSizes.patch_at;
  static constexpr int kExpandAt = kSizes.expand_at;
  static constexpr int kProjectAt = kSizes.project_at;
  static constexpr int kExchangeAt = kSizes.exchange_at;
  static constexpr int kPixelsAt = kSizes.pixels_at;
  static_assert(kBarriers * kBarrierBytes <= kPatchAt);
};

}  // namespace mobicuda::kernels::inverted_image
