#include "pictures/decode/orientation.h"

#include <array>
#include <string>

#include "pictures/decode/jpeg_header.h"
#include "pictures/golden.h"
#include "pictures/picture_support.h"
#include "support/catch.h"

using namespace mobicuda;
using namespace mobicuda::pictures;

namespace {

// Quarters of levels 40, 80, 120 and 160, 16 x 8 pixels each, so that no block of a JPEG file holds two of them.
Picture quarters() {
  Picture picture{32, 16, {}};
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 32; ++x) {
      const auto level = static_cast<std::uint8_t>(40 * (1 + x / 16 + 2 * (y / 8)));
      picture.rgb.insert(picture.rgb.end(), {level, level, level});
    }
  }
  return picture;
}

// The quarter that a corner shows, 1 to 4.
std::array<int, 4> corners(const Picture& picture) {
  const auto level = [&](int x, int y) {
    return (picture.rgb[static_cast<std::size_t>(y * picture.width + x) * 3] + 20) / 40;
  };
  const int right = picture.width - 1;
  const int below = picture.height - 1;
  return {level(0, 0), level(right, 0), level(0, below), level(right, below)};
}

std::string jpeg() {
  test::JpegOptions options;
  options.subsampling = 0;
  options.quality = 100;
  return test::jpeg_file(quarters(), options);
}

}  // namespace

TEST_CASE("all eight orientations turn a JPEG picture as Pillow does", "[orientation]") {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool big_endian : {false, true}) {
      CAPTURE(orientation, big_endian);
      const std::string file = test::with_exif(jpeg(), test::exif_of(orientation, big_endian));
      const Picture picture = decode_picture(test::span_of(file));
      CHECK(picture.width == (orientation >= 5 ? 16 : 32));
      CHECK(picture.height == (orientation >= 5 ? 32 : 16));
      const auto& expected = test::kTurnedQuarters[orientation - 1];
      CHECK(corners(picture) == std::array<int, 4>{expected[0], expected[1], expected[2], expected[3]});
      DecodeOptions ignoring;
      ignoring.orientation = Orientation::Ignore;
      CHECK(corners(decode_picture(test::span_of(file), ignoring)) == std::array<int, 4>{1, 2, 3, 4});
    }
  }
}

TEST_CASE("damaged and hostile EXIF data leave a picture upright", "[orientation]") {
  const std::string good = test::exif_of(6);
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    CAPTURE(bytes);
    // The last 6 bytes are filling and the next directory's offset, which nobody needs.
    const int expected = bytes + 6 >= good.size() ? 6 : kUpright;
    CHECK(exif_orientation(test::span_of(good.substr(0, bytes))) == expected);
  }
  for (const int orientation : {0, 9, 65535})
    CHECK(exif_orientation(test::span_of(test::exif_of(orientation))) == kUpright);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int value : {0, 1, 127, 128, 255}) {
      std::string damaged = good;
      damaged[at] = static_cast<char>(value);
      const int orientation = exif_orientation(test::span_of(damaged));
      CHECK((orientation >= 1 && orientation <= 8));
      CHECK(decode_picture(test::span_of(test::with_exif(jpeg(), damaged))).rgb.size() == 32 * 16 * 3);
    }
  }
  std::string far_away = good;
  for (std::size_t i = 4; i < 8; ++i) far_away[i] = '\xFF';  // the directory's offset
  CHECK(exif_orientation(test::span_of(far_away)) == kUpright);
}

TEST_CASE("the orientation of a PNG picture is in its eXIf chunk", "[orientation]") {
  const auto chunk = [](const std::string& type, const std::string& content) {
    const auto size = static_cast<char>(content.size());
    return std::string(3, '\0') + size + type + content + std::string(4, '\0');
  };
  const std::string start = "\x89PNG\r\n\x1A\n";
  const std::string file = start + chunk("IHDR", std::string(13, '\0')) + chunk("eXIf", test::exif_of(8, true));
  CHECK(png_orientation(test::span_of(file)) == 8);
  for (std::size_t bytes = 0; bytes + 10 < file.size(); ++bytes) {
    CHECK(png_orientation(test::span_of(file.substr(0, bytes))) == kUpright);
  }
}

TEST_CASE("markers say what a JPEG file is, and whether nvJPEG may have it", "[jpeg_header]") {
  const auto header_of = [](const std::string& file) { return read_jpeg_header(test::span_of(file)); };
  const auto fit = [&](const std::string& file) {
    const auto header = header_of(file);
    return header && fit_for_nvjpeg(*header);
  };
  const Picture picture = test::patterned_picture(100, 60);
  for (const int subsampling : {0, 1, 2, 3, 4}) {
    CAPTURE(subsampling);
    test::JpegOptions options;
    options.subsampling = subsampling;
    const std::string file = test::jpeg_file(picture, options);
    REQUIRE(header_of(file));
    CHECK(header_of(file)->width == 100);
    CHECK(header_of(file)->height == 60);
    CHECK(header_of(file)->components == (subsampling == 3 ? 1 : 3));
    CHECK(fit(file));
    constexpr Sampling kSampling[] = {Sampling::S444, Sampling::S422, Sampling::S420, Sampling::Grey, Sampling::S440};
    CHECK(sampling_of(*header_of(file)) == kSampling[subsampling]);
    options.progressive = true;
    CHECK(header_of(test::jpeg_file(picture, options)));
    CHECK_FALSE(fit(test::jpeg_file(picture, options)));
    CHECK(fit(file + std::string(100, '\0')));  // behind its end
    for (std::size_t bytes = 0; bytes < file.size(); ++bytes) CHECK_FALSE(fit(file.substr(0, bytes)));
  }
  test::JpegOptions rare;
  rare.subsampling = 5;  // 4:1:1
  CHECK_FALSE(fit(test::jpeg_file(picture, rare)));
  CHECK_FALSE(fit(test::cmyk_jpeg_file(8, 8, std::vector<std::uint8_t>(256, 7))));
  const std::string file = test::jpeg_file(picture);
  std::string marker_in_scan = file;
  marker_in_scan[file.size() - 200] = '\xFF';
  marker_in_scan[file.size() - 199] = '\xC4';
  CHECK_FALSE(fit(marker_in_scan));
  marker_in_scan[file.size() - 199] = '\xD0';  // a restart where there are none
  CHECK_FALSE(fit(marker_in_scan));
}

TEST_CASE("nvJPEG gets no file whose scan lacks a table, or says what no baseline file says", "[jpeg_header]") {
  const std::string file = test::jpeg_file(test::patterned_picture(100, 60));
  const auto fit = [](const std::string& one) {
    const auto header = read_jpeg_header(test::span_of(one));
    return header && fit_for_nvjpeg(*header);
  };
  REQUIRE(fit(file));
  // The byte at an offset behind a marker's length.
  const auto at = [&](char marker, std::size_t offset) { return file.find({'\xFF', marker}) + 4 + offset; };
  const auto changed = [&](std::size_t place, char to) {
    std::string one = file;
    REQUIRE(one[place] != to);
    one[place] = to;
    return one;
  };
  constexpr char kQuantisation = '\xDB';
  constexpr char kHuffman = '\xC4';
  constexpr char kFrame = '\xC0';
  constexpr char kScan = '\xDA';
  CHECK_FALSE(fit(changed(at(kQuantisation, 0), '\x03')));  // table 3, so that there is no table 0
  CHECK_FALSE(fit(changed(at(kQuantisation, 0), '\x04')));
  CHECK_FALSE(fit(changed(at(kQuantisation, 0), '\x20')));  // values of three bytes
  CHECK_FALSE(fit(changed(at(kQuantisation, 0), '\x10')));  // more values than there are
  CHECK_FALSE(fit(changed(at(kHuffman, 0), '\x03')));
  CHECK_FALSE(fit(changed(at(kHuffman, 0), '\x20')));   // neither of DC nor of AC
  CHECK_FALSE(fit(changed(at(kHuffman, 1), '\x03')));   // three codes of one bit
  CHECK_FALSE(fit(changed(at(kHuffman, 16), '\x7F')));  // more symbols than there are
  CHECK_FALSE(fit(changed(at(kFrame, 8), '\x02')));     // quantisation table 2
  CHECK_FALSE(fit(changed(at(kFrame, 8), '\xFF')));
  CHECK_FALSE(fit(changed(at(kScan, 1), '\x07')));  // of no component
  CHECK_FALSE(fit(changed(at(kScan, 2), '\x20')));  // DC table 2
  CHECK_FALSE(fit(changed(at(kScan, 2), '\x0F')));  // AC table 15
  CHECK_FALSE(fit(changed(at(kScan, 7), '\x01')));  // without the first coefficient
  CHECK_FALSE(fit(changed(at(kScan, 8), '\x05')));  // the first six coefficients alone
  CHECK_FALSE(fit(changed(at(kScan, 9), '\x01')));  // without their last bit
}
