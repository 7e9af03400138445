#include <algorithm>
#include <optional>
#include <utility>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace mobicuda::passes {

namespace {

bool adds_zeros(const Pad& op) { return op.mode == PadMode::Constant && op.value == 0.0F; }

// Both together; nothing where a convolution may not have so much.
std::optional<Padding> sum(const Padding& a, const Padding& b) {
  const Padding both{a.top + b.top, a.left + b.left, a.bottom + b.bottom, a.right + b.right};
  const std::int64_t most = std::max({both.top, both.left, both.bottom, both.right});
  return most <= kMaxWindow ? std::optional(both) : std::nullopt;
}

}  // namespace

Graph fold_pad(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    const auto* conv = std::get_if<Conv2d>(&node.op);
    const Node* pad_node = conv != nullptr ? sole_producer<Pad>(graph, node.inputs[Conv2d::kInput]) : nullptr;
    const Pad* pad = pad_node != nullptr ? &std::get<Pad>(pad_node->op) : nullptr;
    const std::optional<Padding> pads = pad != nullptr && adds_zeros(*pad) ? sum(conv->pads, pad->pads) : std::nullopt;
    if (!pads) {
      rewriter.copy(node);
      continue;
    }
    Conv2d padded = *conv;
    padded.pads = *pads;
    std::vector<ValueId> inputs = rewriter.mapped_inputs(node);
    inputs[Conv2d::kInput] = rewriter.mapped(pad_node->inputs[Pad::kInput]);
    Origin origin = pad_node->origin;
    origin.append(node.origin);
    rewriter.replace(node, padded, std::move(inputs), std::move(origin));
  }
  return rewriter.finish();
}

}  // namespace mobicuda::passes
