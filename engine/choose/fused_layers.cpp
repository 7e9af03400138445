#include "choose/fused_layers.h"

namespace mobicuda {

using namespace kernels;

GemmParams expand_layer(const InvertedResidualParams& block) {
  GemmParams params;
  params.elem = params.output = block.elem;
  params.m = block.n * block.h * block.w;
  params.n = block.c_hidden;
  params.k = block.c_in;
  params.bias = true;
  params.activation = block.expand_clip;
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
  params.stride_h = params.stride_w = block.stride;
  params.pad_top = block.pad_top;
  params.pad_left = block.pad_left;
  params.bias = true;
  params.activation = block.depthwise_clip;
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

Conv2dParams first_layer(const StemBlockParams& stem) {
  const bool integers = stem.input == StemInput::NhwcUint8;
  Conv2dParams params;
  params.elem = Elem::F16;
  params.input = integers ? Conv2dParams::Input::NhwcUint8 : Conv2dParams::Input::NchwFloat;
  params.n = stem.n;
  params.h = stem.h;
  params.w = stem.w;
  params.c_in = 3;
  params.c_out = stem.c_stem;
  params.out_h = stem.stem_h;
  params.out_w = stem.stem_w;
  params.kernel_h = params.kernel_w = 3;
  params.stride_h = params.stride_w = 2;
  params.pad_top = stem.stem_pad_top;
  params.pad_left = stem.stem_pad_left;
  params.bias = true;
  params.activation = stem.stem_clip;
  return params;
}

InvertedResidualParams block_after(const StemBlockParams& stem) {
  InvertedResidualParams params;
  params.n = stem.n;
  params.h = stem.stem_h;
  params.w = stem.stem_w;
  params.c_in = params.c_hidden = stem.c_stem;
  params.c_out = stem.c_out;
  params.out_h = stem.out_h;
  params.out_w = stem.out_w;
  params.pad_top = stem.depthwise_pad_top;
  params.pad_left = stem.depthwise_pad_left;
  params.expand = false;
  params.depthwise_clip = stem.depthwise_clip;
  params.project_clip = stem.project_clip;
  return params;
}

GemmParams pointwise_layer(const PointwisePoolParams& head) {
  GemmParams params;
  params.elem = params.output = head.elem;
  params.m = head.n * head.pixels;
  params.n = head.c;
  params.k = head.c_in;
  params.bias = head.bias;
  params.activation = head.clip;
  return params;
}

GlobalAveragePoolParams pool_layer(const PointwisePoolParams& head) {
  return {head.elem, head.n, head.pixels, 1, head.c};
}

GlobalAveragePoolParams pool_layer(const SqueezeExciteParams& gate) {
  return {gate.elem, gate.n, gate.pixels, 1, gate.c};
}

GemmParams squeeze_layer(const SqueezeExciteParams& gate) {
  GemmParams params;
  params.elem = params.output = gate.elem;
  params.m = gate.n;
  params.n = gate.squeezed;
  params.k = gate.c;
  params.bias = true;
  params.activation = gate.squeeze_activation;
  return params;
}

GemmParams gate_layer(const SqueezeExciteParams& gate) {
  GemmParams params = squeeze_layer(gate);
  params.n = gate.c;
  params.k = gate.squeezed;
  params.activation = gate.gate_activation;
  return params;
}

TimedKernel timed(const GlobalAveragePoolParams& params) {
  const std::int64_t values = static_cast<std::int64_t>(size_of(params.elem)) * params.n * params.c;
  TimedKernel kernel{"pooling/global_average"};
  kernel.x_bytes = values * params.h * params.w;
  kernel.y_bytes = values;
  kernel.enqueue = [params](const TimedOperands& at, const Launch& where) {
    return global_average_pool(params, at.x, at.y, where);
  };
  return kernel;
}

TimedKernel timed_product(const SqueezeExciteParams& gate) {
  MultiplyParams params;
  params.elem = gate.elem;
  params.axes = 3;
  params.extent[0] = gate.n;
  params.extent[1] = gate.pixels;
  params.extent[2] = gate.c;
  params.b_stride[0] = gate.c;
  params.b_stride[2] = 1;
  const std::int64_t gates = static_cast<std::int64_t>(size_of(gate.elem)) * gate.n * gate.c;
  TimedKernel kernel{"multiply"};
  kernel.x_bytes = gates;
  kernel.residual_bytes = kernel.y_bytes = gates * gate.pixels;
  kernel.enqueue = [params](const TimedOperands& at, const Launch& where) {
    return multiply(params, at.residual, at.x, at.y, where);
  };
  return kernel;
}

}  // namespace mobicuda
