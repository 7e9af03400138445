#pragma once

#include <span>
#include <string_view>

#include "launch.h"

namespace mobicuda::kernels {

// General convolution, any kernel, stride, dilation, padding and group count; y is NHWC.
// y = clip(conv(x, w) + bias + residual)

enum class Conv2dVariant : std::uint8_t;

struct Conv2dParams {
  Elem elem = Elem::F32;  ///< of the packed w, the residual and y
  /// Layout and type of x: NHWC in elem, or the network's own input, NCHW or NHWC in float.
  enum class Input : std::uint8_t { NhwcElem, NchwFloat, NhwcFloat } input = Input::NhwcElem;
  int n = 0, h = 0, w = 0, c_in = 0, c_out = 0;
  int out_h = 0, out_w = 0;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int dilation_h = 1, dilation_w = 1;
  int pad_top = 0, pad_left = 0;
  int groups = 1;
  bool bias = false;
  bool residual = false;
  Clip clip{};
};

std::span<const Conv2dVariant> conv2d_variants();
std::string_view name(Conv2dVariant variant);
bool supports(Conv2dVariant variant, const Conv2dParams& params, int compute_capability);

std::size_t conv2d_packed_bytes(const Conv2dParams& params);
/// `weight` is (c_out, c_in / groups, kernel_h, kernel_w). The packing is the same for all variants. Host-only.
void conv2d_pack(const Conv2dParams& params, const float* weight, void* packed);

cudaError_t conv2d(Conv2dVariant variant, const Conv2dParams& params, const void* x, const void* packed,
                   const float* bias, const void* residual, void* y, const Launch& where);

}  // namespace mobicuda::kernels
