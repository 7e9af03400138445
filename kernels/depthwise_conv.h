#pragma once

#include <span>
#include <string_view>

#include "launch.h"

namespace mobicuda::kernels {

// y[n, oy, ox, c] = clip(bias[c] + sum_{ky, kx} x[n, oy * stride_h + ky * dilation_h - pad_top,
//                                                ox * stride_w + kx * dilation_w - pad_left, c] * w[ky, kx, c])
// NHWC; pixels outside the image count as zero.

enum class DepthwiseConvVariant : std::uint8_t;

struct DepthwiseConvParams {
  Elem elem = Elem::F32;  ///< of x, the packed w and y
  int n = 0, h = 0, w = 0, c = 0;
  int out_h = 0, out_w = 0;
  int kernel_h = 3, kernel_w = 3;
  int stride_h = 1, stride_w = 1;
  int dilation_h = 1, dilation_w = 1;
  int pad_top = 0, pad_left = 0;  ///< bottom and right padding follow from out_h and out_w
  bool bias = false;
  Clip clip{};
};

std::span<const DepthwiseConvVariant> depthwise_conv_variants();
std::string_view name(DepthwiseConvVariant variant);
bool supports(DepthwiseConvVariant variant, const DepthwiseConvParams& params, int compute_capability);

std::size_t depthwise_conv_packed_bytes(Elem elem, int c, int kernel_h, int kernel_w);
/// `weight` is (c, 1, kernel_h, kernel_w); packed is (kernel_h, kernel_w, c). Host-only.
void depthwise_conv_pack(Elem elem, int c, int kernel_h, int kernel_w, const float* weight, void* packed);

cudaError_t depthwise_conv(DepthwiseConvVariant variant, const DepthwiseConvParams& params, const void* x,
                           const void* packed, const float* bias, void* y, const Launch& where);

}  // namespace mobicuda::kernels
