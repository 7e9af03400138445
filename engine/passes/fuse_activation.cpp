#include <algorithm>
#include <utility>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace mobicuda::passes {
namespace {

float apply(const Activation& activation, float x) { return std::min(std::max(x, activation.lo), activation.hi); }

// `second` after `first`: a clamp whose bounds are the images of the first one's.
Activation compose(const Activation& first, const Activation& second) {
  return {apply(second, first.lo), apply(second, first.hi)};
}

template <class T>
bool fuse_into(const Graph& graph, Rewriter& rewriter, const Node& node) {
  const Node* producer = sole_producer<T>(graph, node.inputs[Clip::kInput]);
  if (producer == nullptr) return false;
  T op = std::get<T>(producer->op);
  op.activation = compose(op.activation, std::get<Clip>(node.op).activation);
  Origin origin = producer->origin;
  origin.append(node.origin);
  // The producer itself was copied already; with its only reader gone, finish() drops that copy.
  rewriter.replace(node, op, rewriter.mapped_inputs(*producer), std::move(origin));
  return true;
}

Graph run_once(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    const bool fused = std::holds_alternative<Clip>(node.op) &&
                       (fuse_into<Conv2d>(graph, rewriter, node) || fuse_into<Gemm>(graph, rewriter, node) ||
                        fuse_into<Add>(graph, rewriter, node) || fuse_into<Mul>(graph, rewriter, node) ||
                        fuse_into<ScaleShift>(graph, rewriter, node) || fuse_into<Clip>(graph, rewriter, node));
    if (!fused) rewriter.copy(node);
  }
  return rewriter.finish();
}

}  // namespace

Graph fuse_activation(const Graph& graph) {
  // ReLU6 written as Relu, then Min: the two Clips join in the first round, and their sum goes on in the next.
  Graph result = graph;
  for (std::size_t nodes = result.nodes().size() + 1; result.nodes().size() < nodes;) {
    nodes = result.nodes().size();
    result = run_once(result);
  }
  return result;
}

}  // namespace mobicuda::passes
