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

}  // namespace

void register_pointwise_pool(const Selection& selection) {
  const auto rule = [](const VariantChooser& chooser, const PointwisePoolParams& p) {
    return chooser.pointwise_pool(p);
  };
  for_each_case(selection, LayerKind::Head, [&](const LayerCase& at) {
    add_variants("pointwise_pool", at, kernels::pointwise_pool_variants(), make_params(at), rule);
  });
}

}  // namespace mobicuda::bench
