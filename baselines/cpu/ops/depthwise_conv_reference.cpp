#include <algorithm>

#include "baselines/cpu/ops/depthwise_conv.h"
#include "baselines/cpu/ops/elementwise.h"

namespace mobicuda::cpu {
namespace {

// The taps k of a window at output position `o` that lie within 0..extent: o * stride + k * dilation - pad.
Range taps_inside(std::int64_t o, std::int64_t stride, std::int64_t dilation, std::int64_t pad, std::int64_t extent,
                  std::int64_t kernel) {
  const std::int64_t start = o * stride - pad;
  const std::int64_t first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
  const std::int64_t last = extent <= start ? 0 : (extent - start + dilation - 1) / dilation;
  return {std::min(first, kernel), std::clamp(last, std::min(first, kernel), kernel)};
}

}  // namespace

void depthwise_conv_reference(const Conv2d& op, const TensorDesc& x_desc, const Shape& weight_shape,
                              const TensorDesc& y_desc, const double* x, const float* weight, const float* bias,
                              const double* residual, double* y, Range rows) {
  const Strides xs = strides_of(x_desc);
  const Strides ys = strides_of(y_desc);
  const std::int64_t kernel_w = weight_shape[3];
  const std::int64_t out_h = y_desc.shape[2];
  const std::int64_t out_w = y_desc.shape[3];
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t n = row / out_h;
    const std::int64_t oy = row % out_h;
    const Range ky_range =
        taps_inside(oy, op.strides[0], op.dilations[0], op.pads.top, x_desc.shape[2], weight_shape[2]);
    for (std::int64_t ox = 0; ox < out_w; ++ox) {
      const Range kx_range = taps_inside(ox, op.strides[1], op.dilations[1], op.pads.left, x_desc.shape[3], kernel_w);
      for (std::int64_t c = 0; c < y_desc.shape[1]; ++c) {
        const double* plane = x + n * xs[0] + c * xs[1];
        const float* filter = weight + c * weight_shape[2] * kernel_w;
        double sum = 0.0;
        for (std::int64_t ky = ky_range.first; ky < ky_range.last; ++ky) {
          const std::int64_t iy = oy * op.strides[0] - op.pads.top + ky * op.dilations[0];
          for (std::int64_t kx = kx_range.first; kx < kx_range.last; ++kx) {
            const std::int64_t ix = ox * op.strides[1] - op.pads.left + kx * op.dilations[1];
            sum += static_cast<double>(filter[ky * kernel_w + kx]) * plane[iy * xs[2] + ix * xs[3]];
          }
        }
        if (bias != nullptr) sum += static_cast<double>(bias[c]);
        const std::int64_t at = n * ys[0] + c * ys[1] + oy * ys[2] + ox * ys[3];
        if (residual != nullptr) sum += residual[at];
        y[at] = activate(sum, op.activation);
      }
    }
  }
}

}  // namespace mobicuda::cpu
