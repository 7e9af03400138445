#pragma once

#include <string>
#include <vector>

#include <mobicuda/graph.h>

namespace mobicuda {

/// Copies a graph node by node while a pass changes what it wants. Values the pass does not touch keep
/// their names; nodes that end up unused disappear in finish().
class Rewriter {
 public:
  explicit Rewriter(const Graph& source);
  /// The same with another description of the input.
  Rewriter(const Graph& source, TensorDesc input);

  /// The new id of a value of the source graph; constants are copied on first use.
  ValueId mapped(ValueId old);
  /// From now on, readers of `old` read `replacement` (an id of the new graph).
  void map(ValueId old, ValueId replacement);
  /// Adds the node with its inputs mapped, and maps its output.
  void copy(const Node& node);
  /// The same with another op, inputs (ids of the new graph) or origin; takes over the old output's name.
  ValueId replace(const Node& node, Op op, std::vector<ValueId> inputs, Origin origin);
  GraphBuilder& builder() noexcept { return builder_; }
  std::vector<ValueId> mapped_inputs(const Node& node);
  /// The new graph. Where nothing is left between its input and its output, an Identity: engines have a buffer for
  /// each.
  Graph finish();

 private:
  const Graph& source_;
  GraphBuilder builder_;
  std::vector<ValueId> map_;
};

/// The node that makes `value`, when it is a T that nothing but one node reads and that is not the
/// graph's output: then it can be fused into its reader. Null otherwise.
template <class T>
const Node* sole_producer(const Graph& graph, ValueId value) {
  if (value == kNoValue || value == graph.output()) return nullptr;
  const auto producer = graph.producer(value);
  if (!producer || graph.consumers(value).size() != 1) return nullptr;
  const Node& node = graph.nodes()[*producer];
  return std::holds_alternative<T>(node.op) ? &node : nullptr;
}

}  // namespace mobicuda
