#include "kernels/stem_block/stem_block.h"

#include <algorithm>
#include <iterator>

#include "block_params.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::StemBlockParams;
using kernels::StemInput;

constexpr int kWindow = 3;

/// The first convolution and a block that does not expand. `vertical`, `horizontal`: the first one's windows; the
/// depthwise window's pads are 1, as its stride is.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  auto layer = blocks().find(network, node);
  if (!layer || layer->expand || layer->residual || layer->vertical.stride != 1) return std::nullopt;
  const Node* before = network.producer(node.inputs[Conv2d::kInput]);
  const Conv2d* op = other_convolution(network, before);
  if (op == nullptr || !op->activation.is_clip() || network.sole_reader(before->output) != &node ||
      !network.reads_input(before->inputs[Conv2d::kInput])) {
    return std::nullopt;
  }
  const LayerShape first = convolution(network, *before, *op);
  if (first.c_in != 3 || first.vertical.size != kWindow || first.horizontal.size != kWindow ||
      first.vertical.stride != 2 || first.horizontal.stride != 2) {
    return std::nullopt;
  }
  layer->h = first.h;
  layer->w = first.w;
  layer->c_in = first.c_in;
  layer->vertical = first.vertical;
  layer->horizontal = first.horizontal;
  layer->first = true;
  return layer;
}

std::int64_t flops(const LayerShape& s) {
  constexpr std::int64_t kTaps = kWindow * kWindow;
  return 2 * std::int64_t{s.out_h} * s.out_w * s.hidden * (kTaps * s.c_in + kTaps + s.c_out);
}

const LayerKind kKind({.name = kernels::kernel_of(StemBlockParams{}).name,
                       .find = find,
                       .products = true,
                       .window = true,
                       .bias = true,
                       .flops = flops});

StemBlockParams make_params(const LayerCase& at, StemInput input) {
  const LayerShape& shape = at.layer.shape;
  StemBlockParams p;
  p.elem = at.elem;
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

void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) {
    add_case(at, StemInput::NchwFloat, "_nchw_float");
    add_case(at, StemInput::NhwcUint8, "_nhwc_uint8");
  });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, true);

}  // namespace

}  // namespace mobicuda::bench
