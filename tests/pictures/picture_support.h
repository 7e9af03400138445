// Pictures for tests, and what they are compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>
#include <mobicuda/picture_preparation.h>

namespace mobicuda::test {

/// The picture of make_golden.py.
inline pictures::Picture patterned_picture(int width, int height) {
  pictures::Picture picture{width, height, {}};
  const auto count = static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
  picture.rgb.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<std::uint32_t>(i * 2654435761U + static_cast<std::size_t>(width) * 31 +
                                                  static_cast<std::size_t>(height));
    picture.rgb.push_back(static_cast<std::uint8_t>(mixed >> 13U));
  }
  return picture;
}

inline std::uint64_t fnv(std::span<const std::uint8_t> bytes) {
  std::uint64_t value = 0xCBF29CE484222325U;
  for (const std::uint8_t byte : bytes) value = (value ^ byte) * 0x100000001B3U;
  return value;
}

/// Binary PNM file of a picture.
inline std::string ppm_file(const pictures::Picture& picture) {
  std::string file = "P6\n" + std::to_string(picture.width) + " " + std::to_string(picture.height) + "\n255\n";
  file.append(picture.rgb.begin(), picture.rgb.end());
  return file;
}

/// A picture of one colour.
inline pictures::Picture plain_picture(int width, int height, std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  pictures::Picture picture{width, height, {}};
  for (int i = 0; i < width * height; ++i) picture.rgb.insert(picture.rgb.end(), {red, green, blue});
  return picture;
}

struct JpegOptions {
  int quality = 90;
  int subsampling = 2;  ///< TJSAMP_: 0 4:4:4, 1 4:2:2, 2 4:2:0, 3 grey, 4 4:4:0, 5 4:1:1
  bool progressive = false;
};

/// JPEG file of a picture, by libjpeg-turbo.
std::string jpeg_file(const pictures::Picture& picture, const JpegOptions& options = {});

/// JPEG file of CMYK pixels, 4 bytes each.
std::string cmyk_jpeg_file(int width, int height, std::span<const std::uint8_t> cmyk);

/// The same JPEG file with EXIF data (TIFF's bytes) behind its start.
std::string with_exif(const std::string& jpeg, const std::string& tiff);

/// EXIF data of an orientation, with `big_endian` of Motorola's order.
std::string exif_of(int orientation, bool big_endian = false);

inline std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
inline std::span<const std::uint8_t> span_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// A network that answers with the mean of each channel: class 0 is red, 1 green, 2 blue.
inline Graph colour_network(std::int64_t extent) {
  GraphBuilder builder("colours");
  const ValueId input = builder.set_input("pixels", {DType::F32, Shape{1, 3, extent, extent}, Layout::NCHW});
  const ValueId mean = builder.add_node(GlobalAveragePool{}, {input}, {}, "mean");
  const ValueId flat = builder.add_node(Reshape{Shape{1, 3}}, {mean}, {}, "logits");
  return std::move(builder).build(flat);
}

}  // namespace mobicuda::test
