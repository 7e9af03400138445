#pragma once

#include <cstdint>
#include <span>

#include <mobicuda/picture_preparation.h>

#include "pictures/decode/orientation.h"

namespace mobicuda::pictures {

/// A picture as its file stores it, and how it is to be seen.
struct DecodedPicture {
  Picture stored;
  ExifOrientation orientation = kUpright;

  PixelView view() const noexcept {
    return oriented_view(stored.rgb.data(), stored.width, stored.height, std::int64_t{stored.width} * 3, orientation);
  }
};

/// Throws Error(invalid_argument) on options out of range.
void check(const DecodeOptions& options);

/// Throws PictureError on a picture without pixels or of more than DecodeOptions::max_pixels.
void require_size(int width, int height, const DecodeOptions& options);

/// decode_picture() without turning anything, of options that are checked. Throws PictureError.
DecodedPicture decode(std::span<const std::uint8_t> file, const DecodeOptions& options);

}  // namespace mobicuda::pictures
