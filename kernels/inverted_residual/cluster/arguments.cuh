#pragma once

#include <cuda_fp16.h>

#include "kernels/common/direct_operands.cuh"
#include "kernels/common/fast_division.cuh"
#include "kernels/common/half_clip.cuh"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_cluster {

inline constexpr int kUnit = 16;  // hidden channels: the rows of an mma in expand, one step of k in project
inline constexpr int kFragmentBytes = 512;
inline constexpr int kUnitBiasBytes = 8 * 16;      // of a pair of channels: expand's two, depthwise's two
inline constexpr int kUnitTapsBytes = 3 * 8 * 16;  // row of the window, pair of channels: 3 pairs of halves, a gap
inline constexpr int kBarrierBytes = 8;
inline constexpr int kColumns = 8;  // of an mma; output pixels

/// The compile-time side of a variant.
struct Config {
  int stride;
  int c_in, c_hidden, c_out;
  int columns;     ///< of output pixels in a tile; rows are 2 where the stride is 1, else 1
  int blocks;      ///< of a cluster
  int warps;       ///< of a block
  int groups_m;    ///< of warps in project, by output channels
  int groups_k;    ///< by hidden channels
  int min_blocks;  ///< per multiprocessor, for the register budget
};

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr int kThreads = 32 * kConfig.warps;
  static constexpr int kRows = kConfig.stride == 1 ? 2 : 1;
  static constexpr int kPatchH = (kRows - 1) * kConfig.stride + 3;
  static constexpr int kPatchW = (kConfig.columns - 1) * kConfig.stride + 3;
  static constexpr int kPatches = ceil_div(kPatchW, 2);  // mmas: each takes 2 columns of 4 rows
  static constexpr int kBlocksK = kConfig.c_in / kDirectBlockK;
  static constexpr int kUnits = kConfig.c_hidden / kUnit;
  static constexpr int kBlockUnits = ceil_div(kUnits, kConfig.blocks);
  static constexpr int kFragmentsM = kConfig.c_out / 16;
  static constexpr int kWarpM = ceil_div(kFragmentsM, kConfig.groups_m);
  static constexpr int kWarpK = ceil_div(kBlockUnits, kConfig.groups_k);
  static constexpr int kOwned = ceil_div(kFragmentsM, kConfig.blocks);  // the most fragments that a block finishes
  static constexpr int kSlots = kConfig.blocks * kConfig.groups_k;      // partial sums of one fragment
  // Shared memory, in bytes: two barriers | results of depthwise, twice | partial sums, twice | patch.
  static constexpr int kFilteredBytes = kBlockUnits * kColumns * 32;
  static constexpr int kPartialBytes = kOwned * kSlots * kFragmentBytes;
  static constexpr int kFilteredAt = 128;
  static constexpr int kPartialAt = kFilteredAt + 2 * kFilteredBytes;
  static constexpr int kPatchAt = kPartialAt + 2 * kPartialBytes;
  static constexpr int kPixels = kPatches * kColumns;
  // Of a pixel: an odd number of 64 bytes, as 8 neighbouring lanes read 64 bytes of each of two pixels.
  static constexpr int kPixelBytes = kConfig.c_in * 2 + (kConfig.c_in % 64 == 0 ? 64 : 0);
  static constexpr int kSharedBytes = kPatchAt + kPixels * kPixelBytes;
  static constexpr int kUnitBytes = kBlocksK * 2 * kFragmentBytes + kUnitBiasBytes + kUnitTapsBytes;
  static constexpr int kProjectOffset = kConfig.c_out * 4 + kUnits * kUnitBytes;
  static constexpr int kPackedBytes = kProjectOffset + kFragmentsM * kUnits * kFragmentBytes;
  static_assert(kPatchH <= 4 && kConfig.columns % 2 == 0 && kRows * kConfig.columns <= kColumns);
  static_assert(kConfig.c_in % kDirectBlockK == 0 && kConfig.c_hidden % kUnit == 0 && kConfig.c_out % 16 == 0);
  static_assert(kConfig.groups_m * kConfig.groups_k <= kConfig.warps && kOwned <= kConfig.warps);
  static_assert(kBlockUnits <= kConfig.warps);
  // Else a block could run ahead of the others by more than the two buffers of partial sums.
  static_assert(kFragmentsM >= kConfig.blocks);
};

struct Arguments {
  int h, w, out_h, out_w;
  int pad_top, pad_left;
  std::uint32_t tiles;
  FastDivision tiles_x, tiles_y;
  bool residual;
  HalfClip expand_clip;
  HalfClip depthwise_clip;
  Clip project_clip;
};

}  // namespace mobicuda::kernels::inverted_cluster
