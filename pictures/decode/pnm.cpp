#include "pictures/decode/pnm.h"

#include <algorithm>
#include <cstddef>

#include "pictures/decode/decode.h"
#include "pictures/decode/picture_error.h"
#include "pictures/prepare/channels.h"

namespace mobicuda::pictures {
namespace {

constexpr int kMostLevels = 65535;

bool is_space(std::uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

// Numbers in ASCII behind the magic, with white space and comments before each.
class Header {
 public:
  explicit Header(std::span<const std::uint8_t> file) : file_(file) {}

  /// Throws PictureError where there is none up to `most`.
  int number(const char* what, int most) {
    skip_space();
    int value = 0;
    const std::size_t first = at_;
    for (; at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9'; ++at_) {
      const int digit = file_[at_] - '0';
      if (value > (most - digit) / 10) throw PictureError(std::string("bad PNM: ") + what + " is too large");
      value = value * 10 + digit;
    }
    if (at_ == first) throw PictureError(at_ == file_.size() ? "ends early" : std::string("bad PNM: no ") + what);
    return value;
  }

  /// What follows the one white space behind the numbers.
  std::span<const std::uint8_t> samples() const {
    if (at_ == file_.size()) throw PictureError("ends early");
    if (!is_space(file_[at_])) throw PictureError("bad PNM: no white space before the pixels");
    return file_.subspan(at_ + 1);
  }

 private:
  void skip_space() {
    while (at_ < file_.size() && (is_space(file_[at_]) || file_[at_] == '#')) {
      if (file_[at_] == '#') {
        while (at_ < file_.size() && file_[at_] != '\n' && file_[at_] != '\r') ++at_;
      } else {
        ++at_;
      }
    }
  }

  std::span<const std::uint8_t> file_;
  std::size_t at_ = 2;  // behind the magic
};

}  // namespace

bool is_pnm(std::span<const std::uint8_t> file) noexcept {
  return file.size() >= 2 && file[0] == 'P' && (file[1] == '5' || file[1] == '6');
}

Picture decode_pnm(std::span<const std::uint8_t> file, const DecodeOptions& options) {
  Header header(file);
  Picture picture;
  picture.width = header.number("width", INT32_MAX);
  picture.height = header.number("height", INT32_MAX);
  const int levels = header.number("maximum", kMostLevels);
  if (levels == 0) throw PictureError("bad PNM: its maximum is 0");
  require_size(picture.width, picture.height, options);
  const std::span<const std::uint8_t> samples = header.samples();

  const std::size_t channels = file[1] == '6' ? kChannels : 1;
  const std::size_t bytes = levels > 255 ? 2 : 1;
  const std::size_t pixels = static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height);
  if (samples.size() < pixels * channels * bytes) throw PictureError("ends early");
  picture.rgb.resize(pixels * kChannels);
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    for (std::size_t c = 0; c < kChannels; ++c) {
      const std::size_t at = (pixel * channels + std::min(c, channels - 1)) * bytes;
      const int sample = bytes == 1 ? samples[at] : samples[at] << 8 | samples[at + 1];
      picture.rgb[pixel * kChannels + c] =
          static_cast<std::uint8_t>((std::min(sample, levels) * 255 + levels / 2) / levels);
    }
  }
  return picture;
}

}  // namespace mobicuda::pictures
