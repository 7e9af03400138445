#include "pictures/decode/decode.h"

#include <stb_image.h>
#include <turbojpeg.h>

#include <memory>
#include <string>
#include <string_view>

#include <mobicuda/error.h>

#include "graph/memory_errors.h"
#include "pictures/decode/jpeg_header.h"
#include "pictures/decode/picture_error.h"
#include "pictures/decode/pnm.h"
#include "pictures/decode/stb_memory.h"
#include "pictures/prepare/channels.h"
#include "pictures/source/reader.h"

namespace mobicuda::pictures {
namespace {

struct DestroyJpeg {
  void operator()(void* handle) const noexcept { tjDestroy(handle); }
};
using JpegHandle = std::unique_ptr<void, DestroyJpeg>;

std::size_t pixels_of(const Picture& picture) {
  return static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height);
}

// libjpeg warns about harmless oddities too; only a file that ends early loses pixels.
bool lost_pixels(void* handle) {
  if (tjGetErrorCode(handle) != TJERR_WARNING) return true;
  const std::string_view message = tjGetErrorStr2(handle);
  return message.find("remature end") != std::string_view::npos || message.find("orrupt") != std::string_view::npos;
}

void decompress(void* handle, std::span<const std::uint8_t> file, const Picture& size, int format,
                std::vector<std::uint8_t>& out) {
  const int status = tjDecompress2(handle, file.data(), static_cast<unsigned long>(file.size()), out.data(), size.width,
                                   0, size.height, format, TJFLAG_ACCURATEDCT);
  if (status != 0 && lost_pixels(handle)) throw PictureError(std::string("bad JPEG: ") + tjGetErrorStr2(handle));
}

// Adobe stores CMYK inverted, so that 255 means no ink.
void cmyk_to_rgb(std::span<const std::uint8_t> cmyk, std::span<std::uint8_t> rgb) {
  for (std::size_t pixel = 0; pixel < rgb.size() / kChannels; ++pixel) {
    const unsigned black = cmyk[4 * pixel + 3];
    for (std::size_t c = 0; c < kChannels; ++c) {
      rgb[kChannels * pixel + c] = static_cast<std::uint8_t>((cmyk[4 * pixel + c] * black + 127) / 255);
    }
  }
}

Picture decode_jpeg(std::span<const std::uint8_t> file, const DecodeOptions& options) {
  const JpegHandle handle(tjInitDecompress());
  if (!handle) throw PictureError("no memory for the JPEG decoder");
  Picture picture;
  int subsampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(handle.get(), file.data(), static_cast<unsigned long>(file.size()), &picture.width,
                          &picture.height, &subsampling, &colours) != 0 &&
      lost_pixels(handle.get())) {
    throw PictureError(std::string("bad JPEG: ") + tjGetErrorStr2(handle.get()));
  }
  require_size(picture.width, picture.height, options);
  picture.rgb.resize(pixels_of(picture) * kChannels);
  if (colours == TJCS_CMYK || colours == TJCS_YCCK) {
    std::vector<std::uint8_t> cmyk(pixels_of(picture) * 4);
    decompress(handle.get(), file, picture, TJPF_CMYK, cmyk);
    cmyk_to_rgb(cmyk, picture.rgb);
  } else {
    decompress(handle.get(), file, picture, TJPF_RGB, picture.rgb);
  }
  return picture;
}

// stb_image fills up BMP pictures that end early; PNG it refuses itself.
void require_whole(std::span<const std::uint8_t> file) {
  constexpr std::size_t kBmpHeader = 6;  // "BM" and the file's length
  if (file.size() < kBmpHeader || file[0] != 'B' || file[1] != 'M') return;
  std::size_t needed = 0;
  for (std::size_t i = 0; i < 4; ++i) needed |= static_cast<std::size_t>(file[2 + i]) << (8 * i);
  if (file.size() < needed) throw PictureError("ends early");
}

// What the largest array of stb_image may take for a picture: it doubles arrays, of the file's data and of what they
// unpack to, until they hold four channels of 16 bits, and of interlaced rows their first and last bytes.
std::size_t most_array_bytes(const Picture& size) {
  constexpr std::size_t kPixel = 4 * 2 + 1;  // and a byte for what deflate adds to data that it cannot shorten
  constexpr std::size_t kRow = 4;
  constexpr std::size_t kLeast = 4096;  // what it begins with
  return 2 * (pixels_of(size) * kPixel + static_cast<std::size_t>(size.height) * kRow + kLeast);
}

Picture decode_other(std::span<const std::uint8_t> file, const DecodeOptions& options) {
  Picture picture;
  const auto size = static_cast<int>(file.size());
  int channels = 0;
  if (stbi_info_from_memory(file.data(), size, &picture.width, &picture.height, &channels) == 0) {
    throw PictureError("not a picture of a known format (JPEG, PNG, BMP, PNM)");
  }
  require_size(picture.width, picture.height, options);
  require_whole(file);
  const StbMemoryLimit limit(most_array_bytes(picture));
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(file.data(), size, &picture.width, &picture.height, &channels, static_cast<int>(kChannels)),
      &stbi_image_free);
  if (!pixels && limit.exceeded()) {
    throw PictureError("holds or unpacks to more data than " + std::to_string(picture.width) + "x" +
                       std::to_string(picture.height) + " pixels take");
  }
  if (!pixels) {
    const char* reason = stbi_failure_reason();  // null where a reader of stb_image's forgot to give one
    throw PictureError(std::string("cannot be decoded: ") + (reason == nullptr ? "damaged data" : reason));
  }
  picture.rgb.assign(pixels.get(), pixels.get() + pixels_of(picture) * kChannels);
  return picture;
}

}  // namespace

void require_size(int width, int height, const DecodeOptions& options) {
  if (width <= 0 || height <= 0) throw PictureError("has no pixels");
  if (static_cast<std::int64_t>(width) * height > options.max_pixels) {
    throw PictureError(std::to_string(width) + "x" + std::to_string(height) + " pixels are more than " +
                       std::to_string(options.max_pixels));
  }
}

void check(const DecodeOptions& options) {
  constexpr DecodeOptions kMost{};
  if (options.max_pixels < 1 || options.max_pixels > kMost.max_pixels) {
    throw Error(
        ErrorCode::invalid_argument, "DecodeOptions::max_pixels",
        "must be from 1 to " + std::to_string(kMost.max_pixels) + ", got " + std::to_string(options.max_pixels));
  }
  if (options.max_bytes < 1 || options.max_bytes > INT32_MAX) {
    throw Error(ErrorCode::invalid_argument, "DecodeOptions::max_bytes",
                "must be from 1 to 2147483647, got " + std::to_string(options.max_bytes));
  }
}

DecodedPicture decode(std::span<const std::uint8_t> file, const DecodeOptions& options) {
  if (file.empty()) throw PictureError("the file is empty");
  if (static_cast<std::int64_t>(file.size()) > options.max_bytes) {
    throw PictureError("has " + std::to_string(file.size()) + " bytes, more than " + std::to_string(options.max_bytes));
  }
  DecodedPicture result;
  const bool jpeg = is_jpeg(file);
  result.stored = jpeg           ? decode_jpeg(file, options)
                  : is_pnm(file) ? decode_pnm(file, options)
                                 : decode_other(file, options);
  if (options.orientation == Orientation::Ignore) return result;
  if (jpeg) {
    if (const auto header = read_jpeg_header(file)) result.orientation = header->orientation;
  } else {
    result.orientation = png_orientation(file);
  }
  return result;
}

Picture decode_picture(std::span<const std::uint8_t> file, const DecodeOptions& options, std::string_view name) {
  return with_memory_errors("decoding " + std::string(name), [&] {
    check(options);
    try {
      DecodedPicture decoded = decode(file, options);
      if (decoded.orientation == kUpright) return std::move(decoded.stored);
      return copied(decoded.view());
    } catch (const PictureError& error) {
      throw Error(ErrorCode::io, std::string(name), error.what());
    }
  });
}

Picture load_picture(const std::filesystem::path& path, const DecodeOptions& options) {
  return with_memory_errors("decoding " + path.string(), [&] {
    check(options);
    EncodedBytes bytes;
    Entry entry;
    entry.path = path;
    if (path.empty()) entry.unreadable = "its path is empty";
    try {
      bytes.read(entry, options.max_bytes);
    } catch (const PictureError& error) {
      throw Error(ErrorCode::io, path.string(), error.what());
    }
    return decode_picture(bytes.span(), options, path.string());
  });
}

}  // namespace mobicuda::pictures
