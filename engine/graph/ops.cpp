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
  static constexpr std::array<std::string_view, 6> kUnaryNames{"Sigmoid",   "HardSwish", "Tanh",
                                                               "LeakyRelu", "Elu",       "Silu"};
  const auto* unary = std::get_if<Unary>(&op);
  const auto kind = unary == nullptr ? kUnaryNames.size() : static_cast<std::size_t>(unary->kind);
  if (kind < kUnaryNames.size()) return kUnaryNames[kind];
  return kNames[op.index()];
}

Activation activation_of(const Unary& op) noexcept {
  static constexpr std::array<ActivationKind, 6> kKinds{ActivationKind::Sigmoid, ActivationKind::HardSwish,
                                                        ActivationKind::Tanh,    ActivationKind::LeakyRelu,
                                                        ActivationKind::Elu,     ActivationKind::Silu};
  return Activation::of(kKinds.at(static_cast<std::size_t>(op.kind)), op.alpha);
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
