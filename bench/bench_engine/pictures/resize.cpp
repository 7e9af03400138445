#include "bench_engine/pictures/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

namespace mobicuda::bench {
namespace {

// Weights are fixed-point: 8 bits of pixel, 2 bits of headroom, the rest for the fraction.
constexpr int kFractionBits = 32 - 8 - 2;

// The source pixels that one output pixel is made of.
struct Window {
  int first = 0;
  std::vector<std::int32_t> weights;
};

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

std::int32_t to_fixed(double weight) {
  return static_cast<std::int32_t>(weight * (1 << kFractionBits) + (weight < 0 ? -0.5 : 0.5));
}

std::vector<Window> make_windows(int from, int to) {
  const double scale = static_cast<double>(from) / to;
  const double support = std::max(scale, 1.0);
  std::vector<Window> windows(static_cast<std::size_t>(to));
  std::vector<double> weights;
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * scale;
    // NOLINTBEGIN(bugprone-incorrect-roundings): as Pillow rounds
    const int first = std::max(static_cast<int>(centre - support + 0.5), 0);
    const int last = std::min(static_cast<int>(centre + support + 0.5), from);
    // NOLINTEND(bugprone-incorrect-roundings)
    weights.clear();
    double sum = 0;
    for (int source = first; source < last; ++source) {
      weights.push_back(triangle((source - centre + 0.5) * (1.0 / support)));
      sum += weights.back();
    }
    Window& window = windows[static_cast<std::size_t>(i)];
    window.first = first;
    for (const double weight : weights) window.weights.push_back(to_fixed(sum != 0 ? weight / sum : weight));
  }
  return windows;
}

std::uint8_t to_byte(std::int32_t fixed) {
  return static_cast<std::uint8_t>(std::clamp(fixed >> kFractionBits, 0, 255));
}

// Weighted sum of the window's samples of one channel; `step` is the distance of neighbours in bytes.
std::uint8_t sample(const std::uint8_t* source, const Window& window, std::size_t step) {
  std::int32_t sum = 1 << (kFractionBits - 1);
  const std::uint8_t* at = source + static_cast<std::size_t>(window.first) * step;
  for (const std::int32_t weight : window.weights) {
    sum += *at * weight;
    at += step;
  }
  return to_byte(sum);
}

Picture empty_picture(int width, int height) {
  return {width, height,
          std::vector<std::uint8_t>(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * kChannels)};
}

Picture resize_rows(const Picture& source, int width) {
  Picture result = empty_picture(width, source.height);
  const std::vector<Window> windows = make_windows(source.width, width);
  const std::size_t source_row = static_cast<std::size_t>(source.width) * kChannels;
  auto out = result.rgb.begin();
  for (int y = 0; y < source.height; ++y) {
    const std::uint8_t* row = source.rgb.data() + static_cast<std::size_t>(y) * source_row;
    for (const Window& window : windows) {
      for (int c = 0; c < kChannels; ++c) *out++ = sample(row + c, window, kChannels);
    }
  }
  return result;
}

Picture resize_columns(const Picture& source, int height) {
  Picture result = empty_picture(source.width, height);
  const std::size_t row = static_cast<std::size_t>(source.width) * kChannels;
  auto out = result.rgb.begin();
  for (const Window& window : make_windows(source.height, height)) {
    for (std::size_t column = 0; column < row; ++column) *out++ = sample(source.rgb.data() + column, window, row);
  }
  return result;
}

}  // namespace

Picture resize(const Picture& source, int width, int height) {
  if (source.width == width) return source.height == height ? source : resize_columns(source, height);
  Picture rows = resize_rows(source, width);
  return source.height == height ? rows : resize_columns(rows, height);
}

Picture resize_short_side(const Picture& source, int size) {
  const bool portrait = source.width <= source.height;
  const int shorter = portrait ? source.width : source.height;
  const int longer = portrait ? source.height : source.width;
  if (shorter == size) return source;
  const int scaled = static_cast<int>(static_cast<std::int64_t>(size) * longer / shorter);
  return portrait ? resize(source, size, scaled) : resize(source, scaled, size);
}

Picture centre_crop(const Picture& source, int width, int height) {
  if (source.width < width || source.height < height) {
    throw std::invalid_argument("centre_crop: " + std::to_string(source.width) + "x" + std::to_string(source.height) +
                                " is smaller than " + std::to_string(width) + "x" + std::to_string(height));
  }
  const int left = (source.width - width) / 2;
  const int top = (source.height - height) / 2;
  Picture result = empty_picture(width, height);
  const std::size_t row = static_cast<std::size_t>(width) * kChannels;
  for (int y = 0; y < height; ++y) {
    const std::size_t from =
        (static_cast<std::size_t>(top + y) * static_cast<std::size_t>(source.width) + static_cast<std::size_t>(left)) *
        kChannels;
    std::copy_n(source.rgb.begin() + static_cast<std::ptrdiff_t>(from), row,
                result.rgb.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(y) * row));
  }
  return result;
}

}  // namespace mobicuda::bench
