#pragma once

#include <cstdint>
#include <span>

#include <mobicuda/picture_preparation.h>

#include "pictures/decode/orientation.h"
#include "pictures/prepare/pixel_value.h"

namespace mobicuda::pictures {

/// What is computed of a picture, as reports name it.
inline constexpr const char* kFilterName = "bilinear (triangle) with antialias";

/// What of a picture the network sees: it is resized to width x height, of which a part from (left, top) on is taken.
struct CropGeometry {
  int width = 0;
  int height = 0;
  int left = 0;
  int top = 0;
};

/// The shorter side becomes how.resize_to; the longer one keeps the aspect, rounded down. The crop is the middle; of an
/// odd margin the larger half is right and below. Throws PictureError where the resized picture would be huge,
/// Error(invalid_argument) where it is smaller than the crop.
CropGeometry crop_geometry(int width, int height, const Preprocessing& how);

/// Throws Error(invalid_argument) on sides that are not positive or huge.
void check(const Preprocessing& how);

/// Writes crop_width x crop_height pixels, HWC, of the picture resized to crop.width x crop.height: Pillow's
/// Image.resize(BILINEAR), first along rows, then along columns, rounded to 8 bits in between, bit for bit. Only the
/// rows and columns that the part is made of are computed.
void resize_crop(const PixelView& source, const CropGeometry& crop, int crop_width, int crop_height,
                 std::span<std::uint8_t> out);

const PixelScale& pixel_scale(Normalization normalization) noexcept;

/// preprocess() of a picture where it lies, of a Preprocessing that is checked. Throws PictureError.
void prepare(const PixelView& picture, const Preprocessing& how, std::span<std::uint8_t> out);
void prepare(const PixelView& picture, const Preprocessing& how, std::span<float> out);

}  // namespace mobicuda::pictures
