#include "kernels/streaming/int8_pooling.h"

#include "kernels/common/quantization.h"
#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

/// Windows, and means of whole maps.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  if (const auto* op = as<Pool2d>(&node)) {
    LayerShape layer = network.between(node.inputs[0], node.output);
    set_windows(layer, op->kernel[0], op->kernel[1], *op);
    return layer;
  }
  auto layer = find_op<GlobalAveragePool>(network, node);
  if (layer) {
    layer->vertical = {.size = layer->h};
    layer->horizontal = {.size = layer->w};
  }
  return layer;
}

const LayerKind kKind({.name = "int8_pooling", .find = find, .window = true});

kernels::Int8PoolingParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  kernels::Int8PoolingParams p;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c = shape.c_in;
  p.out_h = shape.out_h;
  p.out_w = shape.out_w;
  p.kernel_h = shape.vertical.size;
  p.kernel_w = shape.horizontal.size;
  p.stride_h = shape.vertical.stride;
  p.stride_w = shape.horizontal.stride;
  p.pad_top = shape.vertical.pad_before;
  p.pad_left = shape.horizontal.pad_before;
  p.x_pitch = p.y_pitch = kernels::round_up(p.c, kernels::kChannelStep);
  return p;
}

void register_all(const Selection& selection) {
  for_each_int8_case(selection, kKind, [](const LayerCase& at) {
    add_layer(at, [p = make_params(at)] {
      TimedKernel kernel{"int8_pooling"};
      kernel.x_bytes = std::int64_t{p.n} * p.h * p.w * p.x_pitch;
      kernel.y_bytes = std::int64_t{p.n} * p.out_h * p.out_w * p.y_pitch;
      kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
        return kernels::int8_pooling(p, on.x, on.y, where);
      };
      return kernel;
    });
  });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
