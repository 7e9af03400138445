#include "kernels/stem_block/stem_block.h"

#include <algorithm>
#include <iterator>

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

using kernels::StemBlockParams;
using kernels::StemInput;

StemBlockParams make_params(const LayerCase& at, StemInput input) {
  const LayerShape& shape = at.layer.shape;
  StemBlockParams p;
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
  p.stem_clip = p.depthwise_clip = clip_of(LayerActivation::Relu6);
  p.project_clip = clip_of(shape.activation);
  std::fill(std::begin(p.scale), std::end(p.scale), 1.0F / 127.5F);
  std::fill(std::begin(p.shift), std::end(p.shift), -1.0F);
  return p;
}

void add_case(LayerCase at, StemInput input, const char* suffix) {
  at.suffix = suffix;
  add_variants(at, make_params(at, input), kFusedByRule);
}

/// Only half has such a kernel.
void register_all(const Selection& selection) {
  for_each_case(selection, LayerKind::Stem, [](const LayerCase& at) {
    if (at.elem != Elem::F16) return;
    add_case(at, StemInput::NchwFloat, "_nchw_float");
    add_case(at, StemInput::NhwcUint8, "_nhwc_uint8");
  });
}

const Benchmarks kBenchmarks(kernels::kernel_of(kernels::StemBlockParams{}).name, register_all, true);

}  // namespace

}  // namespace mobicuda::bench
