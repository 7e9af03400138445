#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace mobicuda::test {

namespace detail {

using Numbers = std::array<double, 4>;

// |B^T| and |G| times numbers that are no less than 0.
inline Numbers input_sums(const Numbers& d) { return {d[0] + d[2], d[1] + d[2], d[1] + d[2], d[1] + d[3]}; }
inline Numbers filter_sums(double g0, double g1, double g2) {
  const double half = (g0 + g1 + g2) / 2;
  return {g0, half, half, g2};
}

}  // namespace detail

/// What the rounding errors of output (row, column) of F(2x2, 3x3) scale with: sum over all channels of
/// |A^T| ((|G| |g| |G^T|) . (|B^T| |d| |B|)) |A|, for the output's own tile d. x(channel, row, column) is a pixel of
/// the padded image, w(channel, row, column) a weight; signs do not matter. docs/numerics.md.
template <class Pixel, class Weight>
double winograd_magnitude(std::int64_t channels, std::int64_t row, std::int64_t column, const Pixel& x,
                          const Weight& w) {
  const std::int64_t top = row / 2 * 2;
  const std::int64_t left = column / 2 * 2;
  double magnitude = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    std::array<detail::Numbers, 4> inputs{};   // by column
    std::array<detail::Numbers, 3> filters{};  // by column
    for (std::int64_t j = 0; j < 4; ++j) {
      detail::Numbers d{};
      for (std::int64_t i = 0; i < 4; ++i) d[static_cast<std::size_t>(i)] = std::abs(x(c, top + i, left + j));
      inputs[static_cast<std::size_t>(j)] = detail::input_sums(d);
    }
    for (std::int64_t j = 0; j < 3; ++j) {
      filters[static_cast<std::size_t>(j)] =
          detail::filter_sums(std::abs(w(c, 0, j)), std::abs(w(c, 1, j)), std::abs(w(c, 2, j)));
    }
    // Of the four numbers along an axis, output 0 is a sum of the first three, output 1 of the last three.
    const auto first_row = static_cast<std::size_t>(row - top);
    const auto first_column = static_cast<std::size_t>(column - left);
    for (std::size_t i = first_row; i < first_row + 3; ++i) {
      const detail::Numbers v = detail::input_sums({inputs[0][i], inputs[1][i], inputs[2][i], inputs[3][i]});
      const detail::Numbers u = detail::filter_sums(filters[0][i], filters[1][i], filters[2][i]);
      for (std::size_t j = first_column; j < first_column + 3; ++j) magnitude += u[j] * v[j];
    }
  }
  return magnitude;
}

/// The same of a filter of 3x3, or of 5x5, which is cut into four of up to 3x3 whose outputs add up.
template <class Pixel, class Weight>
double winograd_magnitude(std::int64_t kernel, std::int64_t channels, std::int64_t row, std::int64_t column,
                          const Pixel& x, const Weight& w) {
  double magnitude = 0;
  for (std::int64_t top = 0; top < kernel; top += 3) {
    for (std::int64_t left = 0; left < kernel; left += 3) {
      magnitude += winograd_magnitude(
          channels, row, column,
          [&](std::int64_t c, std::int64_t i, std::int64_t j) { return x(c, top + i, left + j); },
          [&](std::int64_t c, std::int64_t i, std::int64_t j) {
            return top + i < kernel && left + j < kernel ? w(c, top + i, left + j) : 0.0;
          });
    }
  }
  return magnitude;
}

}  // namespace mobicuda::test
