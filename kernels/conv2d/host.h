#pragma once

#include <algorithm>
#include <iterator>

#include "kernels/conv2d/arguments.cuh"
#include "kernels/conv2d/conv2d.h"

namespace mobicuda::kernels::convolution {

// Host side that the families of conv2d share.

inline constexpr int kOutMultiple = 8;  ///< of the packed weights' rows, so that they can be read 16 bytes at a time

inline Arguments arguments(const Conv2dParams& p) {
  const bool planar = p.input == Conv2dParams::Input::NchwFloat;
  Arguments a{};
  a.h = p.h;
  a.w = p.w;
  a.c_in = p.c_in;
  a.c_out = p.c_out;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.kernel_h = p.kernel_h;
  a.kernel_w = p.kernel_w;
  a.stride_h = p.stride_h;
  a.stride_w = p.stride_w;
  a.dilation_h = p.dilation_h;
  a.dilation_w = p.dilation_w;
  a.pad_top = p.pad_top;
  a.pad_left = p.pad_left;
  a.group_in = p.c_in / p.groups;
  a.group_out = p.c_out / p.groups;
  a.weight_pitch = round_up(p.c_out, kOutMultiple);
  a.x_pixel = planar ? 1 : p.c_in;
  a.x_channel = planar ? p.h * p.w : 1;
  a.activation = p.activation;
  std::copy(std::begin(p.scale), std::end(p.scale), a.scale);
  std::copy(std::begin(p.shift), std::end(p.shift), a.shift);
  return a;
}

/// The chunk's first image of a tensor of T; null stays null.
template <class T>
const T* picture(const void* tensor, std::int64_t index, std::int64_t elements) {
  return tensor == nullptr ? nullptr : static_cast<const T*>(tensor) + index * elements;
}

}  // namespace mobicuda::kernels::convolution
