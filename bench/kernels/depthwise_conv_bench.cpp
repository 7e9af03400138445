#include "kernels/depthwise_conv/depthwise_conv.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

using kernels::DepthwiseConvParams;

DepthwiseConvParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  DepthwiseConvParams p;
  p.elem = at.elem;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c = shape.c_in;
  p.out_h = shape.out_h;
  p.out_w = shape.out_w;
  p.bias = shape.bias;
  p.activation = activation_of(shape.activation);
  set_window(p, shape);
  return p;
}

void register_all(const Selection& selection) {
  for_each_case(selection, LayerKind::DepthwiseConv,
                [](const LayerCase& at) { add_variants(at, make_params(at), kByRule); });
}

const Benchmarks kBenchmarks(kernels::kernel_of(kernels::DepthwiseConvParams{}).name, register_all, true);

}  // namespace

}  // namespace mobicuda::bench
