// The oracle of several convolutions in a row: of kernels that compute them in one launch.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <cuda_fp16.h>

#include "kernels/window_case.h"
#include "support/activation.h"
#include "support/conv_oracle.h"
#include "support/oracle.h"
#include "support/tolerance.h"

namespace mobicuda::test::chained {

using window_case::count_of;

inline double to_half(double value) {
  return static_cast<double>(__half2float(__float2half_rn(static_cast<float>(value))));
}

/// A tensor in fp64, NHWC, how far a correct kernel's may lie from it, and, for half, what exact arithmetic gives when
/// every tensor is rounded to it.
struct Tensor {
  explicit Tensor(std::size_t count) : value(count), bound(count), rounded(count) {}

  std::vector<double> value, bound, rounded;
};

inline Tensor exact(const std::vector<float>& x) {
  Tensor tensor(x.size());
  tensor.value.assign(x.begin(), x.end());
  tensor.rounded = tensor.value;
  return tensor;
}

/// One of the convolutions with its activation, whatever p.clip is; errors of the input pass with |weight|, and with
/// the activation's slope.
inline Tensor convolve(const OracleConv& p, const kernels::Activation& activation, Store store, double gamma,
                       const Tensor& x, const std::vector<float>& weight, const std::vector<float>& bias,
                       const Tensor* residual = nullptr) {
  const auto pixels = count_of(p.n, p.out_h, p.out_w, 1);
  const auto c_out = static_cast<std::size_t>(p.c_out);
  const int group_in = p.c_in / p.groups;
  Tensor y(pixels * c_out);
  parallel_for(pixels, [&](std::size_t pixel) {
    const int ox = static_cast<int>(pixel % static_cast<std::size_t>(p.out_w));
    const int oy = static_cast<int>(pixel / static_cast<std::size_t>(p.out_w) % static_cast<std::size_t>(p.out_h));
    const int n = static_cast<int>(pixel / count_of(1, p.out_h, p.out_w, 1));
    for (int co = 0; co < p.c_out; ++co) {
      const std::size_t at = pixel * c_out + static_cast<std::size_t>(co);
      double value = bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<std::size_t>(co)]);
      double rounded_value = value;
      double magnitude = std::abs(value);
      double carried = 0.0;
      const auto add = [&](const Tensor& t, std::size_t i, double factor) {
        value += factor * t.value[i];
        rounded_value += factor * t.rounded[i];
        magnitude += std::abs(factor) * (std::abs(t.value[i]) + t.bound[i]);
        carried += std::abs(factor) * t.bound[i];
      };
      for (int ky = 0; ky < p.kernel_h; ++ky) {
        for (int kx = 0; kx < p.kernel_w; ++kx) {
          const int iy = oy * p.stride_h + ky - p.pad_top;
          const int ix = ox * p.stride_w + kx - p.pad_left;
          if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
          for (int ci = 0; ci < group_in; ++ci) {
            const std::size_t source = count_of(1, n * p.h + iy, p.w, p.c_in) + count_of(1, 1, ix, p.c_in) +
                                       static_cast<std::size_t>(p.groups == 1 ? ci : co);
            const std::size_t factor = count_of(1, co, group_in, p.kernel_h * p.kernel_w) +
                                       static_cast<std::size_t>((ci * p.kernel_h + ky) * p.kernel_w + kx);
            add(x, source, static_cast<double>(weight[factor]));
          }
        }
      }
      if (residual != nullptr) add(*residual, at, 1.0);
      y.value[at] = activate(activation, value);
      y.rounded[at] = to_half(activate(activation, rounded_value));
      y.bound[at] = activated_bound(activation, value, carried + gamma * magnitude, store);
    }
  });
  return y;
}

}  // namespace mobicuda::test::chained
