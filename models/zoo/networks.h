#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace mobicuda::onnx_schema {
class ModelProto;
}

namespace mobicuda::zoo {

/// A classifier other than MobileNetV2 that the zoo can write, with its published input and outputs.
struct NetworkInfo {
  std::string_view name;   ///< as on the command line: "resnet50"
  std::string_view title;  ///< "ResNet-50"
  std::int64_t input_channels;
  std::int64_t resolution;
  std::int64_t least_resolution;  ///< equal to `resolution` where fully connected layers fix it
  std::int64_t classes;
  std::int64_t least_opset;
  bool batchnorm;  ///< has layers of it

  bool fixed_resolution() const { return least_resolution == resolution; }
};

constexpr std::int64_t kLargestResolution = 1024;
constexpr std::int64_t kLargestOpset = 23;

std::span<const NetworkInfo> networks();

/// nullptr where there is none of that name.
const NetworkInfo* find_network(std::string_view name);

/// What to write. Zeros stand for the network's own.
struct NetworkOptions {
  std::int64_t height = 0;
  std::int64_t picture_width = 0;
  std::int64_t classes = 0;
  std::int64_t opset = 17;
  std::int64_t batch = 0;      ///< 0: dynamic, named "N"
  bool fold_batchnorm = true;  ///< false: BatchNormalization nodes stay
  bool softmax = false;
  std::uint64_t seed = 1;
};

/// Builds a network layer by layer as published, with seeded weights: input "input" (N, C, height, picture_width),
/// output "output" (N, classes). Activations stay within a few deviations of 1 for pictures of mean 0 and variance 1.
/// The same options give the same bytes on every platform; folding, opset and softmax do not change the weights that
/// are drawn. Throws Error(invalid_argument) that names the network or option. Thread-safe.
onnx_schema::ModelProto build_network(std::string_view name, const NetworkOptions& options);

}  // namespace mobicuda::zoo
