#include "bench_engine/pictures/images.h"

#include <stb_image.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "bench_engine/model/exit_codes.h"
#include "bench_engine/pictures/stb_memory.h"

namespace mobicuda::bench {
namespace {

constexpr std::int64_t kMaxPixels = std::int64_t{1} << 27;  // what a small file may unpack to
constexpr int kDefaultShortSide = 256;
constexpr std::array<float, kChannels> kMean{0.485F, 0.456F, 0.406F};
constexpr std::array<float, kChannels> kStd{0.229F, 0.224F, 0.225F};
constexpr double kCropFraction = 0.875;  // of the short side, for inputs larger than kDefaultShortSide

struct DestroyJpeg {
  void operator()(void* handle) const noexcept { tjDestroy(handle); }
};
using JpegHandle = std::unique_ptr<void, DestroyJpeg>;

void require_size(int width, int height) {
  if (width <= 0 || height <= 0) throw PictureError("has no pixels");
  if (static_cast<std::int64_t>(width) * height > kMaxPixels) {
    throw PictureError(std::to_string(width) + "x" + std::to_string(height) + " pixels are more than " +
                       std::to_string(kMaxPixels));
  }
}

std::size_t pixels_of(const Picture& picture) {
  return static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height);
}

bool is_jpeg(std::span<const std::uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xFF && file[1] == 0xD8 && file[2] == 0xFF;
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

Picture decode_jpeg(std::span<const std::uint8_t> file) {
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
  require_size(picture.width, picture.height);
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

// Bytes before the pixels of a PNM file: magic, width, height and maximum, with comments between.
std::size_t pnm_header(std::span<const std::uint8_t> file) {
  constexpr int kWords = 4;
  const auto space = [&](std::size_t i) { return file[i] == ' ' || (file[i] >= '\t' && file[i] <= '\r'); };
  std::size_t at = 0;
  for (int word = 0; word < kWords; ++word) {
    while (at < file.size() && (space(at) || file[at] == '#')) {
      if (file[at] == '#') {
        while (at < file.size() && file[at] != '\n') ++at;
      } else {
        ++at;
      }
    }
    while (at < file.size() && !space(at)) ++at;
  }
  return at + 1;
}

// stb_image fills up pictures of the uncompressed formats that end early; PNG it refuses itself.
void require_whole(std::span<const std::uint8_t> file, const Picture& size, int channels) {
  constexpr std::size_t kBmpHeader = 6;  // "BM" and the file's length
  std::size_t needed = 0;
  if (file.size() >= kBmpHeader && file[0] == 'B' && file[1] == 'M') {
    for (std::size_t i = 0; i < 4; ++i) needed |= static_cast<std::size_t>(file[2 + i]) << (8 * i);
  } else if (file[0] == 'P') {
    needed = pnm_header(file) + pixels_of(size) * static_cast<std::size_t>(channels);
  }
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

Picture decode_other(std::span<const std::uint8_t> file) {
  Picture picture;
  const auto size = static_cast<int>(file.size());
  int channels = 0;
  if (stbi_info_from_memory(file.data(), size, &picture.width, &picture.height, &channels) == 0) {
    throw PictureError("not a picture of a known format (JPEG, PNG, BMP, PNM)");
  }
  require_size(picture.width, picture.height);
  require_whole(file, picture, channels);
  const StbMemoryLimit limit(most_array_bytes(picture));
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(file.data(), size, &picture.width, &picture.height, &channels, static_cast<int>(kChannels)),
      &stbi_image_free);
  if (!pixels && limit.exceeded()) {
    throw PictureError("holds or unpacks to more data than " + std::to_string(picture.width) + "x" +
                       std::to_string(picture.height) + " pixels take");
  }
  if (!pixels) throw PictureError(std::string("cannot be decoded: ") + stbi_failure_reason());
  picture.rgb.assign(pixels.get(), pixels.get() + pixels_of(picture) * kChannels);
  return picture;
}

Picture resize_and_crop(const Picture& picture, const Preprocessing& how) {
  const std::int64_t shorter = std::min(picture.width, picture.height);
  const std::int64_t longer = std::max(picture.width, picture.height);
  if (how.resize_to * longer / shorter > kMaxPixels / how.resize_to) throw PictureError("is too narrow to be resized");
  return centre_crop(resize_short_side(picture, how.resize_to), how.crop_width, how.crop_height);
}

}  // namespace

Picture decode_picture(std::span<const std::uint8_t> file) {
  if (file.empty()) throw PictureError("the file is empty");
  if (file.size() > static_cast<std::size_t>(kMaxPixels) * kChannels) throw PictureError("the file is too large");
  return is_jpeg(file) ? decode_jpeg(file) : decode_other(file);
}

Picture load_picture(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw PictureError(std::string("cannot be opened: ") + std::strerror(errno));
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) throw PictureError("cannot be read");
  return decode_picture({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

std::string to_string(Normalization normalization) { return normalization == Normalization::Torch ? "torch" : "tf"; }

Preprocessing Preprocessing::for_input(const TensorDesc& input, Normalization normalization) {
  if (input.shape.rank() != 4 || input.shape[1] != static_cast<std::int64_t>(kChannels)) {
    throw UsageError("--images needs a model that reads pictures of 3 channels, this one reads " +
                     mobicuda::to_string(input.shape));
  }
  Preprocessing result;
  result.normalization = normalization;
  result.crop_height = static_cast<int>(input.shape[2]);
  result.crop_width = static_cast<int>(input.shape[3]);
  result.layout = input.layout;
  const int larger = std::max(result.crop_height, result.crop_width);
  result.resize_to =
      larger <= kDefaultShortSide ? kDefaultShortSide : static_cast<int>(std::lround(larger / kCropFraction));
  return result;
}

std::size_t Preprocessing::elements() const {
  return kChannels * static_cast<std::size_t>(crop_width) * static_cast<std::size_t>(crop_height);
}

std::string Preprocessing::describe() const {
  std::ostringstream text;
  text << "short side resized to " << resize_to << ", " << kFilterName << "; centre crop " << crop_width << "x"
       << crop_height << "; "
       << (normalization == Normalization::Torch
               ? "torch: (pixel / 255 - mean) / std, mean .485 .456 .406, std .229 .224 .225"
               : "tf: pixel / 127.5 - 1");
  return text.str();
}

PictureInput picture_input(Normalization normalization) {
  PictureInput input;
  for (std::size_t c = 0; c < kChannels; ++c) {
    const bool torch = normalization == Normalization::Torch;
    input.scale[c] = torch ? 1.0F / (255.0F * kStd[c]) : 1.0F / 127.5F;
    input.shift[c] = torch ? -kMean[c] / kStd[c] : -1.0F;
  }
  return input;
}

void preprocess(const Picture& picture, const Preprocessing& how, std::span<float> out) {
  const Picture crop = resize_and_crop(picture, how);
  std::array<std::array<float, 256>, kChannels> value{};
  for (std::size_t c = 0; c < kChannels; ++c) {
    for (std::size_t pixel = 0; pixel < value[c].size(); ++pixel) {
      const auto p = static_cast<float>(pixel);
      value[c][pixel] =
          how.normalization == Normalization::Torch ? (p / 255.0F - kMean[c]) / kStd[c] : p / 127.5F - 1.0F;
    }
  }
  const std::size_t area = pixels_of(crop);
  for (std::size_t i = 0; i < area; ++i) {
    for (std::size_t c = 0; c < kChannels; ++c) {
      const std::size_t to = how.layout == Layout::NCHW ? c * area + i : i * kChannels + c;
      out[to] = value[c][crop.rgb[i * kChannels + c]];
    }
  }
}

void preprocess(const Picture& picture, const Preprocessing& how, std::span<std::uint8_t> out) {
  const Picture crop = resize_and_crop(picture, how);
  std::copy(crop.rgb.begin(), crop.rgb.end(), out.begin());
}

}  // namespace mobicuda::bench
