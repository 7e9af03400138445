// What kernels of clusters that share a tile's hidden channels have in common at compile time and in their arguments:
// families cluster and split_cluster. Config: of the family.
#pragma once

#include "kernels/common/direct_operands.cuh"
#include "kernels/common/fast_division.cuh"
#include "kernels/common/hardware_limits.h"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_cluster {

inline constexpr int kUnit = 16;  // hidden channels: the rows of an mma in expand, one step of k in project
inline constexpr int kFragmentBytes = 512;
inline constexpr int kUnitBiasBytes = 8 * 16;  // of a pair of channels: expand's two, depthwise's two
inline constexpr int kBarrierBytes = 8;
inline constexpr int kColumns = 8;          // of an mma; output pixels
inline constexpr int kMostSplitUnits = 8;   // of hidden channels, whose split products are one sum: docs/numerics.md
inline constexpr int kMostSplitGroups = 4;  // of warps by hidden channels, whose partial sums are added there
inline constexpr int kMostWarps = 32;
inline constexpr int kMostBlocks = 16;
inline constexpr int kPortableBlocks = limits_of(90).cluster_blocks;

/// What follows from it.
struct Sizes {
  int threads;
  int rows;  ///< of a tile
  int patch_h, patch_w;
  int patches;  ///< mmas: each takes 2 columns of 4 rows
  int pixels;   ///< of a patch
  int blocks_k;
  int units, block_units;  ///< of hidden channels: of all, of a block at most
  int fragments_m;         ///< of output channels
  int warp_m, warp_k;      ///< fragments and units of a warp in project
  int owned;               ///< the most fragments that a block finishes
  int slots;               ///< partial sums of one fragment
  // Shared memory, in bytes: two barriers | results of depthwise, twice | partial sums, twice | patch.
  int filtered_bytes, partial_bytes;
  int filtered_at, partial_at, patch_at;
  int pixel_bytes;  ///< an odd number of 64 bytes, as 8 neighbouring lanes read 64 bytes of each of two pixels
  int shared_bytes;
  // Packed weights, in bytes: head, with project's bias | units: expand fragments, biases, taps | project fragments.
  int head_bytes, unit_bytes, project_offset, packed_bytes;
};

/// Of packed weights, in bytes: what the head has beside project's bias, and a unit beside its fragments.
struct PackedParts {
  int head_bytes;
  int unit_bytes;
};

/// Of a kernel whose factors are `halves` halves each.
template <class Config>
constexpr Sizes sizes_with(const Config& c, int halves, const PackedParts& parts) {
  Sizes s{};
  s.threads = 32 * c.warps;
  s.rows = c.stride == 1 ? 2 : 1;
  s.patch_h = (s.rows - 1) * c.stride + 3;
  s.patch_w = (c.columns - 1) * c.stride + 3;
  s.patches = ceil_div(s.patch_w, 2);
  s.pixels = s.patches * kColumns;
  s.blocks_k = ceil_div(c.c_in, kDirectBlockK);
  s.units = ceil_div(c.c_hidden, kUnit);
  s.block_units = ceil_div(s.units, c.blocks);
  s.fragments_m = ceil_div(c.c_out, 16);
  s.warp_m = ceil_div(s.fragments_m, c.groups_m);
  s.warp_k = ceil_div(s.block_units, c.groups_k);
  s.owned = ceil_div(s.fragments_m, c.blocks);
  s.slots = c.blocks * c.groups_k;
  s.filtered_bytes = s.block_units * halves * kColumns * 32;
  s.partial_bytes = s.owned * s.slots * kFragmentBytes;
  s.filtered_at = 128;
  s.partial_at = s.filtered_at + 2 * s.filtered_bytes;
  s.patch_at = s.partial_at + 2 * s.partial_bytes;
  const int pixel_chunks = s.blocks_k * halves;
  s.pixel_bytes = pixel_chunks * 64 + (pixel_chunks % 2 == 0 ? 64 : 0);
  s.shared_bytes = s.patch_at + s.pixels * s.pixel_bytes;
  s.head_bytes = parts.head_bytes + s.fragments_m * 16 * 4;
  s.unit_bytes = s.blocks_k * 2 * halves * kFragmentBytes + parts.unit_bytes;
  s.project_offset = s.head_bytes + s.units * s.unit_bytes;
  s.packed_bytes = s.project_offset + s.fragments_m * s.units * halves * kFragmentBytes;
  return s;
}

/// Whether a kernel of clusters can be compiled for it. Every block, and every warp of project, has a unit, as it
/// multiplies one. Blocks of a cluster own a fragment each at least: else one could run ahead of the others by more
/// than the two buffers of partial sums.
template <class Config>
constexpr bool is_cluster(const Config& c) {
  const int extents[] = {c.c_in, c.c_hidden, c.c_out, c.columns, c.blocks, c.warps, c.groups_m, c.groups_k};
  for (const int value : extents) {
    if (value < 1) return false;
  }
  if (c.stride < 1 || c.stride > 2 || c.warps > kMostWarps || c.min_blocks < 1) return false;
  if (c.blocks < 2 || c.blocks > kMostBlocks) return false;  // without a cluster its instructions are illegal
  if (c.groups_m * c.groups_k > c.warps) return false;
  const Sizes s = sizes_of(c);
  return s.patch_h <= 4 && c.columns % 2 == 0 && s.rows * c.columns <= kColumns && c.c_in % 8 == 0 &&
         c.c_out % 2 == 0 && s.owned <= c.warps && s.block_units <= c.warps &&
         (c.groups_k - 1) * s.warp_k < s.block_units && (c.blocks - 1) * s.block_units < s.units &&
         s.fragments_m >= c.blocks;
}

/// What stages know at compile time; kTheHalves: of a factor.
template <auto kTheConfig, int kTheHalves>
struct ClusterShape {
  static constexpr auto kConfig = kTheConfig;
  static constexpr int kHalves = kTheHalves;
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr int kThreads = kSizes.threads;
  static constexpr int kRows = kSizes.rows;
  static constexpr int kPatchH = kSizes.patch_h;
  static constexpr int kPatchW = kSizes.patch_w;
  static constexpr int kPatches = kSizes.patches;
  static constexpr int kBlocksK = kSizes.blocks_k;
  static constexpr int kUnits = kSizes.units;
  static constexpr int kBlockUnits = kSizes.block_units;
  static constexpr int kFragmentsM = kSizes.fragments_m;
  static constexpr int kWarpM = kSizes.warp_m;
  static constexpr int kWarpK = kSizes.warp_k;
  static constexpr int kSlots = kSizes.slots;
  static constexpr int kFilteredBytes = kSizes.filtered_bytes;
  static constexpr int kPartialBytes = kSizes.partial_bytes;
  static constexpr int kFilteredAt = kSizes.filtered_at;
  static constexpr int kPartialAt = kSizes.partial_at;
  static constexpr int kPatchAt = kSizes.patch_at;
  static constexpr int kPixels = kSizes.pixels;
  static constexpr int kPixelBytes = kSizes.pixel_bytes;
  static constexpr int kHeadBytes = kSizes.head_bytes;
  static constexpr int kUnitBytes = kSizes.unit_bytes;
  static constexpr int kProjectOffset = kSizes.project_offset;
  static_assert(is_valid(kConfig));
};

/// What does not depend on the elements.
struct Geometry {
  int h, w, out_h, out_w;
  int pad_top, pad_left;
  std::uint32_t tiles;
  FastDivision tiles_x, tiles_y;
  bool residual;
};

}  // namespace mobicuda::kernels::inverted_cluster
