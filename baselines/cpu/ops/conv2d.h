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

/// Whether Conv2d multiplies each pixel by one matrix.
inline bool is_pointwise(const Conv2d& op, const Shape& weight_shape) {
  return op.groups == 1 && weight_shape[2] == 1 && weight_shape[3] == 1 && op.strides[0] == 1 && op.strides[1] == 1 &&
         !op.pads.any();
}

/// The windows of a convolution as runs of values that lie side by side in x: pixels, or whole rows of a window where
/// pixels are so short that a run for each would cost more than it computes. NHWC.
struct WindowGeometry {
  std::int64_t h = 0, w = 0, c = 0;
  std::int64_t out_h = 0, out_w = 0;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t pad_top = 0, pad_left = 0;
  std::int64_t run_taps = 1;  ///< of a run: 1, or kernel_w where dilation_w is 1

  std::int64_t runs() const noexcept { return kernel_h * kernel_w / run_taps; }
  std::int64_t run_elements() const noexcept { return run_taps * c; }  ///< of all groups
  /// Floats that window_runs() needs for `rows` outputs beside the pointers.
  std::int64_t scratch_elements(std::int64_t rows) const noexcept {
    return run_taps == 1 ? c : rows * runs() * run_elements();
  }
};

/// x_runs[run * (last - first) + i]: where run (ky, or ky and kx) of output pixel first + i begins, counted through all
/// images of x. What lies outside the image is zero: `scratch`, scratch_elements(last - first) floats, has it.
void window_runs(const WindowGeometry& geometry, const float* x, Range outputs, float* scratch, const float** x_runs);

}  // namespace mobicuda::cpu
