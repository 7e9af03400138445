#include "kernels/streaming/extremum.h"

#include <optional>

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

/// Also in place of a sum: no network of the zoo has one of these.
std::optional<LayerShape> find_extremum(const Network& network, const Node& node) {
  auto layer = find_op<Extremum>(network, node);
  return layer ? layer : find_op<Add>(network, node);
}

const LayerKind kKind({.name = "extremum", .find = find_extremum});

/// Of equal shapes.
void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) {
    const LayerShape& shape = at.layer.shape;
    kernels::ExtremumParams p;
    p.elem = at.elem;
    p.activation = activation_of(shape.activation);
    p.axes = 1;
    p.extent[0] = std::int64_t{at.batch} * shape.h * shape.w * shape.c_in;
    p.b_stride[0] = 1;
    const auto make = [p, bytes = input_bytes(at)] {
      TimedKernel kernel{"extremum"};
      kernel.x_bytes = kernel.y_bytes = kernel.residual_bytes = bytes;
      kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
        return kernels::extremum(p, on.x, on.residual, on.y, where);
      };
      return kernel;
    };
    add_layer(at, make);
  });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace
}  // namespace mobicuda::bench
