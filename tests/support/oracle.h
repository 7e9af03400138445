#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <thread>
#include <vector>

namespace mobicuda::test {

/// What a kernel must compute, in fp64 from the inputs as stored, and what its rounding errors scale with.
struct Oracle {
  std::vector<double> value;
  std::vector<double> magnitude;  ///< sum |a||b| + |bias| + |residual|, for tolerance.h
  std::int64_t products = 1;      ///< K of the longest sum
};

/// min(max(x, lo), hi) where NaN propagates.
struct OracleClip {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();

  double operator()(double x) const {
    const double raised = x < lo ? lo : x;
    return raised > hi ? hi : raised;
  }
};

/// Calls body(i) for i in [0, count) on all cores; the calls must not touch each other's results.
inline void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t workers = std::min(count, cores);
  std::vector<std::jthread> threads;
  threads.reserve(workers);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&body, worker, workers, count] {
      for (std::size_t i = worker; i < count; i += workers) body(i);
    });
  }
}

/// Convolution of an NHWC x with an (c_out, c_in / groups, kernel_h, kernel_w) weight; pixels outside the
/// image are zero. Depthwise: groups = c_in = c_out.
struct OracleConv {
  int n = 1, h = 1, w = 1, c_in = 1, c_out = 1;
  int out_h = 1, out_w = 1;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int dilation_h = 1, dilation_w = 1;
  int pad_top = 0, pad_left = 0;
  int groups = 1;
  OracleClip clip{};
};

namespace detail {

/// All channels of one output pixel.
inline void conv2d_pixel(const OracleConv& p, std::span<const float> x, std::span<const float> weight,
                         std::size_t pixel, std::span<double> value, std::span<double> magnitude) {
  const int ox = static_cast<int>(pixel % static_cast<std::size_t>(p.out_w));
  const int oy = static_cast<int>(pixel / static_cast<std::size_t>(p.out_w) % static_cast<std::size_t>(p.out_h));
  const std::size_t n = pixel / (static_cast<std::size_t>(p.out_w) * static_cast<std::size_t>(p.out_h));
  const int group_in = p.c_in / p.groups;
  const int group_out = p.c_out / p.groups;
  const auto taps = static_cast<std::size_t>(p.kernel_h * p.kernel_w);
  for (int ky = 0; ky < p.kernel_h; ++ky) {
    for (int kx = 0; kx < p.kernel_w; ++kx) {
      const int iy = oy * p.stride_h + ky * p.dilation_h - p.pad_top;
      const int ix = ox * p.stride_w + kx * p.dilation_w - p.pad_left;
      if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
      const std::size_t source =
          ((n * static_cast<std::size_t>(p.h) + static_cast<std::size_t>(iy)) * static_cast<std::size_t>(p.w) +
           static_cast<std::size_t>(ix)) *
          static_cast<std::size_t>(p.c_in);
      const auto tap = static_cast<std::size_t>(ky * p.kernel_w + kx);
      for (int co = 0; co < p.c_out; ++co) {
        const float* in = x.data() + source + static_cast<std::size_t>(co / group_out * group_in);
        const float* factor = weight.data() + static_cast<std::size_t>(co) * static_cast<std::size_t>(group_in) * taps;
        double sum = 0.0;
        double absolute = 0.0;
        for (std::size_t ci = 0; ci < static_cast<std::size_t>(group_in); ++ci) {
          const double product = static_cast<double>(in[ci]) * static_cast<double>(factor[ci * taps + tap]);
          sum += product;
          absolute += std::abs(product);
        }
        value[static_cast<std::size_t>(co)] += sum;
        magnitude[static_cast<std::size_t>(co)] += absolute;
      }
    }
  }
}

}  // namespace detail

/// y = clip(conv(x, weight) + bias + residual), NHWC. An empty bias or residual is none.
inline Oracle conv2d(const OracleConv& p, std::span<const float> x, std::span<const float> weight,
                     std::span<const float> bias = {}, std::span<const float> residual = {}) {
  const auto pixels =
      static_cast<std::size_t>(p.n) * static_cast<std::size_t>(p.out_h) * static_cast<std::size_t>(p.out_w);
  const auto c_out = static_cast<std::size_t>(p.c_out);
  Oracle oracle;
  oracle.products = static_cast<std::int64_t>(p.kernel_h) * p.kernel_w * (p.c_in / p.groups);
  oracle.value.resize(pixels * c_out);
  oracle.magnitude.resize(pixels * c_out);
  parallel_for(pixels, [&](std::size_t pixel) {
    const std::span<double> value(oracle.value.data() + pixel * c_out, c_out);
    const std::span<double> magnitude(oracle.magnitude.data() + pixel * c_out, c_out);
    detail::conv2d_pixel(p, x, weight, pixel, value, magnitude);
    for (std::size_t co = 0; co < c_out; ++co) {
      const double offset = bias.empty() ? 0.0 : static_cast<double>(bias[co]);
      const double skip = residual.empty() ? 0.0 : static_cast<double>(residual[pixel * c_out + co]);
      value[co] = p.clip(value[co] + offset + skip);
      magnitude[co] += std::abs(offset) + std::abs(skip);
    }
  });
  return oracle;
}

/// y[m, n] = clip(sum_k x[m, k] * weight[n, k] + bias[n] + residual[m, n]).
inline Oracle gemm(int m, int n, int k, OracleClip clip, std::span<const float> x, std::span<const float> weight,
                   std::span<const float> bias = {}, std::span<const float> residual = {}) {
  OracleConv p;
  p.n = m;
  p.c_in = k;
  p.c_out = n;
  p.clip = clip;
  return conv2d(p, x, weight, bias, residual);
}

}  // namespace mobicuda::test
