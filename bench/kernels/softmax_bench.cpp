#include "kernels/streaming/softmax.h"

#include <optional>

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

/// Also in place of a softmax: no network of the zoo has one of these.
std::optional<LayerShape> find_logarithm(const Network& network, const Node& node) {
  auto layer = find_op<LogSoftmax>(network, node);
  return layer ? layer : find_op<Softmax>(network, node);
}

const LayerKind kShares({.name = "softmax", .find = find_op<Softmax>});
const LayerKind kLogarithms({.name = "log_softmax", .find = find_logarithm});

/// Over the channels of each pixel; of one pixel for a classifier.
void register_kind(const Selection& selection, const LayerKind& kind) {
  for_each_case(selection, kind, [&](const LayerCase& at) {
    const LayerShape& shape = at.layer.shape;
    const std::int64_t rows = std::int64_t{at.batch} * shape.h * shape.w;
    kernels::SoftmaxParams p{at.elem, Elem::F32, static_cast<int>(rows), shape.c_in};
    p.logarithm = &kind == &kLogarithms;
    const auto make = [p, x = input_bytes(at), y = rows * shape.c_in * static_cast<std::int64_t>(sizeof(float))] {
      TimedKernel kernel{"softmax"};
      kernel.x_bytes = x;
      kernel.y_bytes = y;
      kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
        return kernels::softmax(p, on.x, on.y, where);
      };
      return kernel;
    };
    add_layer(at, make);
  });
}

void register_all(const Selection& selection) {
  register_kind(selection, kShares);
  register_kind(selection, kLogarithms);
}

const Benchmarks kBenchmarks(kShares.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
