#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <mobicuda/graph.h>

namespace mobicuda::cpu {

/// When convolutions become one step, and how much of a tensor within a step a thread holds.
struct FusionLimits {
  /// Of the tensor between two convolutions, for an image. A smaller one stays in a cache from one layer to the next,
  /// and layers by themselves read their weights less often. Chosen by measurement: docs/cpu_engine.md.
  std::int64_t least_elements = std::int64_t{1} << 18;
  /// Half of an L2 cache of 512 KiB, which the weights share. At least one row is held.
  std::int64_t band_bytes = std::int64_t{256} << 10;

  static constexpr FusionLimits never() noexcept { return {std::numeric_limits<std::int64_t>::max()}; }
};

/// Positions in Graph::nodes() of the nodes of each step, in the order of their last nodes. Most steps are one node. A
/// depthwise convolution makes one step with the convolution before it, where nothing else reads that one's output, and
/// the pointwise convolution that alone reads its own: an inverted residual, or a part of it.
std::vector<std::vector<std::size_t>> fused_steps(const Graph& graph, const FusionLimits& limits);

}  // namespace mobicuda::cpu
