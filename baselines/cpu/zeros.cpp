#include "baselines/cpu/zeros.h"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <variant>

namespace mobicuda::cpu {
namespace {

template <class T>
concept HasActivation = requires(const T& op) {
  { op.activation } -> std::convertible_to<Activation>;
};

template <class T>
constexpr bool kMovesAll = std::same_as<T, Reshape> || std::same_as<T, Slice> || std::same_as<T, Transpose> ||
                           std::same_as<T, LayoutTransform> || std::same_as<T, Identity> || std::same_as<T, Concat>;

// Channels that are zero everywhere in an image keep an average at zero; what follows it is one row, for which weights
// that are left out are not read.
template <class T>
constexpr bool kKeepsSome = std::same_as<T, GlobalAveragePool>;

}  // namespace

std::vector<bool> values_with_zeros(const Graph& graph) {
  std::vector<bool> found(graph.values().size());
  const auto has = [&](ValueId value) { return value != kNoValue && found[static_cast<std::size_t>(value)]; };
  for (const Node& node : graph.nodes()) {
    found[static_cast<std::size_t>(node.output)] = std::visit(
        [&]<class T>(const T& op) {
          if constexpr (HasActivation<T>) {
            if (op.activation.is_clip() && op.activation.lo == 0.0F) return true;
          }
          // A product is zero where either factor is.
          if constexpr (std::same_as<T, Mul>) return std::ranges::any_of(node.inputs, has);
          if constexpr (kMovesAll<T> || kKeepsSome<T>) return std::ranges::all_of(node.inputs, has);
          return false;
        },
        node.op);
  }
  return found;
}

}  // namespace mobicuda::cpu
