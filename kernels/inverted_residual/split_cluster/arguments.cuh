#pragma once

#include "kernels/inverted_residual/cluster_shape.cuh"

namespace mobicuda::kernels::inverted_split_cluster {

using inverted_cluster::kColumns;
using inverted_cluster::kFragmentBytes;
using inverted_cluster::kUnit;

inline constexpr int kHalves = 2;        // of a factor: the upper one, and the lower one
inline constexpr int kFactorBytes = 16;  // of x and of the filtered values, and a gap
inline constexpr int kXFactorAt = 0;
inline constexpr int kFilteredFactorAt = 4;
inline constexpr int kUnitScaleBytes = 8 * 8;      // of a pair of channels: what undoes the factors of expand
inline constexpr int kUnitTapsBytes = 3 * 8 * 32;  // row of the window, pair of channels: 3 pairs of floats, a gap

/// The compile-time side of a variant: as that of inverted_cluster, which has the rules.
struct Config {
  int stride;
  int c_in, c_hidden, c_out;
  int columns;
  int blocks;
  int warps;
  int groups_m;
  int groups_k;
  int min_blocks;
  int staged;  ///< 1: a lane keeps its weights of project in shared memory, 0: in registers
};

using Sizes = inverted_cluster::Sizes;

/// Of the weights of project in shared memory, behind all else.
constexpr int staged_bytes(const Config& c, const Sizes& s) {
  return c.staged == 0 ? 0 : c.warps * s.warp_m * s.warp_k * kHalves * kFragmentBytes;
}

/// Packed weights are factors | project's bias | what undoes its factors | units: expand fragments, biases, scales,
/// taps | project fragments. Of a fragment's halves the upper ones come first.
constexpr Sizes sizes_of(const Config& c) {
  const int scale_bytes = ceil_div(c.c_out, 16) * 16 * 4;
  Sizes s = inverted_cluster::sizes_with(
      c, kHalves, {kFactorBytes + scale_bytes, inverted_cluster::kUnitBiasBytes + kUnitScaleBytes + kUnitTapsBytes});
  s.shared_bytes += staged_bytes(c, s);
  return s;
}

constexpr bool is_valid(const Config& c) {
  return (c.staged == 0 || c.staged == 1) && inverted_cluster::is_cluster(c) &&
         sizes_of(c).warp_k <= inverted_cluster::kMostSplitUnits && c.groups_k <= inverted_cluster::kMostSplitGroups;
}

struct Arguments : inverted_cluster::Geometry {
  Clip expand_clip;
  Clip depthwise_clip;
  Clip project_clip;
};

template <Config kTheConfig>
struct Shape : inverted_cluster::ClusterShape<kTheConfig, kHalves> {
  using Element = float;
  using Arguments = inverted_split_cluster::Arguments;
  using Base = inverted_cluster::ClusterShape<kTheConfig, kHalves>;
  static constexpr int kBiasAt = kFactorBytes;  // of project, in the packed weights
  static constexpr bool kStaged = kTheConfig.staged != 0;
  static constexpr int kStagedAt = Base::kSizes.shared_bytes - staged_bytes(kTheConfig, Base::kSizes);
  static constexpr int kScaleAt = kBiasAt + Base::kFragmentsM * 16 * 4;
};

}  // namespace mobicuda::kernels::inverted_split_cluster
