// Loads a network and names what a picture shows:
//
//   classify MODEL.onnx PICTURE [LABELS.txt] [torch|tf]
//
// LABELS.txt has one class a line. "torch" and "tf" say how the model wants its pixels: normalised with
// ImageNet's mean and standard deviation (default), or in [-1, 1]. Runs on the GPU where there is one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>

#if __has_include(<stb/stb_image.h>)
#define CLASSIFY_WITH_STB
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#include <stb/stb_image.h>
#pragma GCC diagnostic pop
#endif

namespace {

struct Picture {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> rgb;
};

#ifdef CLASSIFY_WITH_STB

Picture read_picture(const std::string& path) {
  int width = 0;
  int height = 0;
  int channels = 0;
  stbi_uc* pixels = stbi_load(path.c_str(), &width, &height, &channels, 3);
  if (pixels == nullptr) throw std::runtime_error(path + ": " + stbi_failure_reason());
  Picture picture{static_cast<std::size_t>(width), static_cast<std::size_t>(height), {}};
  picture.rgb.assign(pixels, pixels + picture.width * picture.height * 3);
  stbi_image_free(pixels);
  return picture;
}

#else

// Binary PPM with 8 bits a channel.
Picture read_picture(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  Picture picture;
  int maximum = 0;
  file >> magic >> picture.width >> picture.height >> maximum;
  file.get();
  constexpr std::size_t kMaxExtent = 1 << 14;
  if (!file || magic != "P6" || maximum != 255 || picture.width == 0 || picture.height == 0 ||
      picture.width > kMaxExtent || picture.height > kMaxExtent) {
    throw std::runtime_error(path + ": not a binary PPM picture");
  }
  picture.rgb.resize(picture.width * picture.height * 3);
  file.read(reinterpret_cast<char*>(picture.rgb.data()), static_cast<std::streamsize>(picture.rgb.size()));
  if (!file) throw std::runtime_error(path + ": ends too early");
  return picture;
}

#endif

// The largest middle part of the picture with the model's aspect, shrunk or grown to the model's size: each
// output pixel is the mean of the source pixels it covers.
struct Crop {
  double left, top, scale;

  Crop(const Picture& picture, std::size_t width, std::size_t height)
      : scale(std::min(static_cast<double>(picture.width) / static_cast<double>(width),
                       static_cast<double>(picture.height) / static_cast<double>(height))) {
    left = (static_cast<double>(picture.width) - scale * static_cast<double>(width)) / 2;
    top = (static_cast<double>(picture.height) - scale * static_cast<double>(height)) / 2;
  }

  float mean(const Picture& picture, std::size_t x, std::size_t y, std::size_t channel) const {
    const auto range = [this](double start, std::size_t i, std::size_t extent) {
      const auto first = static_cast<std::size_t>(start + scale * static_cast<double>(i));
      const auto last = static_cast<std::size_t>(start + scale * static_cast<double>(i + 1));
      return std::array{std::min(first, extent - 1), std::min(std::max(last, first + 1), extent)};
    };
    const auto [x0, x1] = range(left, x, picture.width);
    const auto [y0, y1] = range(top, y, picture.height);
    std::size_t sum = 0;
    for (std::size_t row = y0; row < y1; ++row) {
      for (std::size_t column = x0; column < x1; ++column)
        sum += picture.rgb[(row * picture.width + column) * 3 + channel];
    }
    return static_cast<float>(sum) / static_cast<float>((x1 - x0) * (y1 - y0));
  }
};

std::vector<float> to_input(const Picture& picture, const mobicuda::TensorDesc& desc, bool tf) {
  constexpr std::array kMean{0.485F, 0.456F, 0.406F};
  constexpr std::array kStd{0.229F, 0.224F, 0.225F};
  if (desc.shape.rank() != 4 || desc.shape[1] != 3) throw std::runtime_error("the model does not read pictures");
  const auto height = static_cast<std::size_t>(desc.shape[2]);
  const auto width = static_cast<std::size_t>(desc.shape[3]);
  const Crop crop(picture, width, height);
  std::vector<float> input(3 * height * width);
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        const float pixel = crop.mean(picture, x, y, c);
        const std::size_t at =
            desc.layout == mobicuda::Layout::NCHW ? (c * height + y) * width + x : (y * width + x) * 3 + c;
        input[at] = tf ? pixel / 127.5F - 1.0F : (pixel / 255.0F - kMean[c]) / kStd[c];
      }
    }
  }
  return input;
}

std::shared_ptr<const mobicuda::Engine> compile(const mobicuda::Graph& graph) {
  try {
    return mobicuda::make_custom_backend()->compile(graph, {});
  } catch (const mobicuda::Error& error) {
    if (error.code() != mobicuda::ErrorCode::device_unavailable) throw;
    return mobicuda::make_cpu_backend()->compile(graph, {});
  }
}

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void print_best(const std::vector<float>& logits, const std::vector<std::string>& labels) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t shown = std::min<std::size_t>(5, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string name = order[i] < labels.size() ? labels[order[i]] : "class " + std::to_string(order[i]);
    std::cout << logits[order[i]] << "  " << name << '\n';
  }
}

void classify(const std::vector<std::string>& arguments) {
  const bool tf = arguments.back() == "tf";
  const bool normalization_given = tf || arguments.back() == "torch";
  const std::size_t files = arguments.size() - (normalization_given ? 1 : 0);
  if (files < 2 || files > 3) throw std::runtime_error("usage: classify MODEL.onnx PICTURE [LABELS.txt] [torch|tf]");
  const auto labels = files == 3 ? read_lines(arguments[2]) : std::vector<std::string>{};

  const mobicuda::Graph graph = mobicuda::onnx_import::load(arguments[0]);
  const auto engine = compile(graph);
  const auto session = engine->create_session();

  const std::vector<float> input = to_input(read_picture(arguments[1]), engine->input(), tf);
  std::vector<float> logits(static_cast<std::size_t>(engine->output().shape.elements()));
  session->run(input, logits);
  std::cout << "on " << engine->backend() << ":\n";
  print_best(logits, labels);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::runtime_error("usage: classify MODEL.onnx PICTURE [LABELS.txt] [torch|tf]");
    classify({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "classify: " << error.what() << '\n';
    return 1;
  }
}
