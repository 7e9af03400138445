#pragma once

#include <string>
#include <utility>
#include <vector>

#include <mobicuda/picture_source.h>

#include "pictures/picture_support.h"

namespace mobicuda::test {

/// Pictures in memory. Picture i is of the colour i % 3, at level 100 + i % 100, and small; every 20th is broken in one
/// of several ways. Of four pictures one is PNM, one progressive JPEG.
class Mixed {
 public:
  explicit Mixed(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) files_.push_back(broken(i) ? broken_file(i) : file(i));
  }

  static bool broken(std::size_t i) { return i % 20 == 7; }

  pictures::PictureSource source() const {
    std::vector<pictures::EncodedPicture> pictures;
    for (std::size_t i = 0; i < files_.size(); ++i)
      pictures.push_back({"picture " + std::to_string(i), span_of(files_[i])});
    return pictures::PictureSource::memory(std::move(pictures));
  }
  std::size_t size() const { return files_.size(); }

 private:
  static std::string file(std::size_t i) {
    const auto level = static_cast<std::uint8_t>(100 + i % 100);
    const auto of = [&](std::size_t colour) { return i % 3 == colour ? level : std::uint8_t{20}; };
    const pictures::Picture picture = plain_picture(9 + static_cast<int>(i % 5), 8, of(0), of(1), of(2));
    JpegOptions jpeg;
    jpeg.subsampling = 0;
    jpeg.progressive = i % 4 == 1;
    return i % 4 == 0 ? ppm_file(picture) : jpeg_file(picture, jpeg);
  }
  static std::string broken_file(std::size_t i) {
    const std::string whole = jpeg_file(patterned_picture(30, 20));
    switch (i / 20 % 4) {
      case 0:
        return whole.substr(0, whole.size() / 2);
      case 1:
        return "";
      case 2:
        return "P6\n60000 60000\n255\n";
      default:
        return "no picture at all";
    }
  }

  std::vector<std::string> files_;
};

}  // namespace mobicuda::test
