// How a picture is turned before it is shown: the eight values of EXIF's tag.
#pragma once

#include <cstdint>
#include <span>

#include <mobicuda/picture_preparation.h>

#include "pictures/prepare/planes.h"

namespace mobicuda::pictures {

/// 1: as stored; 2 mirrored; 3 turned by 180 degrees; 4 upside down; 5 to 8: width and height swapped.
using ExifOrientation = int;
inline constexpr ExifOrientation kUpright = 1;

/// What EXIF data (TIFF's form, from its byte order on) say; kUpright where they say nothing of sense.
ExifOrientation exif_orientation(std::span<const std::uint8_t> tiff) noexcept;

/// What a PNG file's eXIf chunk says; kUpright where it has none or is no PNG file.
ExifOrientation png_orientation(std::span<const std::uint8_t> file) noexcept;

/// Pixels as they are to be seen, wherever they lie: (x, y) is at origin + x * step_x + y * step_y, in bytes, and is
/// three bytes, red first. Read where the pixels are, it turns them without moving them.
struct PixelView {
  const std::uint8_t* origin = nullptr;
  std::int64_t step_x = 0;
  std::int64_t step_y = 0;
  int width = 0;
  int height = 0;
};

/// Of `rgb`, stored as width x height pixels with `pitch` bytes from row to row.
PixelView oriented_view(const std::uint8_t* rgb, int width, int height, std::int64_t pitch,
                        ExifOrientation orientation) noexcept;

PlanesView oriented_view(const Planes& planes, ExifOrientation orientation) noexcept;

/// The picture as the view shows it.
Picture copied(const PixelView& view);
Picture copied(const PlanesView& view);

}  // namespace mobicuda::pictures
