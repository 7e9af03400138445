#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <mobicuda/types.h>

#include "models/zoo/random.h"

namespace mobicuda::test {

/// Pictures first, first + 1, ... that differ as photographs do: in colour, contrast, and how fine and in which
/// direction their structure is. White noise would give networks the same features for all pictures. `shape` is that of
/// one picture, NCHW; mean 0 and variance about 1 over many pictures.
inline void random_photographs(std::int64_t first, const Shape& shape, std::span<float> pictures) {
  // Sizes of areas that share a value, from the whole picture to single pixels. Each picture has its own mixture.
  constexpr std::array<std::array<std::int64_t, 2>, 7> kAreas{
      {{1024, 1024}, {64, 64}, {1024, 8}, {8, 1024}, {16, 16}, {4, 4}, {1, 1}}};
  constexpr double kDeviation = 0.38;  // 1 / sqrt(7)
  const std::int64_t height = shape[2];
  const std::int64_t width = shape[3];
  const auto count = static_cast<std::int64_t>(pictures.size()) / shape.elements();
  std::vector<float> values;
  float* out = pictures.data();
  for (std::int64_t n = first; n < first + count; ++n) {
    zoo::Random random(static_cast<std::uint64_t>(n) + 1);
    std::array<double, kAreas.size()> deviations{};
    for (double& deviation : deviations) deviation = kDeviation * random.normal();
    for (std::int64_t c = 0; c < shape[1]; ++c, out += height * width) {
      std::fill(out, out + height * width, 0.0F);
      for (std::size_t k = 0; k < kAreas.size(); ++k) {
        const auto [rows, columns] = kAreas[k];
        const std::int64_t per_row = (width + columns - 1) / columns;
        values.resize(static_cast<std::size_t>(per_row * ((height + rows - 1) / rows)));
        // Uniform numbers: 16 bits from each draw of 64.
        const double scale = deviations[k] * std::sqrt(12.0) / 65536.0;
        std::uint64_t bits = 0;
        for (std::size_t i = 0; i < values.size(); ++i, bits >>= 16U) {
          if (i % 4 == 0) bits = random.next();
          values[i] = static_cast<float>((static_cast<double>(bits & 0xFFFFU) - 32767.5) * scale);
        }
        for (std::int64_t y = 0; y < height; ++y) {
          const float* row = values.data() + y / rows * per_row;
          for (std::int64_t x = 0; x < width; ++x) out[y * width + x] += row[x / columns];
        }
      }
    }
  }
}

constexpr std::int64_t kPhotographs = 50;

/// Pictures first, first + 1, ... that look like the first kPhotographs photographs in turn, mixed with one of their
/// own.
inline void blended_photographs(std::int64_t first, const Shape& shape, std::span<float> pictures) {
  constexpr float kShare = 0.9F;
  constexpr float kOwnShare = 0.4358899F;  // sqrt(1 - 0.9^2)
  const auto elements = static_cast<std::size_t>(shape.elements());
  std::vector<float> photograph(elements);
  std::vector<float> own(elements);
  for (std::int64_t n = first; !pictures.empty(); ++n, pictures = pictures.subspan(elements)) {
    random_photographs(n % kPhotographs, shape, photograph);
    random_photographs(kPhotographs + n, shape, own);
    for (std::size_t i = 0; i < elements; ++i) pictures[i] = kShare * photograph[i] + kOwnShare * own[i];
  }
}

}  // namespace mobicuda::test
