#include "pictures/decode/jpeg_header.h"

#include <algorithm>
#include <string_view>

namespace mobicuda::pictures {
namespace {

constexpr std::uint8_t kStart = 0xD8, kEnd = 0xD9, kScan = 0xDA, kRestartInterval = 0xDD, kExifSegment = 0xE1,
                       kJfifSegment = 0xE0, kAdobeSegment = 0xEE, kFirstRestart = 0xD0, kLastRestart = 0xD7,
                       kTemporary = 0x01, kBaseline = 0xC0;

bool is_frame(std::uint8_t marker) {
  constexpr std::uint8_t kFirst = 0xC0, kLast = 0xCF, kTables = 0xC4, kReserved = 0xC8, kArithmetic = 0xCC;
  return marker >= kFirst && marker <= kLast && marker != kTables && marker != kReserved && marker != kArithmetic;
}

bool begins_with(std::span<const std::uint8_t> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::equal(text.begin(), text.end(), bytes.begin());
}

class HeaderReader {
 public:
  explicit HeaderReader(std::span<const std::uint8_t> file) : file_(file) {}

  std::optional<JpegHeader> read() {
    if (!is_jpeg(file_)) return std::nullopt;
    at_ = 2;
    for (;;) {
      const auto marker = next_marker();
      if (!marker || *marker == kEnd) return std::nullopt;
      if (*marker == kStart || *marker == kTemporary || (*marker >= kFirstRestart && *marker <= kLastRestart)) continue;
      const auto segment = next_segment();
      if (!segment) return std::nullopt;
      if (*marker == kScan) return finish(*segment);
      take(*marker, *segment);
    }
  }

 private:
  std::optional<std::uint8_t> next_marker() {
    // What lies between segments is passed over, as libjpeg does.
    while (at_ < file_.size() && file_[at_] != 0xFF) ++at_;
    while (at_ < file_.size() && file_[at_] == 0xFF) ++at_;
    if (at_ >= file_.size()) return std::nullopt;
    return file_[at_++];
  }

  // What follows the length.
  std::optional<std::span<const std::uint8_t>> next_segment() {
    if (file_.size() - at_ < 2) return std::nullopt;
    const std::size_t length = static_cast<std::size_t>(file_[at_]) << 8U | file_[at_ + 1];
    if (length < 2 || file_.size() - at_ < length) return std::nullopt;
    const auto segment = file_.subspan(at_ + 2, length - 2);
    at_ += length;
    return segment;
  }

  void take(std::uint8_t marker, std::span<const std::uint8_t> segment) {
    constexpr std::string_view kExif("Exif\0\0", 6);
    constexpr std::size_t kAdobeTransform = 11;
    if (is_frame(marker)) {
      take_frame(marker, segment);
    } else if (marker == kRestartInterval && segment.size() >= 2) {
      restarts_ = (segment[0] | segment[1]) != 0;
    } else if (marker == kExifSegment && !has_exif_ && begins_with(segment, kExif)) {
      has_exif_ = true;
      header_.orientation = exif_orientation(segment.subspan(kExif.size()));
    } else if (marker == kJfifSegment && begins_with(segment, "JFIF")) {
      jfif_ = true;
    } else if (marker == kAdobeSegment && segment.size() > kAdobeTransform && begins_with(segment, "Adobe")) {
      adobe_transform_ = segment[kAdobeTransform];
    }
  }

  void take_frame(std::uint8_t marker, std::span<const std::uint8_t> segment) {
    constexpr std::size_t kFixed = 6;
    constexpr std::size_t kEach = 3;
    frames_ += 1;
    if (segment.size() < kFixed) return;
    header_.bits = segment[0];
    header_.height = segment[1] << 8 | segment[2];
    header_.width = segment[3] << 8 | segment[4];
    header_.components = segment[5];
    header_.baseline = marker == kBaseline;
    const auto count = static_cast<std::size_t>(header_.components);
    if (count > header_.horizontal.size() || segment.size() < kFixed + count * kEach) {
      header_.components = 0;
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      ids_[i] = segment[kFixed + i * kEach];
      header_.horizontal[i] = segment[kFixed + i * kEach + 1] >> 4U;
      header_.vertical[i] = segment[kFixed + i * kEach + 1] & 0xF;
    }
  }

  std::optional<JpegHeader> finish(std::span<const std::uint8_t> scan) {
    if (frames_ == 0) return std::nullopt;
    // As libjpeg tells colour spaces apart.
    const bool named_rgb = ids_[0] == 'R' && ids_[1] == 'G' && ids_[2] == 'B';
    const bool rgb = !jfif_ && (adobe_transform_ ? *adobe_transform_ == 0 : named_rgb);
    header_.ycc = header_.components == 1 || (header_.components == 3 && !rgb && !named_rgb);
    header_.one_whole_scan = frames_ == 1 && !scan.empty() && scan[0] == header_.components && scan_is_whole();
    return header_;
  }

  bool scan_is_whole() const {
    std::uint8_t expected = kFirstRestart;
    const std::uint8_t* const bytes = file_.data();
    const std::size_t last = file_.size() - 1;  // a marker takes two bytes
    std::size_t at = at_;
    while (at < last) {
      // Of most blocks no byte is 0xFF but those with a 0 behind it.
      constexpr std::size_t kSpan = 64;
      if (last - at >= kSpan) {
        unsigned marks = 0;
        for (std::size_t i = 0; i < kSpan; ++i) {
          marks |= static_cast<unsigned>(bytes[at + i] == 0xFF) & static_cast<unsigned>(bytes[at + i + 1] != 0);
        }
        if (marks == 0) {
          at += kSpan;
          continue;
        }
      }
      const std::size_t stop = std::min(at + kSpan, last);
      for (; at < stop; ++at) {
        if (bytes[at] != 0xFF || bytes[at + 1] == 0 || bytes[at + 1] == 0xFF) continue;  // data, or filling
        if (bytes[at + 1] == kEnd) return true;
        if (!restarts_ || bytes[at + 1] != expected) return false;
        expected = expected == kLastRestart ? kFirstRestart : static_cast<std::uint8_t>(expected + 1);
      }
    }
    return false;
  }

  std::span<const std::uint8_t> file_;
  std::size_t at_ = 0;
  JpegHeader header_;
  std::array<std::uint8_t, 4> ids_{};
  int frames_ = 0;
  bool has_exif_ = false;
  bool jfif_ = false;
  bool restarts_ = false;
  std::optional<std::uint8_t> adobe_transform_;
};

}  // namespace

bool is_jpeg(std::span<const std::uint8_t> file) noexcept {
  return file.size() >= 3 && file[0] == 0xFF && file[1] == kStart && file[2] == 0xFF;
}

std::optional<JpegHeader> read_jpeg_header(std::span<const std::uint8_t> file) noexcept {
  return HeaderReader(file).read();
}

bool fit_for_nvjpeg(const JpegHeader& header) noexcept {
  if (!header.baseline || header.bits != 8 || !header.ycc || !header.one_whole_scan) return false;
  if (header.width == 0 || header.height == 0) return false;
  if (header.components == 1) return true;
  const bool luma =
      header.horizontal[0] >= 1 && header.horizontal[0] <= 2 && header.vertical[0] >= 1 && header.vertical[0] <= 2;
  return header.components == 3 && luma && header.horizontal[1] == 1 && header.vertical[1] == 1 &&
         header.horizontal[2] == 1 && header.vertical[2] == 1;
}

}  // namespace mobicuda::pictures
