#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

#include <mobicuda/engine.h>
#include <mobicuda/types.h>

#include "bench_engine/model/pictures.h"
#include "bench_engine/pictures/resize.h"

namespace mobicuda::bench {

/// A picture file that cannot be used; the message says why, without the path.
class PictureError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Decodes JPEG (libjpeg-turbo, accurate DCT), PNG, BMP or PNM (stb_image) by content, whatever the file's
/// name. Grey and CMYK become RGB, alpha is dropped. Throws PictureError: truncated, unknown, too large.
Picture decode_picture(std::span<const std::uint8_t> file);
Picture load_picture(const std::filesystem::path& path);

/// Names for options and reports: "torch", "tf".
std::string to_string(Normalization normalization);

/// The same as byte * scale + shift, by channel.
PictureInput picture_input(Normalization normalization);

/// From a decoded picture to a model's input.
struct Preprocessing {
  Normalization normalization = Normalization::Torch;
  int resize_to = 256;  ///< length of the short side before the crop
  int crop_width = 224;
  int crop_height = 224;
  Layout layout = Layout::NCHW;

  /// For a model's input: short side 256, or input / 0.875 for inputs that do not fit into that. Throws
  /// UsageError when the input is no picture of three channels.
  static Preprocessing for_input(const TensorDesc& input, Normalization normalization);

  std::size_t elements() const;
  std::string describe() const;  ///< one line for reports, naming the filter
};

/// Resizes, crops, normalises; writes elements() floats in the layout asked for. Throws PictureError when the
/// picture is so narrow that resizing it would take a huge one.
void preprocess(const Picture& picture, const Preprocessing& how, std::span<float> out);

/// Resizes and crops only; writes elements() bytes, HWC.
void preprocess(const Picture& picture, const Preprocessing& how, std::span<std::uint8_t> out);

}  // namespace mobicuda::bench
