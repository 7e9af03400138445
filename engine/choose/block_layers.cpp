#include "choose/block_layers.h"

namespace mobicuda {

using kernels::DepthwiseConvParams;
using kernels::GemmParams;
using kernels::InvertedResidualParams;

GemmParams expand_layer(const InvertedResidualParams& block) {
  GemmParams params;
  params.elem = params.output = block.elem;
  params.m = block.n * block.h * block.w;
  params.n = block.c_hidden;
  params.k = block.c_in;
  params.bias = true;
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

GemmParams project_layer(const InvertedResidualParams& block) {
  GemmParams params;
  params.elem = params.output = block.elem;
  params.m = block.n * block.out_h * block.out_w;
  params.n = block.c_out;
  params.k = block.c_hidden;
  params.bias = true;
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
