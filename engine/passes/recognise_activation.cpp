#include <algorithm>
#include <cmath>
#include <numbers>
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
  std::vector<const Node*> parts;  ///< all but the last node, first to last
};

bool near(float value, float expected) {
  constexpr float kRounding = 2e-7F;  // relative: the exporter's 1/6 may be the neighbour of ours
  return std::abs(value - expected) <= kRounding * expected;
}

bool all_near(const HostTensor& values, float expected) {
  return std::ranges::all_of(values.data<float>(), [&](float v) { return near(v, expected); });
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

// The one factor of a multiplication by a number that nothing is added to.
std::optional<float> factor_of(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<ScaleShift>(&node.op);
  if (op == nullptr || !op->activation.is_none()) return std::nullopt;
  const auto scale = graph.value(node.inputs[ScaleShift::kScale]).constant->data<float>();
  const auto shift = graph.value(node.inputs[ScaleShift::kShift]).constant->data<float>();
  const auto differs = [&](float v) { return v != scale.front(); };
  if (scale.empty() || std::ranges::any_of(scale, differs) ||
      std::ranges::any_of(shift, [](float v) { return v != 0; })) {
    return std::nullopt;
  }
  return scale.front();
}

// A part of 1 + erf(x / sqrt 2): x, and what the sum is multiplied by.
struct ErrorGate {
  ValueId x;
  float factor;
  std::vector<const Node*> parts;
};

std::optional<ErrorGate> error_gate(const Graph& graph, ValueId gate) {
  const Node* sum = sole_producer<ScaleShift>(graph, gate);
  if (sum == nullptr || !std::get<ScaleShift>(sum->op).activation.is_none()) return std::nullopt;
  const auto outer = factor_of(graph, *sum);
  const Node* const scaled = outer ? sum : nullptr;
  if (outer) sum = sole_producer<ScaleShift>(graph, sum->inputs[ScaleShift::kInput]);
  if (sum == nullptr || !std::get<ScaleShift>(sum->op).activation.is_none()) return std::nullopt;
  const HostTensor& scale = *graph.value(sum->inputs[ScaleShift::kScale]).constant;
  const float factor = scale.elements() > 0 ? scale.data<float>().front() : 0.0F;
  if (!(factor > 0.0F) || !all_near(scale, factor) ||
      !all_near(*graph.value(sum->inputs[ScaleShift::kShift]).constant, factor)) {
    return std::nullopt;
  }
  const Node* erf = sole_producer<Unary>(graph, sum->inputs[ScaleShift::kInput]);
  if (erf == nullptr || std::get<Unary>(erf->op).kind != UnaryKind::Erf) return std::nullopt;
  const Node* quotient = sole_producer<ScaleShift>(graph, erf->inputs[Unary::kInput]);
  if (quotient == nullptr) return std::nullopt;
  const auto root = factor_of(graph, *quotient);
  if (!root || !near(*root, 1.0F / std::numbers::sqrt2_v<float>)) return std::nullopt;
  ErrorGate found{quotient->inputs[ScaleShift::kInput], factor * outer.value_or(1.0F), {quotient, erf, sum}};
  if (scaled != nullptr) found.parts.push_back(scaled);
  return found;
}

// x * (1 + erf(x / sqrt 2)) times the factors of x and of the gate.
std::optional<std::pair<Gated, float>> error_product(const Graph& graph, const Node& node) {
  const auto* mul = std::get_if<Mul>(&node.op);
  if (mul == nullptr || !mul->activation.is_none()) return std::nullopt;
  const ValueId left = node.inputs[Mul::kLeft];
  const ValueId right = node.inputs[Mul::kRight];
  for (const auto& [x, side] : {std::pair{left, right}, std::pair{right, left}}) {
    auto gate = error_gate(graph, side);
    if (!gate) continue;
    if (gate->x == x) return std::pair{Gated{UnaryKind::Gelu, x, gate->parts}, gate->factor};
    const Node* scaled = sole_producer<ScaleShift>(graph, x);
    if (scaled == nullptr || scaled->inputs[ScaleShift::kInput] != gate->x) continue;
    const auto factor = factor_of(graph, *scaled);
    if (!factor) continue;
    gate->parts.insert(gate->parts.begin(), scaled);
    return std::pair{Gated{UnaryKind::Gelu, gate->x, gate->parts}, gate->factor * *factor};
  }
  return std::nullopt;
}

// Gelu as exporters write it, with the factor 1/2 in front of the product, in its gate, or behind it.
std::optional<Gated> gelu(const Graph& graph, const Node& node) {
  if (const auto found = error_product(graph, node); found && near(found->second, 0.5F)) return found->first;
  const auto factor = factor_of(graph, node);
  if (!factor) return std::nullopt;
  const Node* product = sole_producer<Mul>(graph, node.inputs[ScaleShift::kInput]);
  if (product == nullptr) return std::nullopt;
  auto found = error_product(graph, *product);
  if (!found || !near(found->second * *factor, 0.5F)) return std::nullopt;
  found->first.parts.push_back(product);
  return found->first;
}

std::optional<Gated> gated(const Graph& graph, const Node& node) {
  if (auto found = gelu(graph, node)) return found;
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
