#include "choose/block_layers.h"

#include "choose/pointwise_layer.h"

namespace mobicuda {

using kernels::Conv2dParams;
using kernels::DepthwiseConvParams;
using kernels::GemmParams;
using kernels::InvertedResidualParams;

Conv2dParams expand_layer(const InvertedResidualParams& block) {
  Conv2dParams params = pointwise_layer({block.elem, block.n, block.h, block.w}, block.c_in, block.c_hidden);
  params.activation = block.expand_activation;
  return params;
}

DepthwiseConvParams depthwise_layer(const InvertedResidualParams& block) {
  DepthwiseConvParams params;
  params.elem = block.elem;
  params.n = block.n;
  params.h = block.h;
  params.w = block.w;
  params.c = block.c_hidden;
  params.out_h = block.out_h;
  params.out_w = block.out_w;
  params.kernel_h = params.kernel_w = block.kernel;
  params.stride_h = params.stride_w = block.stride;
  params.pad_top = block.pad_top;
  params.pad_left = block.pad_left;
  params.bias = true;
  params.activation = block.depthwise_activation;
  return params;
}

Conv2dParams project_layer(const InvertedResidualParams& block) {
  Conv2dParams params = pointwise_layer({block.elem, block.n, block.out_h, block.out_w}, block.c_hidden, block.c_out);
  params.residual = block.residual;
  params.activation = block.project_clip;
  return params;
}

kernels::SplitGemmParams split_layer(const GemmParams& layer) {
  kernels::SplitGemmParams params;
  params.m = layer.m;
  params.n = layer.n;
  params.k = layer.k;
  params.in_range = true;
  params.bias = layer.bias;
  params.residual = layer.residual;
  params.activation = layer.activation;
  params.x_pitch = layer.x_pitch;
  params.y_pitch = layer.y_pitch;
  return params;
}

}  // namespace mobicuda
