#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace mobicuda::passes {
namespace {

float apply(const Activation& activation, float x) { return std::min(std::max(x, activation.lo), activation.hi); }

// `second` after `first`. Of two clamps: one whose bounds are the images of the first one's.
std::optional<Activation> compose(const Activation& first, const Activation& second) {
  if (first.is_none()) return second;
  if (!first.is_clip() || !second.is_clip()) return std::nullopt;
  return Activation{apply(second, first.lo), apply(second, first.hi)};
}

std::optional<Activation> activation_of(const Node& node) {
  if (const auto* clip = std::get_if<Clip>(&node.op)) return clip->activation;
  if (const auto* unary = std::get_if<Unary>(&node.op)) return mobicuda::activation_of(*unary);
  return std::nullopt;
}

template <class T>
bool fuse_into(const Graph& graph, Rewriter& rewriter, const Node& node, const Activation& activation) {
  const Node* producer = sole_producer<T>(graph, node.inputs[Clip::kInput]);
  if (producer == nullptr || (std::is_same_v<T, Clip> && !activation.is_clip())) return false;
  T op = std::get<T>(producer->op);
  const std::optional<Activation> both = compose(op.activation, activation);
  if (!both) return false;
  op.activation = *both;
  Origin origin = producer->origin;
  origin.append(node.origin);
  // The producer itself was copied already; with its only reader gone, finish() drops that copy.
  rewriter.replace(node, op, rewriter.mapped_inputs(*producer), std::move(origin));
  return true;
}

Graph run_once(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    const std::optional<Activation> activation = activation_of(node);
    const auto into = [&]<class T>(std::type_identity<T>) { return fuse_into<T>(graph, rewriter, node, *activation); };
    const bool fused = activation && (into(std::type_identity<Conv2d>{}) || into(std::type_identity<Gemm>{}) ||
                                      into(std::type_identity<Add>{}) || into(std::type_identity<Mul>{}) ||
                                      into(std::type_identity<Extremum>{}) || into(std::type_identity<ScaleShift>{}) ||
                                      into(std::type_identity<Clip>{}));
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
