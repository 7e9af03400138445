#pragma once

#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "layer_bench.h"

namespace mobicuda::bench {

/// [Pointwise,] depthwise 3x3, pointwise, or pointwise, depthwise 5x5, pointwise: what inverted_residual_bench.cpp
/// finds.
inline const LayerKind& blocks() {
  return LayerKind::named(kernels::kernel_of(kernels::InvertedResidualParams{}).name);
}

/// Of a block. What a clip's bounds are changes no time.
inline kernels::InvertedResidualParams block_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  kernels::InvertedResidualParams p;
  p.elem = at.elem;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c_in = shape.c_in;
  p.c_hidden = shape.hidden;
  p.c_out = shape.c_out;
  p.out_h = shape.out_h;
  p.out_w = shape.out_w;
  p.kernel = shape.vertical.size;
  p.stride = shape.vertical.stride;
  p.pad_top = shape.vertical.pad_before;
  p.pad_left = shape.horizontal.pad_before;
  p.expand = shape.expand;
  p.residual = shape.residual;
  p.expand_activation = p.depthwise_activation = clip_of(LayerActivation::Relu6);
  p.project_clip = clip_of(shape.activation);
  return p;
}

/// The two layers before the projection, of a block that expands.
inline kernels::ExpandDepthwiseParams expand_depthwise_params(const LayerCase& at) {
  const kernels::InvertedResidualParams block = block_params(at);
  kernels::ExpandDepthwiseParams p;
  p.elem = block.elem;
  p.n = block.n;
  p.h = block.h;
  p.w = block.w;
  p.c_in = block.c_in;
  p.c = block.c_hidden;
  p.out_h = block.out_h;
  p.out_w = block.out_w;
  p.kernel = block.kernel;
  p.stride = block.stride;
  p.pad_top = block.pad_top;
  p.pad_left = block.pad_left;
  p.expand_bias = p.depthwise_bias = true;
  p.expand_activation = block.expand_activation;
  p.depthwise_activation = block.depthwise_activation;
  return p;
}

}  // namespace mobicuda::bench
