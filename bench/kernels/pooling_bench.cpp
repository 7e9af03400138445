#include "kernels/streaming/pooling.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

kernels::PoolingParams make_params(const LayerCase& at, kernels::PoolingKind kind) {
  const LayerShape& shape = at.layer.shape;
  kernels::PoolingParams p;
  p.elem = at.elem;
  p.kind = kind;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c = shape.c_in;
  p.out_h = shape.out_h;
  p.out_w = shape.out_w;
  set_window(p, shape);
  p.pad_bottom = shape.vertical.pad_after;
  p.pad_right = shape.horizontal.pad_after;
  return p;
}

void register_windows(const Selection& selection, LayerKind kind, kernels::PoolingKind pooling_kind) {
  for_each_case(selection, kind, [&](const LayerCase& at) {
    const kernels::PoolingParams p = make_params(at, pooling_kind);
    const auto make = [p, x = input_bytes(at), y = output_bytes(at)] {
      TimedKernel kernel{"pooling"};
      kernel.x_bytes = x;
      kernel.y_bytes = y;
      kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
        return kernels::pooling(p, on.x, on.y, where);
      };
      return kernel;
    };
    add_layer(traits_of(kind).kernel, at, make, {});
  });
}

void register_all(const Selection& selection) {
  register_windows(selection, LayerKind::MaxPool, kernels::PoolingKind::Max);
  register_windows(selection, LayerKind::AveragePool, kernels::PoolingKind::Average);
  for_each_case(selection, LayerKind::GlobalAveragePool, [](const LayerCase& at) {
    const LayerShape& shape = at.layer.shape;
    const kernels::GlobalAveragePoolParams p{at.elem, at.batch, shape.h, shape.w, shape.c_in};
    add_layer(traits_of(shape.kind).kernel, at, [p] { return timed(p); }, {});
  });
}

const Benchmarks kBenchmarks("pooling", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
