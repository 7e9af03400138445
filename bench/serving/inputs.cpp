#include "serving/inputs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

namespace mobicuda::bench {
namespace {

constexpr int kPatches = 8;  // of colour, along a side: noise of single pixels would look alike to any network

struct ImageShape {
  std::int64_t channels, height, width;
  bool channels_last;
};

ImageShape shape_of(const inference::TensorMetadata& input) {
  if (input.shape_size() == 4 && input.datatype() == "UINT8" && input.shape(3) > 0) {
    return {input.shape(3), input.shape(1), input.shape(2), true};
  }
  if (input.shape_size() == 4 && input.datatype() == "FP32" && input.shape(1) > 0) {
    return {input.shape(1), input.shape(2), input.shape(3), false};
  }
  throw std::invalid_argument("input '" + input.name() +
                              "' takes no images of UINT8 (N, H, W, C) or FP32 (N, C, H, W)");
}

// A byte for each pixel and channel, from -1 to 1 as FP32.
std::string image_of(const ImageShape& shape, std::mt19937& random) {
  std::uniform_int_distribution<int> value(0, 255);
  std::array<std::array<std::array<std::uint8_t, 16>, kPatches>, kPatches> patches{};
  for (auto& row : patches) {
    for (auto& patch : row) {
      for (std::uint8_t& channel : patch) channel = static_cast<std::uint8_t>(value(random));
    }
  }
  std::string bytes;
  const auto add = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    const auto& patch = patches[static_cast<std::size_t>(y * kPatches / shape.height)]
                               [static_cast<std::size_t>(x * kPatches / shape.width)];
    const std::uint8_t byte = patch[static_cast<std::size_t>(c) % patch.size()];
    if (shape.channels_last) {
      bytes.push_back(static_cast<char>(byte));
      return;
    }
    const float number = (static_cast<float>(byte) / 127.5F) - 1.0F;
    std::array<char, sizeof number> raw{};
    std::memcpy(raw.data(), &number, sizeof number);
    bytes.append(raw.data(), raw.size());
  };
  if (shape.channels_last) {
    for (std::int64_t y = 0; y < shape.height; ++y) {
      for (std::int64_t x = 0; x < shape.width; ++x) {
        for (std::int64_t c = 0; c < shape.channels; ++c) add(c, y, x);
      }
    }
  } else {
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      for (std::int64_t y = 0; y < shape.height; ++y) {
        for (std::int64_t x = 0; x < shape.width; ++x) add(c, y, x);
      }
    }
  }
  return bytes;
}

// As the protocol has it: its length in front, little-endian.
std::string element_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file || content.empty()) throw std::invalid_argument(path.string() + " cannot be read");
  const auto length = static_cast<std::uint32_t>(content.size());
  std::array<char, sizeof length> raw{};
  std::memcpy(raw.data(), &length, sizeof length);
  return std::string(raw.data(), raw.size()) + content;
}

}  // namespace

Inputs make_inputs(const inference::ModelMetadataResponse& model, int sets, int images, unsigned seed,
                   const std::vector<std::filesystem::path>& files) {
  if (model.inputs_size() != 1) {
    throw std::invalid_argument("the model has " + std::to_string(model.inputs_size()) + " inputs, not one");
  }
  const inference::TensorMetadata& input = model.inputs(0);
  Inputs inputs{input.name(), input.datatype(), {images}, {}};
  if (input.datatype() == "BYTES") {
    if (files.empty()) throw std::invalid_argument("the model takes encoded pictures: name some with --files");
    inputs.shape.push_back(1);
    std::size_t next = 0;
    for (int i = 0; i < sets; ++i) {
      std::string& set = inputs.sets.emplace_back();
      for (int image = 0; image < images; ++image) set += element_of(files[next++ % files.size()]);
    }
    return inputs;
  }
  const ImageShape shape = shape_of(input);
  inputs.shape.insert(inputs.shape.end(), std::next(input.shape().begin()), input.shape().end());
  std::mt19937 random(seed);
  for (int i = 0; i < sets; ++i) {
    std::string& set = inputs.sets.emplace_back();
    for (int image = 0; image < images; ++image) set += image_of(shape, random);
  }
  return inputs;
}

}  // namespace mobicuda::bench
