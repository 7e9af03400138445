// What host and device agree on in the int8 inverted residual kernel: shapes, layouts, arguments.
#pragma once

#include "kernels/common/fast_division.cuh"
#include "kernels/common/hardware_limits.h"
#include "kernels/common/quantization.h"
#include "kernels/common/requantize.cuh"
#include "kernels/common/types.h"
#include "kernels/common/unsigned_bytes.cuh"

namespace mobicuda::kernels::int8_block {

inline constexpr int kOldest = 80;  // architectures that run it
inline constexpr int kOldestWithClusters = 90;
inline constexpr int kSlice = 32;      // hidden channels that a warp takes through the block at once
inline constexpr int kGroup = 8;       // neighbouring channels of a hidden pixel that lie together
inline constexpr int kTile = 16;       // pixels of an mma's rows
inline constexpr int kNoSlot = 65535;  // of a pixel of x
inline constexpr int kMostStages = 3;  // chunks of weights in shared memory
inline constexpr int kOctet = 8;       // pixels of a piece of sums
inline constexpr int kRun = 8;         // neighbouring channels that a lane scales
inline constexpr int kFlagBytes = 16;
inline constexpr int kBarrierBytes = 16;
inline constexpr int kTapsPitch = 16;  // bytes of a channel's taps: three of each row of the window, and a zero
inline constexpr int kFragmentBytes = kTile * kSlice;    // of a left operand of project
inline constexpr int kUnitBytes = kTile * kSlice * 4;    // of 16 pixels' sums of 32 channels
inline constexpr int kPieceBytes = kOctet * kSlice * 4;  // of sums that blocks of a cluster exchange

/// The compile-time side of a kernel.
struct Config {
  int stride;
  int c_in, c_hidden, c_out;
  int tile_h, tile_w;  ///< of outputs
  int warps;           ///< of a block
  int parts;           ///< warps that share the same output pixels, each with its own hidden channels
  int min_blocks;      ///< per SM, for the register budget
  int cluster;         ///< blocks that share a tile, each with its own hidden channels
};

/// How sums of hidden values become bytes. Packing finds out what is right for all inputs: README.md.
enum class Rounding : std::uint32_t {
  Bytes,  ///< small sums, the zero point is the lower end of the range, and the upper end is 255 above
  Pairs,  ///< small sums, and the zero point is the lower end
  Any,
};

/// Packed weights are kFlagBytes, of which the first word is the Rounding, the projection's biases and multipliers,
/// then slices; offsets in bytes within a slice. A hidden channel's bias is what its sums begin at.
struct SliceLayout {
  int expand_bias, expand_scale;        ///< (lane % 4, 8 neighbouring channels); before them expand: (32 of c_in, two
                                        ///< n-tiles, lane, 16 bytes)
  int taps;                             ///< (channel, row of the window, three taps and a zero), and 4 zeros
  int depthwise_bias, depthwise_scale;  ///< (lane % 4, group of 8 channels, two neighbouring ones)
  int project;                          ///< (two n-tiles, lane, 16 bytes)
  int bytes;
};

constexpr int oldest_of(const Config& c) { return c.cluster == 1 ? kOldest : kOldestWithClusters; }

/// What follows from a Config.
struct Sizes {
  int threads;
  int in_pitch, out_pitch;  ///< bytes of a pixel of x and y
  int k_steps;              ///< of 32 input channels
  int n_groups;             ///< of 32 output channels
  int chunks;               ///< of a block, of parts * kSlice hidden channels
  int stages;               ///< chunks of weights in shared memory

  int patch_h, patch_w;
  int row_pitch;       ///< hidden pixels from a row to the next, an even number
  int slots;           ///< hidden pixels of a patch
  int plane_bytes;     ///< of a group of channels of all hidden pixels
  int shifted;         ///< offset of the second copy of a slice's hidden pixels: with stride 1
  int hidden_buffers;  ///< chunks of hidden pixels in shared memory
  int pixel_warps;     ///< warps / parts
  int columns, rows;   ///< of 16 output pixels, of which those beside the tile are none
  int out_tiles, my_out_tiles;
  int my_units;           ///< of a warp: 16 pixels and 32 channels of project
  int octets;             ///< of a tile's output pixels
  int pieces, my_pieces;  ///< of a tile's sums, an octet of pixels and 32 channels each; of a block, at most
  bool in_rounds;         ///< sums are stored by way of shared memory: some output channels at once
  int round_groups;       ///< of a round: each 32 output channels
  int round_runs;         ///< of a round: each 8 output channels, a thread's
  int tiles_at_once;      ///< of 16 pixels, that the threads store in one pass

  SliceLayout slice;
  int output_bytes;              ///< of project's biases and multipliers
  int head_bytes, packed_bytes;  ///< of the weights before the slices; of all

  // Shared memory, in bytes: x | slots of its pixels | project's biases and multipliers | the cluster's barrier |
  // stages of weights | hidden pixels | filtered ones | pieces of sums of the cluster's blocks. Sums that are
  // stored in rounds lie where stages, hidden and filtered pixels were.
  int x_pitch, x_bytes, slots_bytes, stage_bytes, hidden_slice_bytes, hidden_bytes, filtered_bytes, received_bytes;
  int shared_bytes;
};

/// Of 16 output pixels, for a tile that is `width` wide.
constexpr int columns_of(int width) {
  for (const int columns : {4, 8}) {
    if (width <= columns) return columns;
  }
  return kTile;
}

constexpr Sizes sizes_of(const Config& c) {
  Sizes s{};
  s.threads = c.warps * 32;
  s.in_pitch = round_up(c.c_in, kChannelStep);
  s.out_pitch = round_up(c.c_out, kChannelStep);
  s.k_steps = ceil_div(c.c_in, kSlice);
  s.n_groups = ceil_div(c.c_out, kSlice);
  s.chunks = ceil_div(c.c_hidden, c.cluster * c.parts * kSlice);
  s.stages = std::min(s.chunks, kMostStages);

  s.pixel_warps = c.warps / c.parts;
  s.columns = columns_of(c.tile_w);
  s.rows = kTile / s.columns;
  s.out_tiles = ceil_div(c.tile_h, s.rows);
  s.my_out_tiles = ceil_div(s.out_tiles, s.pixel_warps);

  s.patch_h = (c.tile_h - 1) * c.stride + 3;
  s.patch_w = (c.tile_w - 1) * c.stride + 3;
  s.row_pitch = round_up(s.patch_w, 2);
  // Warps read rows of hidden pixels for all their outputs, also those below the tile.
  s.slots = ((round_up(s.out_tiles, s.my_out_tiles) * s.rows - 1) * c.stride + 3) * s.row_pitch;
  // A row of an ldmatrix is two neighbouring pixels of a group of channels, and a window's row two of these, of which
  // the last pixel meets a zero. Rows are 16 bytes and aligned to that: they begin at even pixels, and in the second
  // copy, 8 bytes off, at odd ones. Four planes store to different banks, and so do both copies load.
  constexpr int kBanks = 128;
  constexpr int kBeyond = 2;
  s.plane_bytes = round_up((s.slots + kBeyond) * kGroup - kBanks / 4, kBanks) + kBanks / 4;
  const int copy_bytes = kSlice / kGroup * s.plane_bytes;
  s.shifted = copy_bytes + kBanks / 2 - kGroup;
  // With one part a warp projects what it filtered; else units are dealt to all warps.
  s.my_units = c.parts == 1 ? s.my_out_tiles * s.n_groups : ceil_div(s.out_tiles * s.n_groups, c.warps);
  s.octets = ceil_div(c.tile_h * s.columns, kOctet);
  s.pieces = s.octets * s.n_groups;
  s.my_pieces = ceil_div(s.pieces, c.cluster);

  int at = s.k_steps * kSlice * kSlice;
  const int floats = kSlice * 4;
  s.slice.expand_bias = at;
  s.slice.expand_scale = at + floats;
  at += 2 * floats;
  s.slice.taps = at;
  s.slice.depthwise_bias = at + kSlice * kTapsPitch;
  s.slice.depthwise_scale = s.slice.depthwise_bias + floats;
  s.slice.project = s.slice.depthwise_scale + floats;
  s.slice.bytes = s.slice.project + s.n_groups * kSlice * kSlice;
  s.output_bytes = s.n_groups * kSlice * 8;
  s.head_bytes = kFlagBytes + s.output_bytes;
  s.packed_bytes = s.head_bytes + c.cluster * s.chunks * c.parts * s.slice.bytes;

  // 16 bytes of each pixel from banks of their own.
  s.x_pitch = c.c_in <= kSlice / 2 ? kSlice / 2 : s.k_steps * kSlice + 16;
  const int x_pixels = round_up(s.patch_h * s.patch_w, kTile);
  s.x_bytes = x_pixels * s.x_pitch;
  s.slots_bytes = round_up(x_pixels * 2, 16);
  s.stage_bytes = c.parts * s.slice.bytes;
  s.hidden_slice_bytes = c.stride == 1 ? round_up(s.shifted + copy_bytes, kBanks) : copy_bytes;
  // With one part there is one barrier a chunk: some warps expand the next one while others filter this one.
  s.hidden_buffers = c.parts == 1 ? std::min(s.chunks, 2) : 1;
  s.hidden_bytes = s.hidden_buffers * c.parts * s.hidden_slice_bytes;
  s.filtered_bytes = c.parts == 1 ? 0 : s.pixel_warps * s.my_out_tiles * c.parts * kFragmentBytes;
  s.received_bytes = c.cluster == 1 ? 0 : s.my_pieces * c.cluster * kPieceBytes;
  const int chunk_bytes = s.stages * s.stage_bytes + s.hidden_bytes + s.filtered_bytes;
  constexpr int kMostDirectUnits = 2;
  s.in_rounds = c.cluster == 1 && s.my_units > kMostDirectUnits;
  // A round has as many groups as take the fewest passes of the threads, all in all, and fit where the chunks'
  // buffers were; one group may need more.
  int least_passes = 0;
  for (int groups = 1; groups <= s.n_groups; ++groups) {
    const int runs = std::min(groups * kSlice, s.out_pitch) / kRun;
    const int at_once = s.threads / (runs * kOctet);
    if (groups > 1 && (at_once == 0 || groups * s.out_tiles * kUnitBytes > chunk_bytes)) break;
    const int passes = ceil_div(s.n_groups, groups) * ceil_div(s.out_tiles, at_once);
    if (groups > 1 && passes > least_passes) continue;
    least_passes = passes;
    s.round_groups = groups;
    s.round_runs = runs;
    s.tiles_at_once = at_once;
  }
  const int sums_bytes = s.in_rounds ? s.round_groups * s.out_tiles * kUnitBytes : 0;
  s.shared_bytes = s.x_bytes + s.slots_bytes + s.output_bytes + (c.cluster == 1 ? 0 : kBarrierBytes) +
                   std::max(chunk_bytes, sums_bytes) + s.received_bytes;
  return s;
}

/// Whether the kernel can be compiled for it and is right. Shared memory is a matter of the GPU: supports().
constexpr bool is_valid(const Config& c) {
  constexpr int kMostWarps = 32;
  constexpr int kMostThreadsOfSm = 2048;
  constexpr int kMostPixels = 4096;
  const bool extents = (c.stride == 1 || c.stride == 2) && c.tile_h > 0 && c.tile_w > 0 && c.tile_w <= kTile &&
                       c.tile_h <= kMostPixels / kTile && c.min_blocks > 0;
  const bool work = c.warps > 0 && c.warps <= kMostWarps && c.parts > 0 && c.warps % c.parts == 0 &&
                    c.warps * 32 * c.min_blocks <= kMostThreadsOfSm && c.cluster > 0 &&
                    c.cluster <= limits_of(kOldestWithClusters).large_cluster_blocks;
  const bool channels =
      c.c_in > 0 && c.c_in % 8 == 0 && c.c_hidden > 0 && c.c_hidden % 8 == 0 && c.c_out > 0 && c.c_out % 8 == 0;
  if (!extents || !work || !channels) return false;
  // Sums of a lane are in registers; this bounds the products in sizes_of(), too.
  constexpr int kMostSums = 512;
  const int tiles = ceil_div(ceil_div(c.tile_h * columns_of(c.tile_w), kTile), c.warps / c.parts);
  return tiles * ceil_div(c.c_out, kSlice) * 16 <= kMostSums && sizes_of(c).slots < kNoSlot;
}

struct Arguments {
  int h, w, out_h, out_w;
  int pad_top, pad_left;
  FastDivision tiles_x, tiles_y;
  bool residual;
  std::uint32_t padding;  ///< four times the hidden tensor's zero point, as it is stored
  UnsignedPair hidden, filtered;
  Requantize output;
  AddBytes sum;
  std::int32_t zero;  ///< HiddenScales
};

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static_assert(is_valid(kConfig));
  static constexpr int kOldest = oldest_of(kConfig);
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr SliceLayout kLayout = kSizes.slice;
  static constexpr int kStride = kConfig.stride;
  static constexpr int kTileH = kConfig.tile_h;
  static constexpr int kTileW = kConfig.tile_w;
  static constexpr int kColumns = kSizes.columns;
  static constexpr int kRows = kSizes.rows;
  static constexpr int kWarps = kConfig.warps;
  static constexpr int kParts = kConfig.parts;
  static constexpr int kThreads = kSizes.threads;
  static constexpr int kInPitch = kSizes.in_pitch;
  static constexpr int kOutPitch = kSizes.out_pitch;
  static constexpr int kStepsK = kSizes.k_steps;
  static constexpr bool kHalfStep = kConfig.c_in <= kSlice / 2;  ///< the one step is of 16 input channels
  static constexpr int kGroups = kSizes.n_groups;
  static constexpr int kChunks = kSizes.chunks;
  static constexpr int kStages = kSizes.stages;
  static constexpr int kCluster = kConfig.cluster;
  static constexpr int kPatchH = kSizes.patch_h;
  static constexpr int kPatchW = kSizes.patch_w;
  static constexpr int kPatchTiles = ceil_div(kPatchH * kPatchW, kTile);
  static constexpr int kRowPitch = kSizes.row_pitch;
  static constexpr int kPlaneBytes = kSizes.plane_bytes;
  static constexpr int kPixelWarps = kSizes.pixel_warps;
  static constexpr int kOutTiles = kSizes.out_tiles;
  static constexpr int kMyOutTiles = kSizes.my_out_tiles;
  static constexpr int kMyUnits = kSizes.my_units;
  static constexpr int kOctets = kSizes.octets;
  static constexpr int kPieces = kSizes.pieces;
  static constexpr bool kInRounds = kSizes.in_rounds;
  static constexpr int kRoundGroups = kSizes.round_groups;
  static constexpr int kRounds = ceil_div(kGroups, kRoundGroups);
  static constexpr int kRoundRuns = kSizes.round_runs;
  static constexpr int kTilesAtOnce = kSizes.tiles_at_once;
  static constexpr bool kMayAdd = kStride == 1 && kConfig.c_in == kConfig.c_out;

  static constexpr int kSlotsAt = kSizes.x_bytes;
  static constexpr int kOutputAt = kSlotsAt + kSizes.slots_bytes;
  static constexpr int kBarrierAt = kOutputAt + kSizes.output_bytes;
  static constexpr int kStagesAt = kBarrierAt + (kCluster == 1 ? 0 : kBarrierBytes);
  static constexpr int kHiddenAt = kStagesAt + kStages * kSizes.stage_bytes;
  static constexpr int kFilteredAt = kHiddenAt + kSizes.hidden_bytes;
  static constexpr int kReceivedAt = kFilteredAt + kSizes.filtered_bytes;
  static constexpr int kSumsAt = kStagesAt;
};

}  // namespace mobicuda::kernels::int8_block
