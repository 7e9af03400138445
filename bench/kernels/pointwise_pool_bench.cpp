#include "kernels/pointwise_pool/pointwise_pool.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

using kernels::PointwisePoolParams;

PointwisePoolParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  PointwisePoolParams p;
  p.elem = at.elem;
  p.n = at.batch;
  p.pixels = shape.h * shape.w;
  p.c_in = shape.c_in;
  p.c = shape.c_out;
  p.bias = shape.bias;
  p.clip = clip_of(shape.activation);
  return p;
}

void register_all(const Selection& selection) {
  for_each_case(selection, LayerKind::Head,
                [](const LayerCase& at) { add_variants(at, make_params(at), kFusedByRule); });
}

const Benchmarks kBenchmarks(kernels::kernel_of(kernels::PointwisePoolParams{}).name, register_all, false);

}  // namespace

}  // namespace mobicuda::bench
