#pragma once

#include "kernels/inverted_residual/simt_units.cuh"

namespace mobicuda::kernels::inverted_simt_early {

using inverted_simt_cluster::Arguments;
using inverted_simt_cluster::kTaps;

inline constexpr int kThreads = 256;
inline constexpr int kMinBlocks = 2;  // per multiprocessor

// Packed weights, all float, in slices of hidden channels, one for each block of a cluster.
// A slice: expand (16 bytes of a lane, group of channels, lane) | expand bias | what shared memory has: depthwise taps
// (9, hidden), depthwise bias, project bias (c_out) | project as a unit reads it: (group of output channels, 16 bytes
// of a lane, lane).

/// The compile-time side of a variant.
struct Config {
  int blocks;  ///< of a cluster, which share the hidden channels: more than one
  int stride;
  int c_in, c_hidden, c_out;
  int rows, columns;     ///< of output pixels in a tile
  int expand_channels;   ///< hidden channels of a unit, of kExpandLanes lanes
  int project_lanes;     ///< that share the block's hidden channels: a unit
  int project_channels;  ///< output channels of a unit
};

/// Where lane number `lane` of a unit of `lanes` finds its input channel number i, of `count`: in runs of 4 side by
/// side as long as there are as many, then of 2 and of 1.
constexpr int project_input(int lanes, int count, int lane, int i) {
  int first = 0;  // of the channels in runs of `width`
  for (int width = 4;; width /= 2) {
    const int run = first + (i - first) / width * width;
    if (run + width <= count) return run * lanes + lane * width + (i - run);
    first = first + (count - first) / width * width;
  }
}

/// Which of a unit's channels in expand number i of a lane's sums is of: those that the lane keeps come first.
constexpr int expand_channel(int channels, int lanes, int lane, int i) {
  return (i + lane * channels / lanes) % channels;
}

inline constexpr int kBanks = 32;

/// Whether `count` runs of `floats`, `stride` apart, are in different banks of shared memory.
constexpr bool banks_apart(int stride, int floats, int count) {
  for (int i = 1; i < count; ++i) {
    const int bank = i * stride % kBanks;
    if (bank < floats || bank > kBanks - floats) return false;
  }
  return true;
}

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr int kHidden = kConfig.c_hidden / kConfig.blocks;  // channels of a block
  static constexpr int kPatchH = (kConfig.rows - 1) * kConfig.stride + 3;
  static constexpr int kPatchW = (kConfig.columns - 1) * kConfig.stride + 3;
  static constexpr int kPixels = kPatchH * kPatchW;
  static constexpr int kOutPixels = kConfig.rows * kConfig.columns;

  // expand: a unit has every kExpandGroups-th pixel, kExpandStep of them at once. A pixel of the patch may end in
  // unused floats, so that what the units of a warp read at once is in different banks.
  static constexpr int kExpandLanes = 2;
  static constexpr int kExpandK = kConfig.c_in / kExpandLanes;
  static constexpr int kExpandOwn = kConfig.expand_channels / kExpandLanes;  // channels that a lane has in the end
  static constexpr int kExpandColumns = kHidden / kConfig.expand_channels;
  static constexpr int kExpandGroups = kThreads / (kExpandColumns * kExpandLanes);
  static constexpr int kExpandUnits = kExpandColumns * kExpandGroups;
  static constexpr int kExpandPixels = ceil_div(kPixels, kExpandGroups);
  static constexpr int kExpandStep = 2;
  static constexpr int kPatchStride = kConfig.c_in + (kConfig.c_in % kBanks == 24 ? 0 : 4 * kExpandLanes);

  // depthwise: a thread has a pair of channels in all rows of some columns.
  static constexpr int kPairs = kHidden / 2;
  static constexpr int kStripColumns = kPairs * kConfig.columns <= kThreads ? 1 : 2;
  static constexpr int kStrips = ceil_div(kConfig.columns, kStripColumns);

  // project: lanes of two units take turns, so that neighbours read the same 16 bytes.
  static constexpr int kSpread = 2;
  static constexpr int kProjectK = kHidden / kConfig.project_lanes;
  static constexpr int kProjectColumns = kConfig.c_out / kConfig.project_channels;
  static constexpr int kProjectGroups = kThreads / (kProjectColumns * kConfig.project_lanes);
  static constexpr int kProjectUnits = kProjectColumns * kProjectGroups;
  static constexpr int kProjectPixels = ceil_div(kOutPixels, kProjectGroups);
  static constexpr int kProjectStep = 2;

  // finish: a thread has a pair of the output channels that the block owns.
  static constexpr int kOwned = kConfig.c_out / kConfig.blocks;
  static constexpr int kSums = kProjectGroups * kProjectPixels * kOwned;  // of a block of the cluster

  // Packed weights, in floats.
  static constexpr int kExpandBiasAt = kConfig.c_in * kHidden;
  static constexpr int kConstantsAt = kExpandBiasAt + kHidden;
  static constexpr int kConstants = (kTaps + 1) * kHidden + kConfig.c_out;
  static constexpr int kProjectAt = kConstantsAt + kConstants;
  static constexpr int kSliceFloats = kProjectAt + kHidden * kConfig.c_out;

  // Shared memory, in floats: barrier | partial sums (block of the cluster, pixel, owned channel) | constants | patch |
  // hidden | filtered. With the pixels beyond the last one that are read or written, and not used.
  static constexpr int kPartialAt = 32;
  static constexpr int kSharedConstantsAt = kPartialAt + round_up(kConfig.blocks * kSums, 4);
  static constexpr int kSharedBiasAt = kSharedConstantsAt + (kTaps + 1) * kHidden;
  static constexpr int kPatchAt = kSharedConstantsAt + kConstants;
  static constexpr int kHiddenAt = kPatchAt + kExpandGroups * kExpandPixels * kPatchStride;
  static constexpr int kHiddenFloats = std::max(kExpandGroups * kExpandPixels, kPixels + kStripColumns) * kHidden;
  static constexpr int kFilteredAt = kHiddenAt + kHiddenFloats;
  static constexpr int kSharedBytes = (kFilteredAt + kProjectGroups * kProjectPixels * kHidden) * 4;

  static_assert(kConfig.c_hidden % kConfig.blocks == 0 && kConfig.c_out % (2 * kConfig.blocks) == 0);
  static_assert(kExpandK % 4 == 0 && kExpandOwn % 2 == 0 && kHidden % 4 == 0 && kConstants % 4 == 0);
  static_assert(kHidden % kConfig.expand_channels == 0 && kConfig.expand_channels % kExpandLanes == 0 &&
                kExpandGroups > 0 && kExpandPixels <= 32);
  static_assert(banks_apart(kPatchStride, 4 * kExpandLanes, ceil_div(32, kExpandColumns* kExpandLanes) + 1));
  static_assert(kHidden % kConfig.project_lanes == 0 && kProjectGroups > 0);
  static_assert(kConfig.project_lanes * kSpread <= 32 && kConfig.project_lanes % kConfig.project_channels == 0);
  static_assert(kProjectColumns * kConfig.project_channels == kConfig.c_out);
  static_assert(kPairs * kStrips <= kThreads);
  static_assert(kThreads - kExpandUnits * kExpandLanes < 32 && kThreads - kProjectUnits * kConfig.project_lanes < 32,
                "no warp has nothing to do");
};

}  // namespace mobicuda::kernels::inverted_simt_early
