#include "kernels/int8_stem_block/int8_stem_block.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

using kernels::Int8StemBlockParams;
using kernels::Int8StemInput;

Int8StemBlockParams make_params(const LayerCase& at, Int8StemInput input) {
  const LayerShape& shape = at.layer.shape;
  Int8StemBlockParams p;
  p.input = input;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c_stem = shape.hidden;
  p.c_out = shape.c_out;
  p.stem_h = p.out_h = shape.out_h;
  p.stem_w = p.out_w = shape.out_w;
  p.stem_pad_top = shape.vertical.pad_before;
  p.stem_pad_left = shape.horizontal.pad_before;
  p.depthwise_pad_top = p.depthwise_pad_left = 1;
  p.x_scale = 1.0F / 127.5F;
  p.stem_result = p.depthwise_result = {kernels::kLowestByte, kernels::kLowestByte, kernels::kHighestByte};
  return p;
}

void add_case(LayerCase at, Int8StemInput input, const char* suffix) {
  at.suffix = suffix;
  add_variants(at, make_params(at, input), kFusedByRule);
}

/// The layers of stem_block.
void register_all(const Selection& selection) {
  const LayerKind& stems = LayerKind::named("stem_block");
  for_each_int8_case(selection, stems, [](const LayerCase& at) {
    add_case(at, Int8StemInput::NchwFloat, "_nchw_float");
    add_case(at, Int8StemInput::Words, "_words");
  });
}

const Benchmarks kBenchmarks(kernels::kernel_of(Int8StemBlockParams{}).name, register_all, false);

}  // namespace

}  // namespace mobicuda::bench
