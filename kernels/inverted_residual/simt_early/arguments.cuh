#pragma once

#include "kernels/inverted_residual/simt_units.cuh"

namespace mobicuda::kernels::inverted_simt_early {

using inverted_simt_cluster::Arguments;
using inverted_simt_cluster::kTaps;

inline constexpr int kExpandLanes = 2;  // of a unit
inline constexpr int kStep = 2;         // pixels that a unit of a 1x1 convolution computes at once
inline constexpr int kSpread = 2;  // units of project whose lanes take turns, so that neighbours read the same 16 bytes
inline constexpr int kWarp = 32;
inline constexpr int kBanks = 32;
inline constexpr int kQuad = 4;  // floats of 16 bytes

// Packed weights, all float, in slices of hidden channels, one for each block of a cluster.
// A slice: expand (16 bytes of a lane, group of channels, lane) | expand bias | what shared memory has: depthwise taps
// (9, hidden), depthwise bias, project bias (c_out) | project as a unit reads it: (group of output channels, 16 bytes
// of a lane, lane).

/// The compile-time side of a variant.
struct Config {
  int blocks;  ///< of a cluster, which share the hidden channels; 1: no cluster
  int stride;
  int c_in, c_hidden, c_out;  ///< multiples of 8, of 1 and of 2
  int rows, columns;          ///< of output pixels in a tile
  int expand_channels;        ///< hidden channels of a unit, of kExpandLanes lanes
  int project_lanes;          ///< that share the block's hidden channels: a unit
  int project_channels;       ///< output channels of a unit
  int threads;                ///< of a block
  int min_blocks;             ///< per multiprocessor, for the register budget
};

/// Which of a unit's channels in expand number i of a lane's sums is of: those that the lane keeps come first.
constexpr int expand_channel(int channels, int lanes, int lane, int i) {
  return (i + lane * channels / lanes) % channels;
}

/// Whether `count` runs of `floats`, `stride` apart, are in different banks of shared memory.
constexpr bool banks_apart(int stride, int floats, int count) {
  for (int i = 1; i < count; ++i) {
    const int bank = i * stride % kBanks;
    if (bank < floats || bank > kBanks - floats) return false;
  }
  return true;
}

/// Whether the schedulers of an SM have fewer warps each if a block's threads past the first `busy` do nothing.
constexpr bool idle_warps_count(int busy, int threads) {
  constexpr int kRow = 4 * kWarp;  // a warp for each scheduler
  return ceil_div(busy, kRow) < ceil_div(threads, kRow);
}

/// The least distance of pixels of `c_in` floats, in floats, at which what the units of `pixels` of them read at once
/// is in different banks; of fewer pixels where there is none.
constexpr int pixel_stride(int c_in, int pixels) {
  for (;; --pixels) {
    for (int stride = c_in; stride < c_in + kBanks; stride += kQuad) {
      if (banks_apart(stride, kQuad * kExpandLanes, pixels)) return stride;
    }
  }
}

/// Hidden channels of a block: a whole number of units of expand, of lanes of project and of 16 bytes. Those past the
/// last of all have no share in the sums.
constexpr int hidden_of(const Config& c) {
  const int units = std::max(c.expand_channels, c.project_lanes);  // powers of two, both
  return round_up(ceil_div(c.c_hidden, c.blocks), std::max(kQuad, units));
}

/// What follows from it.
struct Sizes {
  int hidden;  ///< channels of a block
  int patch_h, patch_w;
  int pixels, out_pixels;  ///< of a patch and a tile

  // expand: a unit has every expand_groups-th pixel. A pixel of the patch may end in unused floats, so that what the
  // units of a warp read at once is in different banks.
  int expand_k;     ///< input channels of a lane
  int expand_own;   ///< channels of a unit that a lane has in the end
  int pixel_lanes;  ///< of the units that share a pixel
  int expand_groups, expand_pixels;
  int patch_stride;

  // depthwise: a thread has a pair of channels in all rows of some columns.
  int pairs;
  int strip_columns, strips;

  // project.
  int project_k;        ///< hidden channels of a lane
  int project_columns;  ///< units that share a pixel
  int project_groups, project_pixels;

  // finish: a thread has a pair of the output channels that the block owns.
  int owned;  ///< the most
  int sums;   ///< of a block of the cluster

  // Packed weights of a slice, in floats.
  int expand_bias_at, constants_at, constants, project_at, slice_floats;

  // Shared memory, in floats: barrier | partial sums (block of the cluster, pixel, owned channel) | constants | patch |
  // hidden | filtered. With the pixels beyond the last one that are read or written, and not used.
  int partial_at, shared_constants_at, shared_bias_at, patch_at, hidden_at, filtered_at, shared_bytes;
};

/// Of a configuration whose units find threads: is_valid().
constexpr Sizes sizes_of(const Config& c) {
  constexpr int kBarrierFloats = 32;
  Sizes s{};
  s.hidden = hidden_of(c);
  s.patch_h = (c.rows - 1) * c.stride + 3;
  s.patch_w = (c.columns - 1) * c.stride + 3;
  s.pixels = s.patch_h * s.patch_w;
  s.out_pixels = c.rows * c.columns;

  s.expand_k = c.c_in / kExpandLanes;
  s.expand_own = c.expand_channels / kExpandLanes;
  s.pixel_lanes = s.hidden / c.expand_channels * kExpandLanes;
  s.expand_pixels = ceil_div(s.pixels, c.threads / s.pixel_lanes);
  s.expand_groups = ceil_div(s.pixels, s.expand_pixels);
  // The lanes of a warp may begin amid a pixel.
  s.patch_stride = pixel_stride(c.c_in, ceil_div(kWarp, s.pixel_lanes) + (kWarp % s.pixel_lanes == 0 ? 0 : 1));

  s.pairs = s.hidden / 2;
  s.strip_columns = ceil_div(c.columns, std::max(c.threads / s.pairs, 1));
  s.strips = ceil_div(c.columns, s.strip_columns);

  s.project_k = s.hidden / c.project_lanes;
  s.project_columns = ceil_div(c.c_out, c.project_channels);
  s.project_pixels = ceil_div(s.out_pixels, c.threads / (s.project_columns * c.project_lanes));
  s.project_groups = ceil_div(s.out_pixels, s.project_pixels);

  s.owned = 2 * ceil_div(c.c_out, 2 * c.blocks);
  s.sums = s.project_groups * s.project_pixels * s.owned;

  s.expand_bias_at = c.c_in * s.hidden;
  s.constants_at = s.expand_bias_at + s.hidden;
  s.constants = (kTaps + 1) * s.hidden + round_up(c.c_out, kQuad);
  s.project_at = s.constants_at + s.constants;
  s.slice_floats = s.project_at + s.hidden * s.project_columns * c.project_channels;

  const int past_strips = (s.strips * s.strip_columns - c.columns) * c.stride;
  s.partial_at = kBarrierFloats;
  s.shared_constants_at = s.partial_at + round_up(c.blocks * s.sums, kQuad);
  s.shared_bias_at = s.shared_constants_at + (kTaps + 1) * s.hidden;
  s.patch_at = s.shared_constants_at + s.constants;
  s.hidden_at = s.patch_at + s.expand_groups * s.expand_pixels * s.patch_stride;
  s.filtered_at = s.hidden_at + std::max(s.expand_groups * s.expand_pixels, s.pixels + past_strips) * s.hidden;
  s.shared_bytes = (s.filtered_at + s.project_groups * s.project_pixels * s.hidden) * 4;
  return s;
}

/// Whether the kernel can be compiled for it.
constexpr bool is_valid(const Config& c) {
  constexpr int kMostBlocks = 8;     // every GPU that has clusters runs these
  constexpr int kMostExtent = 32;    // of a tile
  constexpr int kMostWeights = 224;  // of a thread: more do not leave registers for anything else
  constexpr int kMostSums = 32;      // pairs of a thread in depthwise
  constexpr int kMostItems = 16;     // of a thread: 16 bytes of the patch, outputs
  constexpr int kMostPixels = 32;    // of a unit of expand: bits of a word
  const auto between = [](int least, int value, int most) { return least <= value && value <= most; };
  const auto power_of_two = [](int value) { return value > 0 && (value & (value - 1)) == 0; };
  if (!between(1, c.blocks, kMostBlocks) || !between(1, c.stride, 2)) return false;
  if (!between(1, c.rows, kMostExtent) || !between(1, c.columns, kMostExtent)) return false;
  if (!between(8, c.c_in, 2 * kMostWeights) || c.c_in % (kExpandLanes * kQuad) != 0) return false;
  if (c.c_hidden < c.blocks || c.c_out < 2 || c.c_out % 2 != 0) return false;
  if (!between(kWarp, c.threads, 1024) || c.threads % kWarp != 0) return false;
  if (!between(1, c.min_blocks, 2048 / c.threads)) return false;
  if (!between(kQuad, c.expand_channels, kWarp) || !power_of_two(c.expand_channels)) return false;
  if (!between(kQuad, c.project_channels, c.project_lanes) || !power_of_two(c.project_channels)) return false;
  if (!between(kQuad, c.project_lanes, kWarp / kSpread) || !power_of_two(c.project_lanes)) return false;
  const int hidden = hidden_of(c);
  const int weights = c.c_in / kExpandLanes * c.expand_channels + hidden / c.project_lanes * c.project_channels;
  // Every block has a channel, and each group of units all of its threads.
  if (weights > kMostWeights || (c.blocks - 1) * hidden >= c.c_hidden || hidden / 2 > c.threads ||
      ceil_div(c.c_out, c.project_channels) * c.project_lanes > c.threads) {
    return false;
  }
  const Sizes s = sizes_of(c);
  return s.expand_pixels <= kMostPixels && c.rows * s.strip_columns <= kMostSums &&
         ceil_div(s.pixels * c.c_in / kQuad, c.threads) <= kMostItems &&
         ceil_div(s.out_pixels * s.owned / 2, c.threads) <= kMostItems;
}

template <Config kTheConfig>
struct Shape {
  static_assert(is_valid(kTheConfig));
  static constexpr Config kConfig = kTheConfig;
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr int kHidden = kSizes.hidden;
  static constexpr int kPatchH = kSizes.patch_h;
  static constexpr int kPatchW = kSizes.patch_w;
  static constexpr int kPixels = kSizes.pixels;
  static constexpr int kOutPixels = kSizes.out_pixels;
  static constexpr int kExpandK = kSizes.expand_k;
  static constexpr int kExpandOwn = kSizes.expand_own;
  static constexpr int kPixelLanes = kSizes.pixel_lanes;
  static constexpr int kExpandGroups = kSizes.expand_groups;
  static constexpr int kExpandPixels = kSizes.expand_pixels;
  static constexpr int kPatchStride = kSizes.patch_stride;
  static constexpr int kPairs = kSizes.pairs;
  static constexpr int kStripColumns = kSizes.strip_columns;
  static constexpr int kStrips = kSizes.strips;
  static constexpr int kProjectK = kSizes.project_k;
  static constexpr int kProjectColumns = kSizes.project_columns;
  static constexpr int kProjectGroups = kSizes.project_groups;
  static constexpr int kProjectUnits = kProjectColumns * kProjectGroups;
  static constexpr int kProjectPixels = kSizes.project_pixels;
  static constexpr int kOwned = kSizes.owned;
  static constexpr bool kAlike = kOwned * kConfig.blocks == kConfig.c_out;  // blocks own as many each
  static constexpr int kSums = kSizes.sums;
  static constexpr int kExpandBiasAt = kSizes.expand_bias_at;
  static constexpr int kConstantsAt = kSizes.constants_at;
  static constexpr int kConstants = kSizes.constants;
  static constexpr int kProjectAt = kSizes.project_at;
  static constexpr int kSliceFloats = kSizes.slice_floats;
  static constexpr int kPartialAt = kSizes.partial_at;
  static constexpr int kSharedConstantsAt = kSizes.shared_constants_at;
  static constexpr int kSharedBiasAt = kSizes.shared_bias_at;
  static constexpr int kPatchAt = kSizes.patch_at;
  static constexpr int kHiddenAt = kSizes.hidden_at;
  static constexpr int kFilteredAt = kSizes.filtered_at;
};

}  // namespace mobicuda::kernels::inverted_simt_early
