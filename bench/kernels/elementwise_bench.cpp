#include "kernels/streaming/elementwise.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

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
  add_layer(traits_of(at.layer.shape.kind).kernel, at, make, {});
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
  add_layer(traits_of(at.layer.shape.kind).kernel, at, make, {});
}

void register_all(const Selection& selection) {
  for_each_case(selection, LayerKind::Add, add_sum);
  for_each_case(selection, LayerKind::ScaleShift, add_scale_shift);
}

const Benchmarks kBenchmarks("elementwise", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
