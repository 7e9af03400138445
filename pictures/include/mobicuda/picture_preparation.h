#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/export.h>
#include <mobicuda/types.h>

/// From encoded pictures to the input of a network, on the CPU: libmobicuda_pictures.
namespace mobicuda::pictures {

/// A decoded picture: 8-bit RGB, rows from top to bottom, no padding between rows.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;  ///< height x width x 3
};

/// Whether a picture is turned as its EXIF data say (JPEG, PNG). What they say is one of eight values; anything else,
/// damaged EXIF data included, leaves the picture as it is stored.
enum class Orientation : std::uint8_t { Exif, Ignore };

/// What is decoded, and how.
struct DecodeOptions {
  Orientation orientation = Orientation::Exif;
  /// The most pixels of a picture: a few bytes of a file may describe many. 1 to 2^27.
  std::int64_t max_pixels = std::int64_t{1} << 27;
  /// The most bytes of an encoded picture, 1 to 2^31 - 1.
  std::int64_t max_bytes = std::int64_t{3} << 27;
};

/// Decodes JPEG (libjpeg-turbo: accurate DCT, smooth chroma), PNG, BMP or PNM (stb_image) by content, whatever the
/// file's name. Grey and CMYK become RGB, alpha is dropped, 16 bits become 8. Throws Error(io), whose where() is `name`
/// and whose message() says why: truncated, unknown, damaged, too large; Error(invalid_argument) on options out of
/// range. Thread-safe.
MOBICUDA_API Picture decode_picture(std::span<const std::uint8_t> file, const DecodeOptions& options = {},
                                    std::string_view name = "picture");
/// The same of a file; Error(io) also where it cannot be read or is no regular file.
MOBICUDA_API Picture load_picture(const std::filesystem::path& path, const DecodeOptions& options = {});

/// How pixels become numbers: Torch ((p / 255 - mean) / std by channel, ImageNet's mean and standard deviation), Tf
/// (p / 127.5 - 1).
enum class Normalization : std::uint8_t { Torch, Tf };

MOBICUDA_API std::string_view to_string(Normalization normalization) noexcept;  ///< "torch", "tf"

/// The same as byte * scale + shift, by channel: for EngineOptions::picture_input.
MOBICUDA_API PictureInput picture_input(Normalization normalization);

/// From a decoded picture to a network's input: the short side resized, the middle cut out, pixels normalised.
struct Preprocessing {
  Normalization normalization = Normalization::Torch;
  int resize_to = 256;  ///< length of the short side before the crop, at least the crop's sides
  int crop_width = 224;
  int crop_height = 224;
  Layout layout = Layout::NCHW;

  /// For a network's input, F32 or U8: short side 256, or input / 0.875 for inputs that do not fit into that. Throws
  /// Error(unsupported) when the input is no picture of three channels.
  MOBICUDA_API static Preprocessing for_input(const TensorDesc& input, Normalization normalization);

  /// Numbers of a prepared picture.
  std::size_t elements() const noexcept {
    return std::size_t{3} * static_cast<std::size_t>(crop_width) * static_cast<std::size_t>(crop_height);
  }
  MOBICUDA_API std::string describe() const;  ///< one line for reports, naming the filter
};

/// Resizes (Pillow's BILINEAR with antialias, bit for bit), crops, normalises; writes elements() floats in the layout
/// asked for. Only what the crop shows is computed. Throws Error(invalid_argument) where `out` has another size, the
/// crop is larger than what it is cut from or the picture contradicts itself, Error(io) when the picture is so narrow
/// that resizing it would take a huge one. Thread-safe.
MOBICUDA_API void preprocess(const Picture& picture, const Preprocessing& how, std::span<float> out);

/// Resizes and crops only; writes elements() bytes, HWC.
MOBICUDA_API void preprocess(const Picture& picture, const Preprocessing& how, std::span<std::uint8_t> out);

}  // namespace mobicuda::pictures
