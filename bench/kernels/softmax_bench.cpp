#include "kernels/streaming/softmax.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

const LayerKind kKind({.name = "softmax", .find = find_op<Softmax>});

/// Over the channels of each pixel; of one pixel for a classifier.
void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) {
    const LayerShape& shape = at.layer.shape;
    const std::int64_t rows = std::int64_t{at.batch} * shape.h * shape.w;
    const kernels::SoftmaxParams p{at.elem, Elem::F32, static_cast<int>(rows), shape.c_in};
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

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
