#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/common/conv_items.cuh"

namespace mobicuda::kernels::convolution {

struct Arguments {
  ItemGrid grid;
  int h, w, c_in, c_out, out_h, out_w;
  int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int group_in, group_out;  ///< channels of a group
  int weight_pitch;         ///< c_out as packed
  int x_pixel, x_channel;   ///< elements from a pixel to the next in its row, and from a channel to the next
  Activation activation;
  float scale[4], shift[4];  ///< of x in bytes

  __device__ std::size_t x_picture() const { return static_cast<std::size_t>(h) * w * c_in; }
};

}  // namespace mobicuda::kernels::convolution
