#include "kernels/streaming/pooling.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

template <PoolKind kWanted>
std::optional<LayerShape> find(const Network& network, const Node& node) {
  const auto* op = as<Pool2d>(&node);
  if (op == nullptr || op->kind != kWanted) return std::nullopt;
  LayerShape layer = network.between(node.inputs[0], node.output);
  set_windows(layer, op->kernel[0], op->kernel[1], *op);
  return layer;
}

const LayerKind kMaxima({.name = "max_pooling", .find = find<PoolKind::Max>, .window = true});
const LayerKind kAverages({.name = "average_pooling", .find = find<PoolKind::Average>, .window = true});
const LayerKind kMeans({.name = "global_average_pool", .find = find_op<GlobalAveragePool>});

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

void register_windows(const Selection& selection, const LayerKind& kind, kernels::PoolingKind pooling_kind) {
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
    add_layer(at, make);
  });
}

void register_all(const Selection& selection) {
  register_windows(selection, kMaxima, kernels::PoolingKind::Max);
  register_windows(selection, kAverages, kernels::PoolingKind::Average);
  for_each_case(selection, kMeans, [](const LayerCase& at) {
    const LayerShape& shape = at.layer.shape;
    const kernels::GlobalAveragePoolParams p{at.elem, at.batch, shape.h, shape.w, shape.c_in};
    add_layer(at, [p] { return timed(p); });
  });
}

const Benchmarks kBenchmarks("pooling", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
