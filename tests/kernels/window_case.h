// What the tests of conv2d and depthwise_conv share.
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/common/launch.h"
#include "support/conv_oracle.h"

namespace mobicuda::test::window_case {

using kernels::Clip;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr Clip kNone{-kInfinity, kInfinity};
inline constexpr Clip kRelu{0.0F, kInfinity};
inline constexpr Clip kRelu6{0.0F, 6.0F};
inline constexpr Clip kClips[] = {kNone, kRelu, kRelu6};
inline constexpr std::size_t kSampledPixels = 2048;
inline constexpr std::size_t kAlarmElements = 4096;  // of a result large enough for the whole-tensor alarm

inline std::size_t count_of(int n, int h, int w, int c) {
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(h) * static_cast<std::size_t>(w) *
         static_cast<std::size_t>(c);
}

/// The oracle of a window; channels and groups are the caller's to fill in.
template <class Params>
OracleConv oracle_of_window(const Params& p) {
  OracleConv o;
  o.n = p.n;
  o.h = p.h;
  o.w = p.w;
  o.out_h = p.out_h;
  o.out_w = p.out_w;
  o.kernel_h = p.kernel_h;
  o.kernel_w = p.kernel_w;
  o.stride_h = p.stride_h;
  o.stride_w = p.stride_w;
  o.dilation_h = p.dilation_h;
  o.dilation_w = p.dilation_w;
  o.pad_top = p.pad_top;
  o.pad_left = p.pad_left;
  o.clip = {static_cast<double>(p.activation.lo), static_cast<double>(p.activation.hi)};
  return o;
}

}  // namespace mobicuda::test::window_case
