#include "kernels/streaming/multiply.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

kernels::MultiplyParams make_params(const LayerCase& at, bool repeats) {
  const LayerShape& shape = at.layer.shape;
  const std::int64_t pixels = std::int64_t{shape.h} * shape.w;
  const std::int64_t c = shape.c_in;
  return {at.elem,
          activation_of(shape.activation),
          3,
          {at.batch, pixels, c},
          {repeats ? c : pixels * c, repeats ? 0 : c, 1}};
}

void register_kind(const Selection& selection, LayerKind kind) {
  const bool repeats = kind == LayerKind::Gate;
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
    add_layer(traits_of(kind).kernel, at, make, {});
  });
}

void register_all(const Selection& selection) {
  register_kind(selection, LayerKind::Multiply);
  register_kind(selection, LayerKind::Gate);
}

const Benchmarks kBenchmarks("multiply", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
