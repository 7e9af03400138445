#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"
#include "kernels/common/quantization.h"

namespace mobicuda::kernels {

// acc[n, oy, ox, c] = bias[c] + sum_{ky, kx} (x[n, oy * stride_h + ky * dilation_h - pad_top,
//                                               ox * stride_w + kx * dilation_w - pad_left, c] - x_zero) * w[c, ky, kx]
// exactly, in int32; pixels outside the image count as x_zero. y = result of float(acc) * multiplier[c]. NHWC, int8.

/// Direct runs everything. StripRxQ: R rows x Q columns of output of four channels a thread, windows of 3x3 or 5x5
/// (Window5), dilation 1, stride 1 or 2.
enum class Int8DepthwiseConvVariant : std::uint8_t {
  Direct,
  Strip1x2,
  Strip2x2,
  Strip4x2,
  Strip7x2,
  Window5Strip1x2,
  Window5Strip2x2,
  Window5Strip4x2,
};

struct Int8DepthwiseConvParams {
  int n = 0, h = 0, w = 0, c = 0;
  int out_h = 0, out_w = 0;
  int kernel_h = 3, kernel_w = 3;
  int stride_h = 1, stride_w = 1;
  int dilation_h = 1, dilation_w = 1;
  int pad_top = 0, pad_left = 0;  ///< bottom and right padding follow from out_h and out_w
  /// Bytes from a pixel to the next, a multiple of 16 that holds c. 0: c, rounded up to 16.
  int x_pitch = 0;
  int y_pitch = 0;
  int x_zero = 0;
  ByteRange result{};
};

std::span<const Int8DepthwiseConvVariant> int8_depthwise_conv_variants();
std::string_view name(Int8DepthwiseConvVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there. Host-only.
bool supports(Int8DepthwiseConvVariant variant, const Int8DepthwiseConvParams& params, const DeviceTraits& gpu);

/// Rows x columns of output that a thread computes.
struct Int8DepthwiseConvTile {
  int rows = 1;
  int columns = 1;
};
Int8DepthwiseConvTile tile(Int8DepthwiseConvVariant variant);

/// (kernel_h, ceil(kernel_w / 4), c rounded up to 16, 4): of each channel four taps of a row together, zeros behind.
std::size_t int8_depthwise_conv_packed_bytes(const Int8DepthwiseConvParams& params);
/// Elements of the packed bias and multiplier: c, rounded up to 16.
std::size_t int8_depthwise_conv_packed_channels(const Int8DepthwiseConvParams& params);
/// `weight` is (c, 1, kernel_h, kernel_w). `bias` (c) may be null. As int8_conv2d_pack(). Host-only.
void int8_depthwise_conv_pack(const Int8DepthwiseConvParams& params, const std::int8_t* weight,
                              const std::int32_t* bias, const float* multiplier, std::int8_t* packed,
                              std::int32_t* packed_bias, float* packed_multiplier);

struct Int8DepthwiseConvWeights {
  const void* packed;
  const std::int32_t* bias;
  const float* multiplier;
};

/// Pointers 16-byte aligned; y overlaps no input. The bytes of y behind the last channel are written as well, up to a
/// multiple of 16. Every variant gives the same bits. Returns cudaErrorInvalidValue where !supports(). n == 0 is legal
/// and does nothing.
cudaError_t int8_depthwise_conv(Int8DepthwiseConvVariant variant, const Int8DepthwiseConvParams& params, const void* x,
                                const Int8DepthwiseConvWeights& weights, void* y, const Launch& where);

/// All that a planner asks of it. Weights: packed, bias, multiplier.
const KernelTable<Int8DepthwiseConvParams, Int8DepthwiseConvVariant>& kernel_of(const Int8DepthwiseConvParams&);

}  // namespace mobicuda::kernels
