#pragma once

#include <cstdint>
#include <span>

#include <mobicuda/picture_preparation.h>

namespace mobicuda::pictures {

/// Whether bytes begin as a binary PGM or PPM picture does ("P5", "P6").
bool is_pnm(std::span<const std::uint8_t> file) noexcept;

/// Decodes it: 1 to 65535 levels, of one byte or of two with the high one first, become 0 to 255, rounded; grey becomes
/// RGB; what follows the pixels is not looked at (https://netpbm.sourceforge.net/doc/ppm.html). Throws PictureError.
Picture decode_pnm(std::span<const std::uint8_t> file, const DecodeOptions& options);

}  // namespace mobicuda::pictures
