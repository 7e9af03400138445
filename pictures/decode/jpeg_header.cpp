#include "pictures/decode/jpeg_header.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace mobicuda::pictures {
namespace {

constexpr std::uint8_t kStart = 0xD8, kEnd = 0xD9, kScan = 0xDA, kRestartInterval = 0xDD, kExifSegment = 0xE1,
                       kJfifSegment = 0xE0, kAdobeSegment = 0xEE, kFirstRestart = 0xD0, kLastRestart = 0xD7,
                       kTemporary = 0x01, kBaseline = 0xC0, kHuffmanTables = 0xC4, kQuantisationTables = 0xDB;

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
    } else if (marker == kHuffmanTables) {
      take_huffman_tables(segment);
    } else if (marker == kQuantisationTables) {
      take_quantisation_tables(segment);
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

  // A segment may have several tables.
  void take_huffman_tables(std::span<const std::uint8_t> segment) {
    constexpr std::size_t kLengths = 16;
    while (!segment.empty()) {
      const unsigned kind = segment[0] >> 4U;
      const unsigned number = segment[0] & 0xFU;
      std::size_t symbols = 0;
      std::size_t codes = 0;  // that are taken, of those as long as the last one looked at
      bool sound = segment.size() > kLengths && kind < huffman_tables_.size() && number < kTables;
      for (std::size_t length = 1; sound && length <= kLengths; ++length) {
        symbols += segment[length];
        codes = 2 * codes + segment[length];
        sound = codes <= std::size_t{1} << length;
      }
      const std::size_t bytes = 1 + kLengths + symbols;
      if (!sound || symbols > 256 || segment.size() < bytes) {
        tables_sound_ = false;
        return;
      }
      huffman_tables_[kind] |= 1U << number;
      segment = segment.subspan(bytes);
    }
  }

  void take_quantisation_tables(std::span<const std::uint8_t> segment) {
    constexpr std::size_t kValues = 64;
    while (!segment.empty()) {
      const unsigned precision = segment[0] >> 4U;  // bytes of a value, less one
      const unsigned number = segment[0] & 0xFU;
      const std::size_t bytes = 1 + kValues * (precision + 1);
      if (precision > 1 || number >= kTables || segment.size() < bytes) {
        tables_sound_ = false;
        return;
      }
      quantisation_tables_ |= 1U << number;
      segment = segment.subspan(bytes);
    }
  }

  // Whether a scan is of all components in their order, whole blocks of them, by tables that are there.
  bool is_sound(std::span<const std::uint8_t> scan) const {
    constexpr std::uint8_t kLastCoefficient = 63;
    const auto count = static_cast<std::size_t>(header_.components);
    if (!tables_sound_ || scan.size() != 4 + 2 * count || scan[0] != count) return false;
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned dc = scan[2 + 2 * i] >> 4U;
      const unsigned ac = scan[2 + 2 * i] & 0xFU;
      const bool there =
          (huffman_tables_[0] >> dc & huffman_tables_[1] >> ac & quantisation_tables_ >> tables_[i] & 1U) != 0;
      if (scan[1 + 2 * i] != ids_[i] || !there) return false;
    }
    const auto coefficients = scan.last(3);
    return coefficients[0] == 0 && coefficients[1] == kLastCoefficient && coefficients[2] == 0;
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
      // Of a number that no table has: no bit of the tables that are there.
      tables_[i] = std::min<unsigned>(segment[kFixed + i * kEach + 2], kTables);
    }
  }

  std::optional<JpegHeader> finish(std::span<const std::uint8_t> scan) {
    if (frames_ == 0) return std::nullopt;
    // As libjpeg tells colour spaces apart.
    const bool named_rgb = ids_[0] == 'R' && ids_[1] == 'G' && ids_[2] == 'B';
    const bool rgb = !jfif_ && (adobe_transform_ ? *adobe_transform_ == 0 : named_rgb);
    header_.ycc = header_.components == 1 || (header_.components == 3 && !rgb && !named_rgb);
    header_.one_whole_scan = frames_ == 1 && is_sound(scan) && scan_is_whole();
    return header_;
  }

  bool scan_is_whole() const {
    std::uint8_t expected = kFirstRestart;
    const std::uint8_t* at = file_.data() + at_;
    const std::uint8_t* const last = file_.data() + file_.size() - 1;  // a marker takes two bytes
    while (at < last) {
      at = static_cast<const std::uint8_t*>(std::memchr(at, 0xFF, static_cast<std::size_t>(last - at)));
      if (at == nullptr) return false;
      const std::uint8_t marker = *++at;
      if (marker == 0) ++at;                        // a byte of the data
      if (marker == 0 || marker == 0xFF) continue;  // or filling before a marker
      if (marker == kEnd) return true;
      if (!restarts_ || marker != expected) return false;
      expected = expected == kLastRestart ? kFirstRestart : static_cast<std::uint8_t>(expected + 1);
    }
    return false;
  }

  static constexpr unsigned kTables = 4;  // of a kind

  std::span<const std::uint8_t> file_;
  std::size_t at_ = 0;
  JpegHeader header_;
  std::array<std::uint8_t, 4> ids_{};
  std::array<unsigned, 4> tables_{};          // quantisation tables of the components
  std::array<unsigned, 2> huffman_tables_{};  // that are there, a bit each: DC, AC
  unsigned quantisation_tables_ = 0;          // that are there
  bool tables_sound_ = true;
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

std::string_view to_string(Sampling sampling) noexcept {
  switch (sampling) {
    case Sampling::Grey:
      return "grey";
    case Sampling::S444:
      return "4:4:4";
    case Sampling::S422:
      return "4:2:2";
    case Sampling::S440:
      return "4:4:0";
    case Sampling::S420:
      return "4:2:0";
  }
  return "?";
}

Sampling sampling_of(const JpegHeader& header) noexcept {
  if (header.components == 1) return Sampling::Grey;
  if (header.horizontal[0] == 1) return header.vertical[0] == 1 ? Sampling::S444 : Sampling::S440;
  return header.vertical[0] == 1 ? Sampling::S422 : Sampling::S420;
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
