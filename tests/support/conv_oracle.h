#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "support/oracle.h"

namespace mobicuda::test {

// What the tests of the convolution kernels share: the oracle at a sample of pixels, and choices for random shapes.

/// The output pixels to check: all where there are at most `limit`, else the corners of the first and the last picture
/// and random ones.
inline std::vector<std::size_t> sample_pixels(const OracleConv& p, std::uint32_t seed, std::size_t limit) {
  const auto row = static_cast<std::size_t>(p.out_w);
  const std::size_t picture = static_cast<std::size_t>(p.out_h) * row;
  const std::size_t all = static_cast<std::size_t>(p.n) * picture;
  std::vector<std::size_t> pixels;
  if (all <= limit) {
    for (std::size_t pixel = 0; pixel < all; ++pixel) pixels.push_back(pixel);
    return pixels;
  }
  for (const std::size_t first : {std::size_t{0}, all - picture}) {
    for (const std::size_t corner : {std::size_t{0}, row - 1, picture - row, picture - 1}) {
      pixels.push_back(first + corner);
    }
  }
  std::mt19937 engine(seed);
  while (pixels.size() < limit) pixels.push_back(engine() % all);
  return pixels;
}

/// conv2d() of oracle.h at `pixels` only: value and magnitude are (pixel, c_out).
inline Oracle conv2d_at(const OracleConv& p, std::span<const std::size_t> pixels, std::span<const float> x,
                        std::span<const float> weight, std::span<const float> bias, std::span<const float> residual) {
  const auto c_out = static_cast<std::size_t>(p.c_out);
  Oracle oracle;
  oracle.products = static_cast<std::int64_t>(p.kernel_h) * p.kernel_w * (p.c_in / p.groups);
  oracle.value.resize(pixels.size() * c_out);
  oracle.magnitude.resize(pixels.size() * c_out);
  parallel_for(pixels.size(), [&](std::size_t i) {
    const std::span<double> value(oracle.value.data() + i * c_out, c_out);
    const std::span<double> magnitude(oracle.magnitude.data() + i * c_out, c_out);
    detail::conv2d_pixel(p, x, weight, pixels[i], value, magnitude);
    for (std::size_t co = 0; co < c_out; ++co) {
      const double offset = bias.empty() ? 0.0 : static_cast<double>(bias[co]);
      const double skip = residual.empty() ? 0.0 : static_cast<double>(residual[pixels[i] * c_out + co]);
      value[co] = p.clip(value[co] + offset + skip);
      magnitude[co] += std::abs(offset) + std::abs(skip);
    }
  });
  return oracle;
}

/// The results at `pixels`, (pixel, c_out).
inline std::vector<float> gather(std::span<const float> y, std::span<const std::size_t> pixels, int c_out) {
  const auto channels = static_cast<std::size_t>(c_out);
  std::vector<float> values;
  values.reserve(pixels.size() * channels);
  for (const std::size_t pixel : pixels) {
    const std::span<const float> all = y.subspan(pixel * channels, channels);
    values.insert(values.end(), all.begin(), all.end());
  }
  return values;
}

/// Picks from lists of boundary values; the same seed gives the same shapes everywhere.
class Choice {
 public:
  explicit Choice(std::uint32_t seed) : engine_(seed) {}
  int operator()(std::span<const int> values) { return values[engine_() % values.size()]; }
  int upto(int last) { return static_cast<int>(engine_() % static_cast<std::uint32_t>(last + 1)); }
  bool flip() { return upto(1) == 1; }

 private:
  std::mt19937 engine_;
};

inline constexpr int kChannelGrid[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 144, 960, 1280};
inline constexpr int kSizeGrid[] = {1, 2, 3, 5, 7, 8, 13, 14, 15, 28, 56, 112, 113};
inline constexpr int kBatchGrid[] = {0, 1, 2, 3, 7, 8, 32, 33};
inline constexpr int kKernelGrid[] = {1, 2, 3, 5, 7};

/// Output extent of a window over `size` pixels with `before` and `after` pixels of padding; 0 where none fits.
constexpr int output_extent(int size, int kernel, int stride, int dilation, int before, int after) {
  const int free = size + before + after - ((kernel - 1) * dilation + 1);
  return free < 0 ? 0 : free / stride + 1;
}

}  // namespace mobicuda::test
