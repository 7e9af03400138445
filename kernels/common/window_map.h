// Tensor maps by which the copy engine gathers the windows of a convolution from NHWC images (im2col), for kernels on
// wgmma. Elements have two bytes: halves, or pairs of bytes.
#pragma once

#include "kernels/common/driver_function.h"
#include "kernels/common/std.h"
#include "kernels/ptx/tensor_map.h"

namespace mobicuda::kernels {

/// Where the last window of a row and of a column begins, from the image's last pixel.
template <class Params>
std::int64_t last_window_x(const Params& p) {
  return std::int64_t{p.out_w - 1} * p.stride_w - p.pad_left - (p.w - 1);
}
template <class Params>
std::int64_t last_window_y(const Params& p) {
  return std::int64_t{p.out_h - 1} * p.stride_h - p.pad_top - (p.h - 1);
}

/// Whether a map holds the windows.
template <class Params>
bool fits_window_map(const Params& p) {
  constexpr int kMostBefore = 128;
  constexpr int kMostBehind = 127;
  constexpr int kMostStride = 8;
  constexpr int kMostTap = 255;
  const auto fits = [](std::int64_t last) { return last >= -kMostBefore && last <= kMostBehind; };
  return p.stride_h <= kMostStride && p.stride_w <= kMostStride && p.pad_top <= kMostBefore &&
         p.pad_left <= kMostBefore && fits(last_window_x(p)) && fits(last_window_y(p)) &&
         std::int64_t{p.kernel_h - 1} * p.dilation_h <= kMostTap &&
         std::int64_t{p.kernel_w - 1} * p.dilation_w <= kMostTap;
}

/// Elements of an image's pixel, and from one pixel to the next.
struct PixelElements {
  int channels, pitch;
};

/// `pixels` windows at a time, 64 elements of each, swizzled by 128 bytes; zeros outside of the image. False where
/// there is no driver for it.
template <class Params>
bool encode_windows(const Params& p, int images, PixelElements pixel, int pixels, const void* x, CUtensorMap& map) {
  constexpr cuuint64_t kElementBytes = 2;
  constexpr cuuint32_t kElements = 64;
  static const auto function = find_driver_function<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  if (function == nullptr) return false;
  const auto width = static_cast<cuuint64_t>(p.w);
  const auto height = static_cast<cuuint64_t>(p.h);
  const cuuint64_t pixel_bytes = static_cast<cuuint64_t>(pixel.pitch) * kElementBytes;
  const cuuint64_t extents[4] = {static_cast<cuuint64_t>(pixel.channels), width, height,
                                 static_cast<cuuint64_t>(images)};
  const cuuint64_t pitches[3] = {pixel_bytes, pixel_bytes * width, pixel_bytes * width * height};
  const int first_window[2] = {-p.pad_left, -p.pad_top};
  const int last_window[2] = {static_cast<int>(last_window_x(p)), static_cast<int>(last_window_y(p))};
  const cuuint32_t steps[4] = {1, static_cast<cuuint32_t>(p.stride_w), static_cast<cuuint32_t>(p.stride_h), 1};
  return function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, const_cast<void*>(x), extents, pitches, first_window,
                  last_window, kElements, static_cast<cuuint32_t>(pixels), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace mobicuda::kernels
