#pragma once

#include "kernels/common/hardware_limits.h"
#include "kernels/inverted_residual/simt_units.cuh"

namespace mobicuda::kernels::inverted_simt_cluster {

inline constexpr int kBlocks = 8;  // of a cluster
inline constexpr int kLanes = 8;   // neighbours that share the sums of some channels: a unit

// Packed weights, all float: project bias (c_out) | slices of hidden channels, one for each block of a cluster.
// A slice: expand weights | depthwise taps (9, hidden) | depthwise bias | expand bias | project weights. The weights of
// both 1x1 convolutions lie as a unit reads them: (group of output channels, 16 bytes of a lane, lane).
constexpr int depthwise_floats(int hidden) { return (kTaps + 2) * hidden; }

/// The compile-time side of a variant.
struct Config {
  int stride;
  int c_in, c_hidden, c_out;
  int rows, columns;     ///< of output pixels in a tile
  int patch_columns;     ///< of the tile's patch inside the image, the most
  int threads;           ///< of a block
  int expand_channels;   ///< output channels of a unit: 4 or 8
  int expand_groups;     ///< of units, by pixels
  int project_channels;  ///< as for expand
  int project_groups;
  bool early;      ///< project's weights are in registers before the wait for the predecessor, as expand's are
  int min_blocks;  ///< per multiprocessor, for the register budget
};

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr int kThreads = kConfig.threads;
  static constexpr int kUnits = kThreads / kLanes;
  static constexpr int kHidden = kConfig.c_hidden / kBlocks;  // channels of a block
  static constexpr int kPatchH = (kConfig.rows - 1) * kConfig.stride + 3;
  static constexpr int kPatchW = (kConfig.columns - 1) * kConfig.stride + 3;
  static constexpr int kOutPixels = kConfig.rows * kConfig.columns;

  // expand: a lane has kExpandK of the input channels, a unit kExpandPixels of the pixels, kExpandStep at once.
  static constexpr int kPixels = kPatchH * kConfig.patch_columns;
  static constexpr int kExpandK = kConfig.c_in / kLanes;
  static constexpr int kExpandColumns = kHidden / kConfig.expand_channels;
  static constexpr int kExpandUnits = kExpandColumns * kConfig.expand_groups;
  static constexpr int kExpandPixels = ceil_div(kPixels, kConfig.expand_groups);
  static constexpr int kExpandStep = kExpandPixels % 2 == 0 ? 2 : kExpandPixels % 3 == 0 ? 3 : 1;

  // depthwise: a thread has a pair of channels in all rows of some columns.
  static constexpr int kPairs = kHidden / 2;
  static constexpr int kStripColumns = kPairs * kConfig.columns <= kThreads ? 1 : 2;
  static constexpr int kStrips = ceil_div(kConfig.columns, kStripColumns);

  // project.
  static constexpr int kProjectK = kHidden / kLanes;
  static constexpr int kProjectColumns = kConfig.c_out / kConfig.project_channels;
  static constexpr int kProjectUnits = kProjectColumns * kConfig.project_groups;
  static constexpr int kProjectPixels = ceil_div(kOutPixels, kConfig.project_groups);
  static constexpr int kOwned = kConfig.c_out / kBlocks;  // output channels that a block finishes

  // Packed weights, in floats.
  static constexpr int kExpandFloats = kConfig.c_in * kHidden;
  static constexpr int kProjectAt = kExpandFloats + depthwise_floats(kHidden);
  static constexpr int kSliceFloats = kProjectAt + kHidden * kConfig.c_out;

  // Shared memory, in floats: barrier | partial sums (block of the cluster, pixel, owned channel) | patch | hidden |
  // filtered. With the pixels beyond the last one that are read, and not used.
  static constexpr int kSums = kOutPixels * kOwned;
  static constexpr int kPartialAt = 32;
  static constexpr int kPatchAt = kPartialAt + round_up(kBlocks * kSums, 4);
  static constexpr int kHiddenAt = kPatchAt + kConfig.expand_groups * kExpandPixels * kConfig.c_in;
  static constexpr int kHiddenFloats = (kPatchH * kPatchW + kStripColumns) * kHidden;
  static constexpr int kFilteredAt = kHiddenAt + kHiddenFloats;
  static constexpr int kSharedBytes =
      (kFilteredAt + std::max(kConfig.project_groups * kProjectPixels, kOutPixels) * kHidden) * 4;

  static_assert((kConfig.expand_channels == 4 || kConfig.expand_channels == kLanes) &&
                (kConfig.project_channels == 4 || kConfig.project_channels == kLanes));
  static_assert(kConfig.c_hidden % kBlocks == 0 && kConfig.c_out % kBlocks == 0 && kConfig.c_in % (4 * kLanes) == 0);
  static_assert(kHidden % kLanes == 0 && kHidden % kConfig.expand_channels == 0);
  static_assert(kConfig.c_out % kConfig.project_channels == 0 && kProjectK * kConfig.project_channels % 4 == 0);
  static_assert(kThreads % 32 == 0 && kExpandUnits <= kUnits && kProjectUnits <= kUnits);
  static_assert(kPairs * kStrips <= kThreads && kSums <= kThreads);
  static_assert(kConfig.patch_columns <= kPatchW && kSharedBytes <= static_cast<int>(kSharedBytesWithoutAsking) &&
                kExpandPixels <= 32);
};

}  // namespace mobicuda::kernels::inverted_simt_cluster
