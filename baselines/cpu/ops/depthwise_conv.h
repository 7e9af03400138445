#pragma once

#include <cstdint>

#include <mobicuda/graph.h>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

/// The definition of a depthwise Conv2d (groups == I == O), in double precision, for the output rows n * out_h + oy
/// in `rows`: one filter for each channel. Written apart from conv2d_reference(), so that each checks the other.
/// weight (C, 1, kh, kw); bias and residual may be null.
void depthwise_conv_reference(const Conv2d& op, const TensorDesc& x_desc, const Shape& weight_shape,
                              const TensorDesc& y_desc, const double* x, const float* weight, const float* bias,
                              const double* residual, double* y, Range rows);

/// Whether Conv2d is depthwise: every channel has a filter of its own.
inline bool is_depthwise(const Conv2d& op, const Shape& x_shape, const Shape& weight_shape) {
  return op.groups == x_shape[1] && op.groups == weight_shape[0];
}

/// Whether fp32 computes it as a depthwise convolution of an image that has each channel as many times as the channel
/// has filters: few, so that the loops of groups would leave most of a register unused.
inline bool repeats_channels(const Conv2d& op, const Shape& x_shape, const Shape& weight_shape) {
  constexpr std::int64_t kFewestGroups = 8;
  constexpr std::int64_t kMostFilters = 4;
  return op.groups == x_shape[1] && op.groups >= kFewestGroups && weight_shape[0] > op.groups &&
         weight_shape[0] <= kMostFilters * op.groups;
}

/// (C, 1, kh, kw) -> (kh, kw, C).
void depthwise_conv_pack(const Shape& weight_shape, const float* weight, float* packed);

}  // namespace mobicuda::cpu
