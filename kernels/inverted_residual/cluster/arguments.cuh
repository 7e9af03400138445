#pragma once

#include <cuda_fp16.h>

#include "kernels/common/half_clip.cuh"
#include "kernels/inverted_residual/cluster_shape.cuh"

namespace mobicuda::kernels::inverted_cluster {

inline constexpr int kUnitTapsBytes = 3 * 8 * 16;  // row of the window, pair of channels: 3 pairs of halves, a gap

/// The compile-time side of a variant; kernels that go the same way have their own.
struct Config {
  int stride;
  int c_in, c_hidden,
      c_out;           ///< multiples of 8, of 1 and of 2; sums run over whole steps of the instruction, with zeros
  int columns;         ///< of output pixels in a tile; rows are 2 where the stride is 1, else 1
  int blocks;          ///< of a cluster
  int warps;           ///< of a block
  int groups_m;        ///< of warps in project, by output channels
  int groups_k;        ///< by hidden channels
  int min_blocks;      ///< per SM, for the register budget
  int hard_swish = 0;  ///< 1: e and d are hard-swished, 0: clipped
};

constexpr Sizes sizes_of(const Config& c) { return sizes_with(c, 1, {0, kUnitBiasBytes + kUnitTapsBytes}); }

constexpr bool is_valid(const Config& c) { return (c.hard_swish == 0 || c.hard_swish == 1) && is_cluster(c); }

struct Arguments : Geometry {
  HalfClip expand_clip;
  HalfClip depthwise_clip;
  Clip project_clip;
};

template <Config kTheConfig>
struct Shape : ClusterShape<kTheConfig, 1> {
  using Element = __half;
  using Arguments = inverted_cluster::Arguments;
  static constexpr int kBiasAt = 0;  // of project, in the packed weights
  static constexpr bool kStaged = false;
};

}  // namespace mobicuda::kernels::inverted_cluster
