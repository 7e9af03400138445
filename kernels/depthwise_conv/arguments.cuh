#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/common/conv_items.cuh"

namespace mobicuda::kernels::depthwise {

/// Channels that tiles and rings copy at once: theirs are a multiple of it.
inline constexpr int kCopiedChannels = 8;

struct Arguments {
  ItemGrid grid;
  int h, w, c, out_h, out_w;
  int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  Activation activation;
};

}  // namespace mobicuda::kernels::depthwise
