#pragma once

#include <cstdint>

#include "pictures/decode/jpeg_header.h"
#include "pictures/gpu/nvjpeg_api.h"
#include "pictures/gpu/resize_batch.h"
#include "pictures/prepare/planes.h"

namespace mobicuda::pictures {

/// How a picture's planes lie in a piece of memory. Each has the columns and rows of whole blocks, as a decoder may
/// write those, and a pitch of whole lines of memory. A grey picture has room for chroma, so that a decoder that fills
/// it up does no harm.
class PlaneLayout {
 public:
  PlaneLayout(int width, int height, Sampling sampling) noexcept;

  std::int64_t bytes() const noexcept { return chroma_ + 2 * chroma_bytes_; }
  nvjpeg::Image image(std::uint8_t* memory) const noexcept;
  Planes planes(const std::uint8_t* memory) const noexcept;
  /// What a decoder must have written.
  MarkedPicture marked(const std::uint8_t* filled, const std::uint8_t* memory) const noexcept;

 private:
  int width_, height_;
  Sampling sampling_;
  int luma_pitch_, chroma_pitch_;
  std::int64_t chroma_;        ///< where it begins
  std::int64_t chroma_bytes_;  ///< of a plane
};

}  // namespace mobicuda::pictures
