#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/common/conv_items.cuh"

namespace mobicuda::kernels::depthwise {

struct Arguments {
  ItemGrid grid;
  int h, w, c, out_h, out_w;
  int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  Activation activation;
};

}  // namespace mobicuda::kernels::depthwise
