#pragma once

#include <cstdint>

#include <mobicuda/graph.h>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

/// The definition of Conv2d, in double precision: y = act(conv(x, w) + bias + residual) for the output rows
/// n * out_h + oy in `rows`. x, residual and y in any layout their descriptors say; weight (O, I / groups, kh, kw);
/// bias and residual may be null.
void conv2d_reference(const Conv2d& op, const TensorDesc& x_desc, const Shape& weight_shape, const TensorDesc& y_desc,
                      const double* x, const float* weight, const float* bias, const double* residual, double* y,
                      Range rows);

/// Geometry of a convolution whose input pixels are gathered into the rows of a matrix. NHWC.
struct PatchGeometry {
  std::int64_t h = 0, w = 0, c = 0;
  std::int64_t out_h = 0, out_w = 0;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t pad_top = 0, pad_left = 0;
  std::int64_t first_channel = 0, channels = 0;  ///< of one group

  std::int64_t patch_elements() const noexcept { return kernel_h * kernel_w * channels; }
};

/// Row i of `patches` becomes the (ky, kx, channel) values under output pixel rows.first + i, counted through all
/// images of x; zero outside the image.
void gather_patches(const PatchGeometry& geometry, const float* x, Range pixels, float* patches);

}  // namespace mobicuda::cpu
