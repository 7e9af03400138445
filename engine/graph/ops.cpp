#include <array>
#include <type_traits>

#include <mobicuda/graph.h>

namespace mobicuda {
namespace {

template <class... T>
constexpr std::array<std::string_view, sizeof...(T)> names_of(std::type_identity<std::variant<T...>>) {
  return {T::kName...};
}

}  // namespace

std::string_view op_name(const Op& op) noexcept {
  static constexpr auto kNames = names_of(std::type_identity<Op>{});
  static constexpr std::array<std::string_view, 13> kUnaryNames{
      "Sigmoid", "HardSwish", "Tanh",     "LeakyRelu", "Elu",        "Silu", "Erf",
      "Gelu",    "GeluTanh",  "Softplus", "Sqrt",      "Reciprocal", "Exp"};
  if (const auto* extremum = std::get_if<Extremum>(&op)) return extremum->kind == ExtremumKind::Max ? "Max" : "Min";
  const auto* unary = std::get_if<Unary>(&op);
  const auto kind = unary == nullptr ? kUnaryNames.size() : static_cast<std::size_t>(unary->kind);
  if (kind < kUnaryNames.size()) return kUnaryNames[kind];
  return kNames[op.index()];
}

std::optional<Activation> activation_of(const Unary& op) noexcept {
  switch (op.kind) {
    case UnaryKind::Sigmoid:
      return Activation::of(ActivationKind::Sigmoid, op.alpha);
    case UnaryKind::HardSwish:
      return Activation::of(ActivationKind::HardSwish, op.alpha);
    case UnaryKind::Tanh:
      return Activation::of(ActivationKind::Tanh, op.alpha);
    case UnaryKind::LeakyRelu:
      return Activation::of(ActivationKind::LeakyRelu, op.alpha);
    case UnaryKind::Elu:
      return Activation::of(ActivationKind::Elu, op.alpha);
    case UnaryKind::Silu:
      return Activation::of(ActivationKind::Silu, op.alpha);
    case UnaryKind::Erf:
    case UnaryKind::Gelu:
    case UnaryKind::GeluTanh:
    case UnaryKind::Softplus:
    case UnaryKind::Sqrt:
    case UnaryKind::Reciprocal:
    case UnaryKind::Exp:
      break;
  }
  return std::nullopt;
}

std::string Origin::label() const {
  std::string text;
  for (const SourceNode& node : nodes) {
    if (!text.empty()) text += '+';
    text += node.name.empty() ? node.op_type + '#' + std::to_string(node.index) : node.name;
  }
  return text;
}

std::string Origin::describe() const {
  if (nodes.empty()) return "node";
  const SourceNode& first = nodes.front();
  std::string text = "node";
  if (first.index >= 0) text += " #" + std::to_string(first.index);
  if (!first.name.empty()) text += " '" + first.name + "'";
  if (!first.op_type.empty()) text += " (" + first.op_type + ")";
  if (nodes.size() > 1) text += " and " + std::to_string(nodes.size() - 1) + " more";
  return text;
}

void Origin::append(const Origin& other) { nodes.insert(nodes.end(), other.nodes.begin(), other.nodes.end()); }

}  // namespace mobicuda
