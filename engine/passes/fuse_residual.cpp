#include <utility>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace mobicuda::passes {
namespace {

const Node* fusable_conv(const Graph& graph, ValueId value) {
  const Node* node = sole_producer<Conv2d>(graph, value);
  if (node == nullptr || !std::get<Conv2d>(node->op).activation.is_none()) return nullptr;
  return node->inputs[Conv2d::kResidual] == kNoValue ? node : nullptr;
}

}  // namespace

Graph fuse_residual(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    const auto* add = std::get_if<Add>(&node.op);
    if (add == nullptr || node.inputs[Add::kLeft] == node.inputs[Add::kRight]) {
      rewriter.copy(node);
      continue;
    }
    const Node* left = fusable_conv(graph, node.inputs[Add::kLeft]);
    const Node* right = fusable_conv(graph, node.inputs[Add::kRight]);
    // Two candidates: the later one, so that the other's result is there when it runs.
    const bool use_left =
        left != nullptr && (right == nullptr || graph.producer(left->output) > graph.producer(right->output));
    const Node* conv = use_left ? left : right;
    if (conv == nullptr) {
      rewriter.copy(node);
      continue;
    }
    Conv2d op = std::get<Conv2d>(conv->op);
    op.activation = add->activation;
    std::vector<ValueId> inputs = rewriter.mapped_inputs(*conv);
    inputs[Conv2d::kResidual] = rewriter.mapped(node.inputs[use_left ? Add::kRight : Add::kLeft]);
    Origin origin = conv->origin;
    origin.append(node.origin);
    rewriter.replace(node, op, std::move(inputs), std::move(origin));
  }
  return rewriter.finish();
}

}  // namespace mobicuda::passes
