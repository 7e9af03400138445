#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

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
  /// One scan of all components, by tables that are there, that goes on, with nothing but restarts in their order, up
  /// to the end marker.
  bool one_whole_scan = false;
  ExifOrientation orientation = kUpright;
};

bool is_jpeg(std::span<const std::uint8_t> file) noexcept;

/// Looks through the markers and the first scan, without decoding; nothing where that is no JPEG file or ends before
/// its first scan. A file of which it says one_whole_scan may still be damaged within the scan.
std::optional<JpegHeader> read_jpeg_header(std::span<const std::uint8_t> file) noexcept;

/// How chroma lies beside luma, of the files that nvJPEG may have.
enum class Sampling : std::uint8_t { Grey, S444, S422, S440, S420 };
inline constexpr Sampling kAllSamplings[] = {Sampling::Grey, Sampling::S444, Sampling::S422, Sampling::S440,
                                             Sampling::S420};
inline constexpr std::size_t kSamplings = std::size(kAllSamplings);

std::string_view to_string(Sampling sampling) noexcept;  ///< "grey", "4:4:4"
/// Luma samples for each of chroma, in a row and in a column: 1 or 2.
constexpr int luma_across(Sampling sampling) noexcept {
  return sampling == Sampling::S422 || sampling == Sampling::S420 ? 2 : 1;
}
constexpr int luma_down(Sampling sampling) noexcept {
  return sampling == Sampling::S440 || sampling == Sampling::S420 ? 2 : 1;
}
/// Of a file that is fit_for_nvjpeg().
Sampling sampling_of(const JpegHeader& header) noexcept;

/// Whether nvJPEG may have a file: of the kinds that are common, and whole as far as its markers tell.
bool fit_for_nvjpeg(const JpegHeader& header) noexcept;

}  // namespace mobicuda::pictures
