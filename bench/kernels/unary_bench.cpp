#include "kernels/streaming/unary.h"

#include <optional>

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::UnaryFunction;

/// Also the activation of a convolution or product, as a step of its own, where it is no clip. The networks have no
/// functions but activations.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  const Activation* behind = activation_of_products(node);
  if (behind != nullptr && !behind->is_clip()) return network.step_behind(node, *behind);
  auto layer = find_op<Unary>(network, node);
  if (!layer) return std::nullopt;
  const auto activation = mobicuda::activation_of(std::get<Unary>(node.op));
  if (!activation) return std::nullopt;
  layer->activation = layer_activation(*activation);
  return layer;
}

const LayerKind kKind({.name = "unary", .find = find});

std::optional<UnaryFunction> function_of(LayerActivation activation) {
  switch (activation) {
    case LayerActivation::Sigmoid:
      return UnaryFunction::Sigmoid;
    case LayerActivation::Silu:
      return UnaryFunction::Silu;
    case LayerActivation::HardSwish:
      return UnaryFunction::HardSwish;
    case LayerActivation::Tanh:
      return UnaryFunction::Tanh;
    case LayerActivation::LeakyRelu:
      return UnaryFunction::LeakyRelu;
    case LayerActivation::Elu:
      return UnaryFunction::Elu;
    default:
      return std::nullopt;
  }
}

void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) {
    constexpr float kAlpha = 0.01F;
    const auto function = function_of(at.layer.shape.activation);
    if (!function) return;
    const std::int64_t bytes = input_bytes(at);
    const kernels::UnaryParams p{at.elem, *function, kAlpha, bytes / static_cast<std::int64_t>(size_of(at.elem))};
    const auto make = [p, bytes] {
      TimedKernel kernel{"unary"};
      kernel.x_bytes = kernel.y_bytes = bytes;
      kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
        return kernels::unary(p, on.x, on.y, where);
      };
      return kernel;
    };
    add_layer(at, make);
  });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
