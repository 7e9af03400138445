#include "choose/pointwise_layer.h"

#include <cmath>

namespace mobicuda {

using kernels::Conv2dParams;
using kernels::GemmParams;

LayerImages images_of_pixels(kernels::Elem elem, int n, int pixels) {
  int h = static_cast<int>(std::sqrt(pixels));
  while (h > 1 && pixels % h != 0) --h;
  return {elem, n, h, h > 0 ? pixels / h : 0};
}

Conv2dParams pointwise_layer(const LayerImages& images, int c_in, int c_out) {
  Conv2dParams params;
  params.elem = images.elem;
  params.n = images.n;
  params.h = params.out_h = images.h;
  params.w = params.out_w = images.w;
  params.c_in = c_in;
  params.c_out = c_out;
  params.bias = true;
  return params;
}

bool is_pointwise(const Conv2dParams& p) {
  return p.input == Conv2dParams::Input::NhwcElem && p.kernel_h == 1 && p.kernel_w == 1 && p.stride_h == 1 &&
         p.stride_w == 1 && p.pad_top == 0 && p.pad_left == 0 && p.out_h == p.h && p.out_w == p.w && p.groups == 1 &&
         !p.max_pool && p.second.c_in == 0;
}

GemmParams product_of(const Conv2dParams& pointwise) {
  GemmParams params;
  params.elem = params.output = pointwise.elem;
  params.m = pointwise.n * pointwise.out_h * pointwise.out_w;
  params.n = pointwise.c_out;
  params.k = pointwise.c_in;
  params.bias = pointwise.bias;
  params.residual = pointwise.residual;
  params.activation = pointwise.activation;
  return params;
}

}  // namespace mobicuda
