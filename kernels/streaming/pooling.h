#pragma once

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

// NHWC windows. Max ignores padding; average divides by the pixels inside the image, or by the window's
// size within the padded image when count_include_pad.

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
