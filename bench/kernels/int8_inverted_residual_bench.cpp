#include "kernels/int8_inverted_residual/int8_inverted_residual.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

using kernels::Int8InvertedResidualParams;

Int8InvertedResidualParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  Int8InvertedResidualParams p;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c_in = shape.c_in;
  p.c_hidden = shape.hidden;
  p.c_out = shape.c_out;
  p.out_h = shape.out_h;
  p.out_w = shape.out_w;
  p.stride = shape.vertical.stride;
  p.pad_top = shape.vertical.pad_before;
  p.pad_left = shape.horizontal.pad_before;
  p.residual = shape.residual;
  return p;
}

/// The layers of inverted_residual, those that expand, with windows of 3x3.
void register_all(const Selection& selection) {
  const LayerKind& blocks = LayerKind::named("inverted_residual");
  for_each_int8_case(selection, blocks, [](const LayerCase& at) {
    constexpr int kWindow = 3;
    if (at.layer.shape.vertical.size == kWindow && at.layer.shape.expand)
      add_variants(at, make_params(at), kFusedByRule);
  });
}

const Benchmarks kBenchmarks(kernels::kernel_of(Int8InvertedResidualParams{}).name, register_all, false);

}  // namespace

}  // namespace mobicuda::bench
