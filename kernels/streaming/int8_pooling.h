// Windows over bytes, NHWC with a pitch (a multiple of 4 bytes a pixel that holds c): the largest byte, or the average.
// Average: the sum of q - x_zero over the window's pixels inside the image, exact in int32; times
// x_scale / (y_scale * count), product and division rounded to float, and from there as a ByteRange has it. `count` is
// that of the pixels inside, or of the whole window with `count_padding`. Bits are those of an oracle on the CPU.
// A window that covers the map is a global average; its pixels are spread over a block then. What lies behind the last
// channel is computed as well.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"
#include "kernels/common/quantization.h"

namespace mobicuda::kernels {

struct Int8PoolingParams {
  bool is_max = false;
  int n = 0, h = 0, w = 0, c = 0;
  int out_h = 0, out_w = 0;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int pad_top = 0, pad_left = 0;
  int x_pitch = 0, y_pitch = 0;
  bool count_padding = false;
  float x_scale = 1.0F, y_scale = 1.0F;  ///< of an average
  int x_zero = 0;
  ByteRange result{};
};

/// Every window has a pixel inside the image. cudaErrorInvalidValue for other shapes, for windows whose sums could
/// leave int32 and for a quantisation that is none.
cudaError_t int8_pooling(const Int8PoolingParams& params, const void* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
