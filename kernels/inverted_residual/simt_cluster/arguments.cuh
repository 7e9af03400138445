#pragma once

#include "kernels/common/hardware_limits.h"
#include "kernels/inverted_residual/simt_units.cuh"

namespace mobicuda::kernels::inverted_simt_cluster {

inline constexpr int kLanes = 8;        // neighbours that share the sums of some channels: a unit
inline constexpr int kMostBlocks = 16;  // of a cluster
inline constexpr int kMostThreads = 1024;
inline constexpr int kMostUnitPixels = 32;  // in expand: the bits of a mask

// Packed weights, all float: project bias (c_out) | slices of hidden channels, one for each block of a cluster.
// A slice: expand weights | depthwise taps (9, hidden) | depthwise bias | expand bias | project weights. The weights of
// both 1x1 convolutions lie as a unit reads them: (group of output channels, 16 bytes of a lane, lane). Hidden channels
// behind the last one are zeros.
constexpr int depthwise_floats(int hidden) { return (kTaps + 2) * hidden; }

/// The compile-time side of a variant.
struct Config {
  int blocks;  ///< of a cluster, which share the hidden channels
  int stride;
  int c_in, c_hidden, c_out;
  int rows, columns;     ///< of output pixels in a tile
  int patch_columns;     ///< of the tile's patch inside the image, the most
  int threads;           ///< of a block
  int expand_channels;   ///< output channels of a unit: 4 or 8
  int expand_groups;     ///< of units, by pixels
  int project_channels;  ///< as for expand
  int project_groups;
  int early;       ///< 1: project's weights are in registers before the wait for the predecessor, as expand's are
  int min_blocks;  ///< per multiprocessor, for the register budget
};

/// What follows from it.
struct Sizes {
  int hidden;  ///< channels of a block, with the zeros behind the last one
  int patch_h, patch_w;
  int out_pixels;
  // expand: a lane has expand_k of the input channels, a unit expand_pixels of the pixels, expand_step at once.
  // project: the same.
  int pixels;
  int expand_k, expand_columns, expand_units, expand_pixels, expand_step;
  // depthwise: a thread has a pair of channels in all rows of some columns.
  int pairs, strip_columns, strips;
  int project_k, project_columns, project_units, project_pixels, project_step;
  int owned;  ///< output channels that a block finishes, the most
  int sums;   ///< of those
  // Packed weights, in floats.
  int expand_floats, project_at, slice_floats, packed_floats;
  // Shared memory, in floats: barrier | partial sums (block of the cluster, pixel, owned channel) | patch | hidden |
  // filtered. With the pixels beyond the last one that are read, and not used.
  int partial_at, patch_at, hidden_at, hidden_floats, filtered_at;
  int shared_bytes;
};

/// Pixels of a unit at once, of so many: what lies between the products of one pixel and the next is latency.
constexpr int step_of(int pixels) { return pixels % 2 == 0 ? 2 : pixels % 3 == 0 ? 3 : 1; }

/// Of values that are all positive.
constexpr Sizes sizes_of(const Config& c) {
  Sizes s{};
  s.hidden = round_up(ceil_div(c.c_hidden, c.blocks), kLanes);
  s.patch_h = (c.rows - 1) * c.stride + 3;
  s.patch_w = (c.columns - 1) * c.stride + 3;
  s.out_pixels = c.rows * c.columns;
  s.pixels = s.patch_h * c.patch_columns;
  s.expand_k = c.c_in / kLanes;
  s.expand_columns = s.hidden / c.expand_channels;
  s.expand_units = s.expand_columns * c.expand_groups;
  s.expand_pixels = ceil_div(s.pixels, c.expand_groups);
  s.expand_step = step_of(s.expand_pixels);
  s.pairs = s.hidden / 2;
  s.strip_columns = s.pairs * c.columns <= c.threads ? 1 : 2;
  s.strips = ceil_div(c.columns, s.strip_columns);
  s.project_k = s.hidden / kLanes;
  s.project_columns = c.c_out / c.project_channels;
  s.project_units = s.project_columns * c.project_groups;
  s.project_pixels = ceil_div(s.out_pixels, c.project_groups);
  s.project_step = step_of(s.project_pixels);
  s.owned = ceil_div(c.c_out, c.blocks);
  s.sums = s.out_pixels * s.owned;
  s.expand_floats = c.c_in * s.hidden;
  s.project_at = s.expand_floats + depthwise_floats(s.hidden);
  s.slice_floats = s.project_at + s.hidden * c.c_out;
  s.packed_floats = c.c_out + c.blocks * s.slice_floats;
  s.partial_at = 32;
  s.patch_at = s.partial_at + round_up(c.blocks * s.sums, 4);
  s.hidden_at = s.patch_at + c.expand_groups * s.expand_pixels * c.c_in;
  s.hidden_floats = (s.patch_h * s.patch_w + s.strip_columns * c.stride) * s.hidden;
  s.filtered_at = s.hidden_at + s.hidden_floats;
  const int filtered_pixels = c.project_groups * s.project_pixels;
  s.shared_bytes = (s.filtered_at + (filtered_pixels > s.out_pixels ? filtered_pixels : s.out_pixels) * s.hidden) * 4;
  return s;
}

/// Whether the kernel can be compiled for it.
constexpr bool is_valid(const Config& c) {
  for (const int value : {c.c_in, c.c_hidden, c.c_out, c.rows, c.columns, c.patch_columns, c.expand_groups,
                          c.project_groups, c.min_blocks}) {
    if (value < 1) return false;
  }
  // Products of these stay ints.
  constexpr int kMostSide = 32;
  constexpr int kMostChannels = 2048;
  constexpr int kMostMinBlocks = 32;
  if (c.rows > kMostSide || c.columns > kMostSide || c.patch_columns > 2 * kMostSide + 1) return false;
  if (c.c_in > kMostChannels || c.c_hidden > kMostChannels || c.c_out > kMostChannels) return false;
  if (c.expand_groups > kMostThreads || c.project_groups > kMostThreads || c.min_blocks > kMostMinBlocks) {
    return false;
  }
  if (c.blocks < 2 || c.blocks > kMostBlocks || c.stride < 1 || c.stride > 2 || c.early < 0 || c.early > 1)
    return false;
  if (c.threads < 32 || c.threads > kMostThreads || c.threads % 32 != 0) return false;
  for (const int channels : {c.expand_channels, c.project_channels}) {
    if (channels != kLanes / 2 && channels != kLanes) return false;
  }
  const Sizes s = sizes_of(c);
  const int units = c.threads / kLanes;
  return c.c_in % kLanes == 0 && c.c_out % c.project_channels == 0 && (c.blocks - 1) * s.hidden < c.c_hidden &&
         (c.blocks - 1) * s.owned < c.c_out && s.expand_units <= units && s.project_units <= units &&
         s.expand_pixels <= kMostUnitPixels && s.pairs * s.strips <= c.threads && s.sums <= c.threads &&
         c.patch_columns <= s.patch_w;
}

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr int kThreads = kConfig.threads;
  static constexpr int kHidden = kSizes.hidden;
  static constexpr int kPatchH = kSizes.patch_h;
  static constexpr int kPatchW = kSizes.patch_w;
  static constexpr int kOutPixels = kSizes.out_pixels;
  static constexpr int kPixels = kSizes.pixels;
  static constexpr int kExpandK = kSizes.expand_k;
  static constexpr int kExpandColumns = kSizes.expand_columns;
  static constexpr int kExpandUnits = kSizes.expand_units;
  static constexpr int kExpandPixels = kSizes.expand_pixels;
  static constexpr int kExpandStep = kSizes.expand_step;
  static constexpr int kPairs = kSizes.pairs;
  static constexpr int kStripColumns = kSizes.strip_columns;
  static constexpr int kStrips = kSizes.strips;
  static constexpr int kProjectK = kSizes.project_k;
  static constexpr int kProjectColumns = kSizes.project_columns;
  static constexpr int kProjectUnits = kSizes.project_units;
  static constexpr int kProjectPixels = kSizes.project_pixels;
  static constexpr int kProjectStep = kSizes.project_step;
  static constexpr int kOwned = kSizes.owned;
  static constexpr int kSums = kSizes.sums;
  static constexpr int kExpandFloats = kSizes.expand_floats;
  static constexpr int kProjectAt = kSizes.project_at;
  static constexpr int kSliceFloats = kSizes.slice_floats;
  static constexpr int kPartialAt = kSizes.partial_at;
  static constexpr int kPatchAt = kSizes.patch_at;
  static constexpr int kHiddenAt = kSizes.hidden_at;
  static constexpr int kHiddenFloats = kSizes.hidden_floats;
  static constexpr int kFilteredAt = kSizes.filtered_at;
  static_assert(is_valid(kConfig));
};

}  // namespace mobicuda::kernels::inverted_simt_cluster
