// YCbCr planes as a JPEG decoder leaves them, read as RGB: chroma upsampled and colours converted in the arithmetic of
// libjpeg-turbo (its smooth upsampling, a triangle filter, and its fixed-point conversion), bit for bit. For the GPU,
// and for the CPU that tests compare it with.
#pragma once

#include <cstdint>

#include "pictures/prepare/window.h"

namespace mobicuda::pictures {

/// A decoded picture of 8 bits, luma and chroma in planes of their own.
struct Planes {
  const std::uint8_t* luma = nullptr;
  const std::uint8_t* cb = nullptr;  ///< null: a grey picture
  const std::uint8_t* cr = nullptr;
  int luma_pitch = 0;  ///< bytes from row to row
  int chroma_pitch = 0;
  int width = 0;  ///< of luma; chroma has (width + across - 1) / across samples a row
  int height = 0;
  int across = 1;  ///< luma samples for each of chroma, 1 or 2
  int down = 1;
};

struct Rgb {
  std::uint8_t red, green, blue;
};

/// Chroma at a pixel of luma.
MOBICUDA_ON_BOTH int chroma_at(const Planes& planes, const std::uint8_t* plane, int x, int y) {
  constexpr int kLeastSmooth = 3;  // samples of a row, below which libjpeg-turbo repeats them instead
  const int columns = (planes.width + planes.across - 1) / planes.across;
  const int rows = (planes.height + planes.down - 1) / planes.down;
  // The sample that the pixel lies in, and the one on its other side; at the border the same again.
  const int column = planes.across == 1 ? x : x / 2;
  const int row = planes.down == 1 ? y : y / 2;
  const std::uint8_t* const near = plane + static_cast<std::int64_t>(row) * planes.chroma_pitch;
  if (planes.across == 2 && columns < kLeastSmooth) return near[column];
  if (planes.across == 1 && planes.down == 1) return near[column];
  int beside = column + (x % 2 == 0 ? -1 : 1);
  beside = beside < 0 ? 0 : beside >= columns ? columns - 1 : beside;
  if (planes.down == 1) return (3 * near[column] + near[beside] + (x % 2 == 0 ? 1 : 2)) >> 2;
  int beyond = row + (y % 2 == 0 ? -1 : 1);
  beyond = beyond < 0 ? 0 : beyond >= rows ? rows - 1 : beyond;
  const std::uint8_t* const far = plane + static_cast<std::int64_t>(beyond) * planes.chroma_pitch;
  if (planes.across == 1) return (3 * near[column] + far[column] + (y % 2 == 0 ? 1 : 2)) >> 2;
  const int here = 3 * near[column] + far[column];
  const int there = 3 * near[beside] + far[beside];
  return (3 * here + there + (x % 2 == 0 ? 8 : 7)) >> 4;
}

MOBICUDA_ON_BOTH std::uint8_t clamped(int value) {
  return static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

/// JFIF's conversion: coefficients with 16 bits of fraction, each sum rounded once.
MOBICUDA_ON_BOTH Rgb rgb_of(int luma, int cb, int cr) {
  constexpr int kBits = 16;
  constexpr int kRound = 1 << (kBits - 1);
  constexpr int kRedOfCr = 91881;    // 1.40200
  constexpr int kGreenOfCb = 22554;  // 0.34414
  constexpr int kGreenOfCr = 46802;  // 0.71414
  constexpr int kBlueOfCb = 116130;  // 1.77200
  const int u = cb - 128;
  const int v = cr - 128;
  return {clamped(luma + ((kRedOfCr * v + kRound) >> kBits)),
          clamped(luma + ((-kGreenOfCb * u - kGreenOfCr * v + kRound) >> kBits)),
          clamped(luma + ((kBlueOfCb * u + kRound) >> kBits))};
}

MOBICUDA_ON_BOTH Rgb rgb_at(const Planes& planes, int x, int y) {
  const int luma = planes.luma[static_cast<std::int64_t>(y) * planes.luma_pitch + x];
  if (planes.cb == nullptr)
    return {static_cast<std::uint8_t>(luma), static_cast<std::uint8_t>(luma), static_cast<std::uint8_t>(luma)};
  return rgb_of(luma, chroma_at(planes, planes.cb, x, y), chroma_at(planes, planes.cr, x, y));
}

/// Planes as they are to be seen: pixel (x, y) of the view is at column left + x * column_of_x + y * column_of_y of the
/// planes, and in row top + x * row_of_x + y * row_of_y.
struct PlanesView {
  Planes planes;
  int width = 0;  ///< as seen
  int height = 0;
  int left = 0, top = 0;
  int column_of_x = 1, column_of_y = 0;
  int row_of_x = 0, row_of_y = 1;
};

MOBICUDA_ON_BOTH Rgb rgb_at(const PlanesView& view, int x, int y) {
  return rgb_at(view.planes, view.left + x * view.column_of_x + y * view.column_of_y,
                view.top + x * view.row_of_x + y * view.row_of_y);
}

}  // namespace mobicuda::pictures
