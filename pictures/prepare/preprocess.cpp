#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <string>

#include <mobicuda/error.h>
#include <mobicuda/picture_preparation.h>

#include "graph/memory_errors.h"
#include "pictures/decode/picture_error.h"
#include "pictures/prepare/channels.h"
#include "pictures/prepare/resize.h"

namespace mobicuda::pictures {
namespace {

constexpr int kDefaultShortSide = 256;
constexpr double kCropFraction = 0.875;  // of the short side, for inputs larger than kDefaultShortSide
constexpr int kMostSide = 1 << 14;       // of a crop, or of the short side
constexpr std::int64_t kMostResized = std::int64_t{1} << 27;

void require_side(const char* what, int side) {
  if (side >= 1 && side <= kMostSide) return;
  throw Error(ErrorCode::invalid_argument, std::string("Preprocessing::") + what,
              "must be from 1 to " + std::to_string(kMostSide) + ", got " + std::to_string(side));
}

std::string sides(int width, int height) { return std::to_string(width) + "x" + std::to_string(height); }

template <class T>
void preprocess_as(const Picture& picture, const Preprocessing& how, std::span<T> out) {
  with_memory_errors("preprocessing a picture", [&] {
    check(how);
    if (out.size() != how.elements()) {
      throw Error(ErrorCode::invalid_argument, "preprocess()",
                  "writes " + std::to_string(how.elements()) + " numbers, got room for " + std::to_string(out.size()));
    }
    if (picture.width < 1 || picture.height < 1 ||
        picture.rgb.size() !=
            static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height) * kChannels) {
      throw Error(ErrorCode::invalid_argument, "preprocess()",
                  "the picture says " + sides(picture.width, picture.height) + " and has " +
                      std::to_string(picture.rgb.size()) + " bytes");
    }
    try {
      prepare(
          oriented_view(picture.rgb.data(), picture.width, picture.height, std::int64_t{picture.width} * 3, kUpright),
          how, out);
    } catch (const PictureError& error) {
      throw Error(ErrorCode::io, "picture", error.what());
    }
  });
}

}  // namespace

std::string_view to_string(Normalization normalization) noexcept {
  return normalization == Normalization::Torch ? "torch" : "tf";
}

const PixelScale& pixel_scale(Normalization normalization) noexcept {
  return normalization == Normalization::Torch ? kTorchScale : kTfScale;
}

PictureInput picture_input(Normalization normalization) {
  const PixelScale& scale = pixel_scale(normalization);
  PictureInput input;
  for (std::size_t c = 0; c < kChannels; ++c) {
    input.scale[c] = 1.0F / (scale.divisor * scale.deviation[c]);
    input.shift[c] = -scale.mean[c] / scale.deviation[c];
  }
  return input;
}

Preprocessing Preprocessing::for_input(const TensorDesc& input, Normalization normalization) {
  if (input.shape.rank() != 4 || input.shape[1] != static_cast<std::int64_t>(kChannels) ||
      std::max(input.shape[2], input.shape[3]) > kMostSide) {
    throw Error(ErrorCode::unsupported, "the network's input",
                "pictures have 3 channels, this network reads " + to_string(input.shape));
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

std::string Preprocessing::describe() const {
  std::ostringstream text;
  text << "short side resized to " << resize_to << ", " << kFilterName << "; centre crop "
       << sides(crop_width, crop_height) << "; "
       << (normalization == Normalization::Torch
               ? "torch: (pixel / 255 - mean) / std, mean .485 .456 .406, std .229 .224 .225"
               : "tf: pixel / 127.5 - 1");
  return text.str();
}

void check(const Preprocessing& how) {
  require_side("crop_width", how.crop_width);
  require_side("crop_height", how.crop_height);
  if (how.resize_to < std::max(how.crop_width, how.crop_height) || how.resize_to > 2 * kMostSide) {
    throw Error(ErrorCode::invalid_argument, "Preprocessing::resize_to",
                std::to_string(how.resize_to) + " does not hold a crop of " + sides(how.crop_width, how.crop_height),
                "give it at least the crop's longer side, and at most " + std::to_string(2 * kMostSide));
  }
}

CropGeometry crop_geometry(int width, int height, const Preprocessing& how) {
  const std::int64_t shorter = std::min(width, height);
  const std::int64_t longer = std::max(width, height);
  if (how.resize_to * longer / shorter > kMostResized / how.resize_to) {
    throw PictureError("is too narrow to be resized");
  }
  const int scaled = static_cast<int>(how.resize_to * longer / shorter);
  CropGeometry crop;
  crop.width = width <= height ? how.resize_to : scaled;
  crop.height = width <= height ? scaled : how.resize_to;
  crop.left = (crop.width - how.crop_width) / 2;
  crop.top = (crop.height - how.crop_height) / 2;
  return crop;
}

void prepare(const PixelView& picture, const Preprocessing& how, std::span<std::uint8_t> out) {
  resize_crop(picture, crop_geometry(picture.width, picture.height, how), how.crop_width, how.crop_height, out);
}

void prepare(const PixelView& picture, const Preprocessing& how, std::span<float> out) {
  std::vector<std::uint8_t> bytes(how.elements());
  prepare(picture, how, std::span(bytes));
  const PixelScale& scale = pixel_scale(how.normalization);
  std::array<std::array<float, 256>, kChannels> value{};
  for (std::size_t c = 0; c < kChannels; ++c) {
    for (std::size_t pixel = 0; pixel < value[c].size(); ++pixel) {
      value[c][pixel] = pixel_value(static_cast<std::uint8_t>(pixel), scale, static_cast<int>(c));
    }
  }
  const std::size_t area = bytes.size() / kChannels;
  for (std::size_t i = 0; i < area; ++i) {
    for (std::size_t c = 0; c < kChannels; ++c) {
      out[how.layout == Layout::NCHW ? c * area + i : i * kChannels + c] = value[c][bytes[i * kChannels + c]];
    }
  }
}

void preprocess(const Picture& picture, const Preprocessing& how, std::span<float> out) {
  preprocess_as(picture, how, out);
}

void preprocess(const Picture& picture, const Preprocessing& how, std::span<std::uint8_t> out) {
  preprocess_as(picture, how, out);
}

}  // namespace mobicuda::pictures
