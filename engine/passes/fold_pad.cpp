#include <utility>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace mobicuda::passes {

namespace {

bool adds_zeros(const Pad& op) { return op.mode == PadMode::Constant && op.value == 0.0F; }

}  // namespace

Graph fold_pad(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    const auto* conv = std::get_if<Conv2d>(&node.op);
    const Node* pad_node = conv != nullptr ? sole_producer<Pad>(graph, node.inputs[Conv2d::kInput]) : nullptr;
    if (pad_node == nullptr || !adds_zeros(std::get<Pad>(pad_node->op))) {
      rewriter.copy(node);
      continue;
    }
    const Padding& extra = std::get<Pad>(pad_node->op).pads;
    Conv2d padded = *conv;
    padded.pads.top += extra.top;
    padded.pads.left += extra.left;
    padded.pads.bottom += extra.bottom;
    padded.pads.right += extra.right;
    std::vector<ValueId> inputs = rewriter.mapped_inputs(node);
    inputs[Conv2d::kInput] = rewriter.mapped(pad_node->inputs[Pad::kInput]);
    Origin origin = pad_node->origin;
    origin.append(node.origin);
    rewriter.replace(node, padded, std::move(inputs), std::move(origin));
  }
  return rewriter.finish();
}

}  // namespace mobicuda::passes
