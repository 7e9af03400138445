#include "kernels/streaming/elementwise.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

/// Also a convolution's, as a step of its own.
std::optional<LayerShape> find_sum(const Network& network, const Node& node) {
  const auto* conv = as<Conv2d>(&node);
  if (conv != nullptr && has(node, Conv2d::kResidual)) return network.step_behind(node, conv->activation);
  return find_op<Add>(network, node);
}

const LayerKind kSums({.name = "add", .find = find_sum});
const LayerKind kScaleShifts({.name = "scale_shift", .find = find_op<ScaleShift>});

void add_sum(const LayerCase& at) {
  const std::int64_t bytes = input_bytes(at);
  const std::int64_t elements = bytes / static_cast<std::int64_t>(size_of(at.elem));
  const auto make = [=, elem = at.elem, activation = activation_of(at.layer.shape.activation)] {
    TimedKernel kernel{"elementwise/add"};
    kernel.x_bytes = kernel.residual_bytes = kernel.y_bytes = bytes;
    kernel.enqueue = [=](const TimedOperands& on, const kernels::Launch& where) {
      return kernels::add(elem, elements, activation, on.x, on.residual, on.y, where);
    };
    return kernel;
  };
  add_layer(at, make);
}

void add_scale_shift(const LayerCase& at) {
  const std::int64_t bytes = input_bytes(at);
  const int c = at.layer.shape.c_in;
  const std::int64_t rows = bytes / static_cast<std::int64_t>(size_of(at.elem)) / c;
  const auto make = [=, elem = at.elem, activation = activation_of(at.layer.shape.activation)] {
    const std::int64_t vector_bytes = std::int64_t{c} * static_cast<std::int64_t>(sizeof(float));
    TimedKernel kernel{"elementwise/scale_shift"};
    kernel.x_bytes = kernel.y_bytes = bytes;
    kernel.weight_bytes = {vector_bytes, vector_bytes};
    kernel.enqueue = [=](const TimedOperands& on, const kernels::Launch& where) {
      return kernels::scale_shift(elem, rows, c, activation, on.x, static_cast<const float*>(on.weights[0]),
                                  static_cast<const float*>(on.weights[1]), on.y, where);
    };
    return kernel;
  };
  add_layer(at, make);
}

void register_all(const Selection& selection) {
  for_each_case(selection, kSums, add_sum);
  for_each_case(selection, kScaleShifts, add_scale_shift);
}

const Benchmarks kBenchmarks("elementwise", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
