#pragma once

#include <cstdint>
#include <vector>

namespace mobicuda::bench {

inline constexpr int kChannels = 3;

/// A decoded picture: 8-bit RGB, rows from top to bottom, no padding between rows.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;  ///< height x width x 3
};

/// What resize() computes, as reports name it.
inline constexpr const char* kFilterName = "bilinear (triangle) with antialias";

/// Resamples with a triangle filter whose support grows with the reduction (antialias), first along rows,
/// then along columns, rounding to 8 bits in between: the arithmetic of Pillow's BILINEAR, bit for bit.
/// A direction that keeps its size is left alone. Sizes must be positive.
Picture resize(const Picture& source, int width, int height);

/// Resizes so that the shorter side is `size`; the longer one keeps the aspect, rounded down.
Picture resize_short_side(const Picture& source, int size);

/// Cuts out the middle; of an odd margin the larger half is right and below. Throws std::invalid_argument when the
/// picture is smaller.
Picture centre_crop(const Picture& source, int width, int height);

}  // namespace mobicuda::bench
