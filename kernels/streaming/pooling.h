// pooling takes the maximum or the average of any window, global_average_pool the mean of a whole image
// (h * w <= 2^30). NHWC, float, half or double; sums in float, of double in double. Packets of 16 bytes where c is a
// multiple of the packet and the pointers are aligned, else one channel. Pixels of pooling's x and y may be channels of
// wider ones.
//
// Maximum ignores padding, and a NaN in the window gives NaN. Average divides by the pixels inside the image, or,
// with count_include_pad, by the part of the window inside the padded image (with ceil-mode extents a window may
// reach beyond it). With dilations a window's taps lie that many pixels apart. A window wholly in padding gives
// -infinity (maximum) or 0 (average).
//
// Error: maximum is exact; of zeros of both signs it may be either. Average over K pixels:
// |y - y*| <= gamma(K) * sum|x| / K plus the rounding to storage; see docs/numerics.md. A window's sum is that of its
// rows, and the order of global_average_pool's depends on h * w alone: the result for an image is the same, bit for
// bit, in any batch.
//
// Halves under windows of 3x3 with stride 1 or 2 and of 2x2 with stride 2, without dilations and in packets, are read
// once (streaming/README.md has the times).
//
// Tests (ctest -R "kernel_tests.*pool"): windows larger than the image, wholly in padding, asymmetric, with gaps;
// every channel count around the packet's; batch independence; NaN and infinities; strips against one channel a
// thread, bit for bit.
#pragma once

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

enum class PoolingKind : std::uint8_t { Max, Average };

struct PoolingParams {
  Elem elem = Elem::F32;
  PoolingKind kind = PoolingKind::Max;
  int n = 0, h = 0, w = 0, c = 0;
  int out_h = 0, out_w = 0;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  bool count_include_pad = false;
  int dilation_h = 1, dilation_w = 1;
  int x_pitch = 0, y_pitch = 0;  ///< elements from a pixel to the next; 0: c
};

cudaError_t pooling(const PoolingParams& params, const void* x, void* y, const Launch& where);

struct GlobalAveragePoolParams {
  Elem elem = Elem::F32;
  int n = 0, h = 0, w = 0, c = 0;
};

/// y[n, c] = mean over h and w, accumulated in float, F64 in double.
cudaError_t global_average_pool(const GlobalAveragePoolParams& params, const void* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
