#include "kernels/streaming/int8_add.h"

#include "kernels/common/quantization.h"
#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

/// Also a convolution's, as a step of its own.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  const auto* conv = as<Conv2d>(&node);
  if (conv != nullptr && has(node, Conv2d::kResidual)) return network.step_behind(node, conv->activation);
  return find_op<Add>(network, node);
}

const LayerKind kKind({.name = "int8_add", .find = find});

void register_all(const Selection& selection) {
  for_each_int8_case(selection, kKind, [](const LayerCase& at) {
    const LayerShape& shape = at.layer.shape;
    const std::int64_t bytes =
        std::int64_t{at.batch} * shape.h * shape.w * kernels::round_up(shape.c_in, kernels::kChannelStep);
    add_layer(at, [bytes] {
      TimedKernel kernel{"int8_add"};
      kernel.x_bytes = kernel.residual_bytes = kernel.y_bytes = bytes;
      kernel.enqueue = [bytes](const TimedOperands& on, const kernels::Launch& where) {
        return kernels::int8_add({bytes, {}}, on.x, on.residual, on.y, where);
      };
      return kernel;
    });
  });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
