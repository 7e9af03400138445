// What host and device agree on in the image kernels for small images: shapes, layouts, arguments.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/hardware_limits.h"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_image7 {

inline constexpr int kChunk = 32;  // hidden channels at once
inline constexpr int kWarpgroup = 128;
inline constexpr int kWarpgroupUnits = 32;  // two pixels below each other each: the 64 rows of a warpgroup's products
inline constexpr int kLineUnits = 8;        // of a warp; a line is their upper or their lower pixels
inline constexpr int kMostColumns = 256;    // output channels of one product

/// The compile-time side of a variant.
struct Config {
  int side;                   ///< of the largest image: rows and columns
  int c_in, c_hidden, c_out;  ///< multiples of 8, 16 and 8 * cuts
  int tiles;                  ///< of a block: an image, or several small ones
  int parts;                  ///< warpgroups that share a tile by hidden channels, each with its own weights
  int blocks;                 ///< of a cluster, which share the hidden channels as well
  int stages;                 ///< chunks of weights of a part in shared memory
  int cuts = 1;               ///< of the output channels, each in blocks of its own, which repeat the hidden tensor
};

/// How channels are dealt to the four threads that share a pixel: of every 32 each has 8 neighbours, of a rest of up to
/// 16 it has 4.
struct Deal {
  int blocks;  ///< of 32; behind the last channel there are zeros
  int rests;   ///< 0 or 1
  int padded;  ///< channels
};

constexpr Deal deal_of(int channels) {
  Deal deal{};
  deal.rests = channels % 32 > 0 && channels % 32 <= 16 ? 1 : 0;
  deal.blocks = ceil_div(channels - deal.rests * 16, 32);
  deal.padded = deal.blocks * 32 + deal.rests * 16;
  return deal;
}

/// What follows from a Config. Offsets and sizes in bytes.
struct Sizes {
  int threads;
  int senders;  ///< of partial sums of a tile

  // A tile: units of an image row pair by row pair. Where the images are large, a warp has 8 columns of a pair.
  int columns;      ///< units of a row pair, of which some may be idle
  int image_units;  ///< units of an image
  int images;       ///< of a tile
  int spans;        ///< warpgroups of a tile
  int lines;        ///< of a tile
  int line_lanes;   ///< of a warp, that have pixels in a line

  // A tile's hidden pixels, 8 channels of each in a slot of 16 bytes: rows of slots, column -1 first, which is the
  // column behind the last one of the row above; row -1 first, which is the row behind the image above.
  int slot_columns;
  int slot_rows;
  int group_bytes;  ///< of 8 channels
  int patch_bytes;  ///< what is read past the end is of no output

  Deal in, out;  ///< out: of one cut
  int cut_out;   ///< output channels of a cut
  int products;  ///< of project, side by side
  int product_columns;
  int sums;            ///< of a thread
  bool shared_pixels;  ///< the pixels of x are in shared memory, as an operand: the sums leave no registers for them
  int pixel_bytes;     ///< of a warpgroup

  // A chunk of packed weights: operands of expand | taps 0 to 7 of each channel | the last one | biases, float | for
  // each cut the operands of project, product by product.
  int chunks;
  int taps, last_tap, expand_bias, depthwise_bias;
  int project;
  int product_bytes;
  int chunk_bytes;
  int stage_bytes;  ///< of a chunk, what a block needs: one cut
  int bias_bytes;   ///< of project, one cut

  // Partial sums: (sending part, tile, one of a block's lines, 4 of the channels of each thread, lane) of 16 bytes.
  int rows;  ///< lines that a block finishes of a tile, at most
  int piece_bytes;
  int row_bytes;
  int partial_bytes;

  // Shared memory: barriers, full and empty of each part's stages, then that of biases and sums | stages | patches, two
  // each | project's biases | pixels of x | partial sums.
  int arrived_at, stages_at, patches_at, bias_at, pixels_at, partial_at;
  int shared_bytes;
};

/// Of a thread, where an SM has one block.
constexpr int registers_of(int threads) {
  constexpr int kMost = 255;
  constexpr int kOfMultiprocessor = 65536;
  const int share = kOfMultiprocessor / threads;
  return share < kMost ? share : kMost;
}

constexpr Sizes sizes_of(const Config& c) {
  constexpr int kWarpColumnsFrom = 6;
  constexpr int kBesideSumsAndPixels = 135;  // registers
  Sizes s{};
  const int pairs = ceil_div(c.side, 2);
  const bool warp_columns = c.side >= kWarpColumnsFrom && c.side <= kLineUnits;
  s.columns = warp_columns ? kLineUnits : c.side;
  s.image_units = pairs * s.columns;
  s.spans = ceil_div(s.image_units, kWarpgroupUnits);
  s.images = s.spans == 1 && !warp_columns ? kWarpgroupUnits / s.image_units : 1;
  s.lines = warp_columns ? c.side : s.spans * kWarpgroupUnits / kLineUnits * 2;
  s.line_lanes = warp_columns ? c.side * 4 : 32;
  s.threads = c.tiles * c.parts * s.spans * kWarpgroup;
  s.senders = c.blocks * c.parts;

  s.slot_columns = c.side + 1 > s.columns ? c.side + 1 : s.columns;
  if (warp_columns) {
    s.slot_rows = kLineUnits + 2;
  } else {
    const int idle_pairs = ceil_div(s.spans * kWarpgroupUnits - s.images * s.image_units, s.columns);
    s.slot_rows = s.images * (c.side + 1) + (idle_pairs > 0 ? 2 * idle_pairs + 2 : 2 * pairs + 1 - c.side);
  }
  s.group_bytes = s.slot_rows * s.slot_columns * 16;
  s.patch_bytes = kChunk / 8 * s.group_bytes + 128;

  s.in = deal_of(c.c_in);
  s.cut_out = c.c_out / c.cuts;
  s.out = deal_of(s.cut_out);
  s.products = ceil_div(s.out.padded, kMostColumns);
  s.product_columns = round_up(ceil_div(s.out.padded, s.products), 16);
  s.sums = s.products * s.product_columns / 2;
  s.shared_pixels = s.sums + s.in.padded / 4 > registers_of(s.threads) - kBesideSumsAndPixels;
  s.pixel_bytes = s.shared_pixels ? 64 * s.in.padded * 2 : 0;

  s.chunks = ceil_div(c.c_hidden, kChunk);
  s.taps = s.in.padded * kChunk * 2;
  s.last_tap = s.taps + kChunk * 16;
  s.expand_bias = s.last_tap + kChunk * 4;
  s.depthwise_bias = s.expand_bias + kChunk * 4;
  s.project = s.depthwise_bias + kChunk * 4;
  s.product_bytes = kChunk * s.product_columns * 2;
  s.stage_bytes = s.project + s.products * s.product_bytes;
  s.chunk_bytes = s.project + c.cuts * s.products * s.product_bytes;
  s.bias_bytes = s.out.padded * 4;

  s.rows = ceil_div(s.lines, c.blocks);
  s.piece_bytes = s.line_lanes * 16;
  s.row_bytes = (s.out.blocks * 2 + s.out.rests) * s.piece_bytes;
  s.partial_bytes = s.senders == 1 ? 0 : s.senders * c.tiles * s.rows * s.row_bytes;

  s.arrived_at = c.parts * c.stages * 16;
  s.stages_at = round_up(s.arrived_at + 8, 128);
  s.patches_at = s.stages_at + c.parts * c.stages * s.stage_bytes;
  s.bias_at = s.patches_at + c.tiles * c.parts * 2 * s.patch_bytes;
  s.pixels_at = s.bias_at + s.bias_bytes;
  s.partial_at = s.pixels_at + c.tiles * c.parts * s.spans * s.pixel_bytes;
  s.shared_bytes = s.partial_at + s.partial_bytes;
  return s;
}

/// Whether the kernel can be compiled for it, with next to no spills, and runs. Each part has a chunk at least. A
/// residual is added by blocks that have all channels.
constexpr bool is_valid(const Config& c) {
  constexpr int kLargestSide = 10;  // of an image that has two warpgroups
  constexpr int kMostChannels = 4096;
  constexpr int kMostWarpgroups = 4;
  constexpr int kLeastStages = 3;
  constexpr int kMostStages = 16;
  constexpr int kBesideSums = 95;  // registers
  const auto within = [](int value, int least, int most) { return value >= least && value <= most; };
  if (!within(c.side, 1, kLargestSide) || !within(c.c_in, 8, kMostChannels) || c.c_in % 8 != 0 ||
      !within(c.c_hidden, 16, kMostChannels) || c.c_hidden % 16 != 0 || !within(c.c_out, 8, kMostChannels) ||
      !within(c.cuts, 1, c.c_out / 8) || c.c_out % (8 * c.cuts) != 0 || (c.cuts > 1 && c.c_in == c.c_out) ||
      !within(c.tiles, 1, kMostWarpgroups) || !within(c.parts, 1, kMostWarpgroups) ||
      !within(c.blocks, 1, limits_of(90).cluster_blocks) || !within(c.stages, kLeastStages, kMostStages)) {
    return false;
  }
  const Sizes s = sizes_of(c);
  return s.threads <= kMostWarpgroups * kWarpgroup && s.sums <= registers_of(s.threads) - kBesideSums &&
         s.chunks >= s.senders && static_cast<std::size_t>(s.shared_bytes) <= limits_of(90).shared_bytes_per_block;
}

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static_assert(is_valid(kConfig));
  static constexpr int kSide = kConfig.side;
  static constexpr int kTiles = kConfig.tiles;
  static constexpr int kParts = kConfig.parts;
  static constexpr int kBlocks = kConfig.blocks;
  static constexpr int kCuts = kConfig.cuts;
  static constexpr int kSpans = kSizes.spans;
  static constexpr int kTeam = kSpans * kWarpgroup;  // threads of a tile and a part
  static constexpr int kImages = kSizes.images;
  static constexpr bool kWarpColumns = kSizes.columns == kLineUnits;  // a warp has the 8 columns of two rows
  static constexpr int kSenders = kSizes.senders;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kRefillAfter = kStages > 3 ? 2 : 1;  // chunks: others of the block may be behind by one
  static constexpr int kThreads = kSizes.threads;
  static constexpr Deal kIn = kSizes.in;
  static constexpr Deal kOut = kSizes.out;
  static constexpr int kStepsIn = kIn.padded / 16;
  static constexpr int kChunks = kSizes.chunks;
  static constexpr int kProducts = kSizes.products;
  static constexpr int kColumns = kSizes.product_columns;
  static constexpr bool kMayAdd = kConfig.c_in == kConfig.c_out;
  static constexpr int kStageBytes = kSizes.stage_bytes;
  static constexpr bool kSharedPixels = kSizes.shared_pixels;
  static constexpr int kPixelBytes = kSizes.pixel_bytes;
  static constexpr int kGroups = kChunk / 8;
  static constexpr int kSlotColumns = kSizes.slot_columns;
  static constexpr int kGroupBytes = kSizes.group_bytes;
  static constexpr int kPatchBytes = kSizes.patch_bytes;
  static constexpr int kRows = kSizes.rows;
  static constexpr int kPieceBytes = kSizes.piece_bytes;
  static constexpr int kRowBytes = kSizes.row_bytes;
  static constexpr int kBiasBytes = kSizes.bias_bytes;
  static constexpr int kArrivedAt = kSizes.arrived_at;
  static constexpr int kStagesAt = kSizes.stages_at;
  static constexpr int kPatchesAt = kSizes.patches_at;
  static constexpr int kBiasAt = kSizes.bias_at;
  static constexpr int kPixelsAt = kSizes.pixels_at;
  static constexpr int kPartialAt = kSizes.partial_at;
};

struct Arguments {
  int n, h, w;
  bool residual;
  __half2 expand_hi, depthwise_hi;  ///< the lower bounds are zero
  Clip project_clip;
};

}  // namespace mobicuda::kernels::inverted_image7
