#include "kernels/conv2d/conv2d.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

using kernels::Conv2dParams;
using Input = Conv2dParams::Input;

Conv2dParams make_params(const LayerCase& at, Input input) {
  const LayerShape& shape = at.layer.shape;
  Conv2dParams p;
  p.elem = at.elem;
  p.input = input;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c_in = shape.c_in;
  p.c_out = shape.c_out;
  p.out_h = shape.out_h;
  p.out_w = shape.out_w;
  p.groups = shape.groups;
  p.bias = shape.bias;
  p.residual = shape.residual;
  p.activation = activation_of(shape.activation);
  set_window(p, shape);
  return p;
}

void add_case(LayerCase at, Input input, const char* suffix) {
  at.suffix = suffix;
  add_variants(at, make_params(at, input), kByRule);
}

/// A first layer reads the caller's floats or pictures.
void register_all(const Selection& selection) {
  for_each_case(selection, LayerKind::Conv2d, [](const LayerCase& at) {
    if (!at.layer.shape.first) return add_case(at, Input::NhwcElem, "");
    add_case(at, Input::NchwFloat, "_nchw_float");
    if (at.layer.shape.c_in == 3) add_case(at, Input::NhwcUint8, "_nhwc_uint8");
  });
}

const Benchmarks kBenchmarks(kernels::kernel_of(kernels::Conv2dParams{}).name, register_all, true);

}  // namespace

}  // namespace mobicuda::bench
