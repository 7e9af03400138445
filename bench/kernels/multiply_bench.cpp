#include "kernels/streaming/multiply.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

/// Also the product of a Silu or HardSwish as a step of its own, with the gate that it is made of.
std::optional<LayerShape> find_equal(const Network& network, const Node& node) {
  const Activation* activation = activation_of_products(node);
  if (activation != nullptr &&
      (activation->kind == ActivationKind::Silu || activation->kind == ActivationKind::HardSwish)) {
    return network.step_behind(node, Activation::none());
  }
  auto layer = find_op<Mul>(network, node);
  if (!layer) return std::nullopt;
  const Shape& a = network.shape(node.inputs[Mul::kLeft]);
  return a.rank() == 4 && a == network.shape(node.inputs[Mul::kRight]) ? layer : std::nullopt;
}

/// A factor for each channel of a picture.
std::optional<LayerShape> find_gate(const Network& network, const Node& node) {
  auto layer = find_op<Mul>(network, node);
  if (!layer) return std::nullopt;
  const Shape& a = network.shape(node.inputs[Mul::kLeft]);
  const Shape& b = network.shape(node.inputs[Mul::kRight]);
  return a.rank() == 4 && a != b && b[1] == a[1] && b[2] == 1 && b[3] == 1 ? layer : std::nullopt;
}

const LayerKind kEqual({.name = "multiply/equal", .find = find_equal});
const LayerKind kGates({.name = "multiply/gate", .find = find_gate});

kernels::MultiplyParams make_params(const LayerCase& at, bool repeats) {
  const LayerShape& shape = at.layer.shape;
  const std::int64_t pixels = std::int64_t{shape.h} * shape.w;
  const std::int64_t c = shape.c_in;
  const kernels::Broadcast operands{3, {at.batch, pixels, c}, {repeats ? c : pixels * c, repeats ? 0 : c, 1}};
  return {operands, at.elem, activation_of(shape.activation)};
}

void register_kind(const Selection& selection, const LayerKind& kind) {
  const bool repeats = &kind == &kGates;
  for_each_case(selection, kind, [&](const LayerCase& at) {
    const kernels::MultiplyParams p = make_params(at, repeats);
    const std::int64_t x = input_bytes(at);
    const std::int64_t factors = repeats ? x / (std::int64_t{at.layer.shape.h} * at.layer.shape.w) : x;
    const auto make = [=] {
      TimedKernel kernel{"multiply"};
      kernel.x_bytes = kernel.y_bytes = x;
      kernel.residual_bytes = factors;
      kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
        return kernels::multiply(p, on.x, on.residual, on.y, where);
      };
      return kernel;
    };
    add_layer(at, make);
  });
}

void register_all(const Selection& selection) {
  register_kind(selection, kEqual);
  register_kind(selection, kGates);
}

const Benchmarks kBenchmarks("multiply", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
