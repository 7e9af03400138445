// Numbers to bytes, bytes to numbers, and bytes of one quantisation to those of another. Bytes are NHWC with a pitch, a
// multiple of 4 bytes a pixel; what lies behind the last channel is written as the zero point. Numbers are float, NCHW
// or NHWC.
//
// Quantize: the range of rint(x / scale) + zero_point, a true division; NaN becomes the lowest, as in ONNX Runtime's
// vector code. Dequantize: scale * (q - zero_point), one rounding. Requantize: the range of rint(scale * (q - x_zero))
// + zero_point, where `scale` is the input's over the output's. Bits are those of an oracle on the CPU, in every case.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"
#include "kernels/common/quantization.h"

namespace mobicuda::kernels {

struct QuantizeParams {
  bool nchw = false;  ///< of x
  int n = 0, pixels = 0, c = 0;
  int y_pitch = 0;
  float scale = 1.0F;
  ByteRange result{};
};

struct DequantizeParams {
  bool nchw = false;  ///< of y
  int n = 0, pixels = 0, c = 0;
  int x_pitch = 0;
  float scale = 1.0F;
  int zero_point = 0;
};

struct RequantizeParams {
  int n = 0, pixels = 0, c = 0;
  int x_pitch = 0, y_pitch = 0;
  float scale = 1.0F;
  int x_zero = 0;
  ByteRange result{};
};

/// Bytes 4-byte aligned. cudaErrorInvalidValue for sizes below zero, for pitches that hold no pixel, for scales that
/// are not positive and finite, for zero points and ranges that are no bytes.
cudaError_t quantize(const QuantizeParams& params, const float* x, void* y, const Launch& where);
cudaError_t dequantize(const DequantizeParams& params, const void* x, float* y, const Launch& where);
cudaError_t requantize(const RequantizeParams& params, const void* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
