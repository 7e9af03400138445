#include "kernels/streaming/quantize.h"

#include <optional>

#include "kernels/common/quantization.h"
#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

/// The image that a first convolution reads.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  if (as<Conv2d>(&node) == nullptr || !network.reads_input(node.inputs[0])) return std::nullopt;
  return network.between(node.inputs[0], node.inputs[0]);
}

const LayerKind kKind({.name = "quantize", .find = find});

void register_all(const Selection& selection) {
  constexpr int kSmallPitch = 4;
  for_each_int8_case(selection, kKind, [](const LayerCase& at) {
    const LayerShape& shape = at.layer.shape;
    kernels::QuantizeParams p;
    p.nchw = true;
    p.n = at.batch;
    p.pixels = shape.h * shape.w;
    p.c = shape.c_in;
    p.y_pitch = p.c <= kSmallPitch ? kSmallPitch : kernels::round_up(p.c, kernels::kChannelStep);
    add_layer(at, [p] {
      TimedKernel kernel{"quantize"};
      kernel.x_bytes = std::int64_t{p.n} * p.pixels * p.c * static_cast<std::int64_t>(sizeof(float));
      kernel.y_bytes = std::int64_t{p.n} * p.pixels * p.y_pitch;
      kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
        return kernels::quantize(p, static_cast<const float*>(on.x), on.y, where);
      };
      return kernel;
    });
  });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
