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

// acc[n, oy, ox, co] = bias[co] + sum_{ky, kx, ci} (x[n, oy * stride_h + ky * dilation_h - pad_top,
//                                                     ox * stride_w + kx * dilation_w - pad_left, ci] - x_zero)
//                                                  * w[co, ky, kx, ci]
// exactly, in int32; pixels outside the image count as x_zero. y = output of float(acc) * multiplier[co], a byte
// (ByteRange), with Output::Float that product itself, or with Output::Dequantized the number that the byte stands for,
// float(byte - result.zero_point) * y_scale. NHWC, int8. A product of matrices is a convolution of 1 x 1 pixels.

/// Mma: s8 tensor cores, sm_80+, one group; spelt rows (output pixels) x columns (output channels) x bytes of k, K2 and
/// K4: that many groups of warps share a tile's sums. Narrow: pointwise, up to 64 input channels. Gemv: few rows of a
/// pointwise convolution. Stem, StemTile: up to four input channels. Direct: everything, one output a thread. Wgmma:
/// tiles by warpgroups, sm_90 alone; bytes out, one group.
enum class Int8Conv2dVariant : std::uint8_t {
  Mma128x128x64,
  Mma128x64x64,
  Mma128x32x64,
  Mma256x16x32,
  Mma64x64x64,
  Mma64x32x64,
  Mma32x32x128K2,
  Mma16x32x256K4,
  Narrow,
  Gemv,
  Stem,
  StemTile,
  Direct,
  Wgmma128x64x128,
  Wgmma256x64x128,
  Wgmma128x128x128,
  Wgmma256x128x128,
  Wgmma128x256x128,
};

struct Int8Conv2dParams {
  enum class Output : std::uint8_t { Int8, Float, Dequantized };

  Output output = Output::Int8;
  int n = 0, h = 0, w = 0, c_in = 0, c_out = 0;
  int out_h = 0, out_w = 0;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int dilation_h = 1, dilation_w = 1;
  int pad_top = 0, pad_left = 0;  ///< bottom and right padding follow from out_h and out_w
  int groups = 1;
  /// Bytes from a pixel of x to the next: 4 for up to four channels, or a multiple of 16 that holds them. 0: c_in,
  /// rounded up to 16.
  int x_pitch = 0;
  int y_pitch = 0;  ///< of y and the residual, a multiple of 16; 0: c_out, rounded up to 16. Of floats: always c_out
  int x_zero = 0;
  ByteRange result{};    ///< of y, or of the bytes that the residual is added to
  float y_scale = 1.0F;  ///< of Output::Dequantized
  bool residual = false;
  ByteSum sum{};  ///< with a residual: y = sum(result, residual); its a_zero is result.zero_point
};

std::span<const Int8Conv2dVariant> int8_conv2d_variants();
std::string_view name(Int8Conv2dVariant variant);

/// What a variant cuts the output into; bk in bytes.
struct Int8Conv2dTile {
  int bm, bn, bk;
  int split_k;
  int threads;
};
Int8Conv2dTile int8_conv2d_tile(Int8Conv2dVariant variant);

/// Whether the variant runs these parameters on that GPU with the device code loaded there. Host-only.
bool supports(Int8Conv2dVariant variant, const Int8Conv2dParams& params, const DeviceTraits& gpu);

/// Weights of all variants: (c_out rounded up to 16, k) with k the taps and, fastest, the bytes of x's pixel (of
/// groups: a group's channels), rounded up to 16 (pixels of 4 bytes: 32); zeros where there is no channel.
std::size_t int8_conv2d_packed_bytes(const Int8Conv2dParams& params);
/// Elements of the packed multiplier: c_out, rounded up to 16.
std::size_t int8_conv2d_packed_channels(const Int8Conv2dParams& params);
/// Elements of the packed bias: as many, and behind them, where windows reach over the image's edge and x_zero is not
/// 0, as many for each set of taps inside of it (borders.h), for variants that read zeros outside.
std::size_t int8_conv2d_packed_biases(const Int8Conv2dParams& params);
/// `weight` is (c_out, c_in / groups, kernel_h, kernel_w). `bias` (c_out) may be null. x_zero times the weights goes
/// into the packed bias, modulo 2^32, so that kernels add products of bytes as they are. Host-only.
void int8_conv2d_pack(const Int8Conv2dParams& params, const std::int8_t* weight, const std::int32_t* bias,
                      const float* multiplier, std::int8_t* packed, std::int32_t* packed_bias,
                      float* packed_multiplier);

struct Int8Conv2dWeights {
  const void* packed;
  const std::int32_t* bias;
  const float* multiplier;
};

/// Pointers 16-byte aligned (packed: 256); y overlaps no input but the residual. The bytes of y behind the last channel
/// are written as well. Every variant gives the same bits. Returns cudaErrorInvalidValue where !supports(). n == 0 is
/// legal and does nothing.
cudaError_t int8_conv2d(Int8Conv2dVariant variant, const Int8Conv2dParams& params, const void* x,
                        const Int8Conv2dWeights& weights, const void* residual, void* y, const Launch& where);

/// All that a planner asks of it. Weights: packed, bias, multiplier.
const KernelTable<Int8Conv2dParams, Int8Conv2dVariant>& kernel_of(const Int8Conv2dParams&);

}  // namespace mobicuda::kernels
