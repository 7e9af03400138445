#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace mobicuda::passes {
namespace {

// An activation written as a product: x times a function of x.
struct Gated {
  UnaryKind kind;
  ValueId x;
  std::vector<const Node*> parts;  ///< of the gate, first to last
};

bool all_near(const HostTensor& values, float expected) {
  constexpr float kRounding = 2e-7F;  // relative: the exporter's 1/6 may be the neighbour of ours
  const auto data = values.data<float>();
  return std::ranges::all_of(data, [&](float v) { return std::abs(v - expected) <= kRounding * expected; });
}

// gate = Sigmoid(x).
std::optional<Gated> silu(const Graph& graph, ValueId gate) {
  const Node* sigmoid = sole_producer<Unary>(graph, gate);
  if (sigmoid == nullptr || std::get<Unary>(sigmoid->op).kind != UnaryKind::Sigmoid) return std::nullopt;
  return Gated{UnaryKind::Silu, sigmoid->inputs[Unary::kInput], {sigmoid}};
}

// gate = clip(x / 6 + 1/2, 0, 1): HardSigmoid as the importer writes it.
std::optional<Gated> hard_swish(const Graph& graph, ValueId gate) {
  const Node* clip = sole_producer<Clip>(graph, gate);
  if (clip == nullptr || std::get<Clip>(clip->op).activation != Activation{0.0F, 1.0F}) return std::nullopt;
  const Node* affine = sole_producer<ScaleShift>(graph, clip->inputs[Clip::kInput]);
  if (affine == nullptr || !std::get<ScaleShift>(affine->op).activation.is_none() ||
      !all_near(*graph.value(affine->inputs[ScaleShift::kScale]).constant, 1.0F / 6.0F) ||
      !all_near(*graph.value(affine->inputs[ScaleShift::kShift]).constant, 0.5F)) {
    return std::nullopt;
  }
  return Gated{UnaryKind::HardSwish, affine->inputs[ScaleShift::kInput], {affine, clip}};
}

std::optional<Gated> gated(const Graph& graph, const Node& node) {
  const auto* mul = std::get_if<Mul>(&node.op);
  if (mul == nullptr || !mul->activation.is_none()) return std::nullopt;
  const ValueId left = node.inputs[Mul::kLeft];
  const ValueId right = node.inputs[Mul::kRight];
  for (const auto& [x, gate] : {std::pair{left, right}, std::pair{right, left}}) {
    for (const auto find : {silu, hard_swish}) {
      if (auto found = find(graph, gate); found && found->x == x) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

Graph recognise_activation(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    const std::optional<Gated> found = gated(graph, node);
    if (!found) {
      rewriter.copy(node);
      continue;
    }
    // The gate was copied already; without a reader, finish() drops it.
    Origin origin;
    for (const Node* part : found->parts) origin.append(part->origin);
    origin.append(node.origin);
    rewriter.replace(node, Unary{found->kind}, {rewriter.mapped(found->x)}, std::move(origin));
  }
  return rewriter.finish();
}

}  // namespace mobicuda::passes
