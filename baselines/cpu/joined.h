#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <mobicuda/graph.h>

namespace mobicuda::cpu {

/// A value that is written where a Concat would copy it to.
struct JoinedValue {
  ValueId whole = kNoValue;  ///< the Concat's output
  std::int64_t first = 0;    ///< channels of the whole before it
  std::int64_t stride = 0;   ///< channels of the whole
};

/// For each value of the graph, nothing where it is by itself. Joined are outputs of convolutions which only one Concat
/// of channels reads, once, where channels lie side by side in memory: a convolution writes rows of any stride. Not of
/// depthwise convolutions, not with a residual, whose rows lie as those of the output, and not within one of `steps`.
std::vector<std::optional<JoinedValue>> joined_values(const Graph& graph,
                                                      const std::vector<std::vector<std::size_t>>& steps);

}  // namespace mobicuda::cpu
