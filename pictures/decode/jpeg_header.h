#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "pictures/decode/orientation.h"

namespace mobicuda::pictures {

/// What the markers of a JPEG file say.
struct JpegHeader {
  int width = 0;
  int height = 0;
  int components = 0;
  int bits = 0;
  bool baseline = false;            ///< sequential, Huffman, 8 bits: SOF0
  std::array<int, 4> horizontal{};  ///< sampling factors of the components
  std::array<int, 4> vertical{};
  bool ycc = false;  ///< three components that are YCbCr, as far as markers tell; one component: true
  /// One scan of all components that goes on, with nothing but restarts in their order, up to the end marker.
  bool one_whole_scan = false;
  ExifOrientation orientation = kUpright;
};

bool is_jpeg(std::span<const std::uint8_t> file) noexcept;

/// Looks through the markers and the first scan, without decoding; nothing where that is no JPEG file or ends before
/// its first scan. A file of which it says one_whole_scan may still be damaged within the scan.
std::optional<JpegHeader> read_jpeg_header(std::span<const std::uint8_t> file) noexcept;

/// Whether nvJPEG may have a file: of the kinds that are common, and whole as far as its markers tell.
bool fit_for_nvjpeg(const JpegHeader& header) noexcept;

}  // namespace mobicuda::pictures
