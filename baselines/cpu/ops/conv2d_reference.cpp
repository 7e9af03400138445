#include "baselines/cpu/ops/conv2d.h"

#include "baselines/cpu/ops/elementwise.h"

namespace mobicuda::cpu {

void conv2d_reference(const Conv2d& op, const TensorDesc& x_desc, const Shape& weight_shape, const TensorDesc& y_desc,
                      const double* x, const float* weight, const float* bias, const double* residual, double* y,
                      Range rows) {
  const Strides xs = strides_of(x_desc);
  const Strides ys = strides_of(y_desc);
  const std::int64_t h = x_desc.shape[2];
  const std::int64_t w = x_desc.shape[3];
  const std::int64_t group_inputs = weight_shape[1];
  const std::int64_t kernel_h = weight_shape[2];
  const std::int64_t kernel_w = weight_shape[3];
  const std::int64_t group_outputs = weight_shape[0] / op.groups;
  const std::int64_t out_h = y_desc.shape[2];
  const std::int64_t out_w = y_desc.shape[3];

  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t n = row / out_h;
    const std::int64_t oy = row % out_h;
    for (std::int64_t ox = 0; ox < out_w; ++ox) {
      for (std::int64_t o = 0; o < weight_shape[0]; ++o) {
        const std::int64_t first_channel = o / group_outputs * group_inputs;
        double sum = bias != nullptr ? static_cast<double>(bias[o]) : 0.0;
        for (std::int64_t ky = 0; ky < kernel_h; ++ky) {
          const std::int64_t iy = oy * op.strides[0] + ky * op.dilations[0] - op.pads.top;
          if (iy < 0 || iy >= h) continue;
          for (std::int64_t kx = 0; kx < kernel_w; ++kx) {
            const std::int64_t ix = ox * op.strides[1] + kx * op.dilations[1] - op.pads.left;
            if (ix < 0 || ix >= w) continue;
            const double* pixel = x + n * xs[0] + first_channel * xs[1] + iy * xs[2] + ix * xs[3];
            const float* tap = weight + ((o * group_inputs) * kernel_h + ky) * kernel_w + kx;
            for (std::int64_t i = 0; i < group_inputs; ++i) {
              sum += pixel[i * xs[1]] * static_cast<double>(tap[i * kernel_h * kernel_w]);
            }
          }
        }
        const std::int64_t at = n * ys[0] + o * ys[1] + oy * ys[2] + ox * ys[3];
        if (residual != nullptr) sum += residual[at];
        y[at] = activate(sum, op.activation);
      }
    }
  }
}

}  // namespace mobicuda::cpu
