#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace mobicuda::onnx_schema {
class ModelProto;
}

namespace mobicuda::zoo {

/// Where the zeros around a 3x3 window go.
enum class PaddingStyle : std::uint8_t {
  Torch,  ///< (1, 1, 1, 1) everywhere
  Tf,     ///< TensorFlow's SAME: (0, 0, 1, 1) at stride 2 where the extent is even
};

/// How the classifier is written.
enum class HeadStyle : std::uint8_t {
  Gemm,     ///< GlobalAveragePool, Flatten, Gemm: torchvision today
  MatMul,   ///< ReduceMean over (2, 3), MatMul, Add: TensorFlow
  Reshape,  ///< GlobalAveragePool, Reshape by a Shape/Gather/Unsqueeze/Concat chain, Gemm: older torchvision
};

/// What to write. The defaults are MobileNetV2 1.0 as torchvision's exporter writes it.
struct MobileNetV2Options {
  double width = 1.0;         ///< width multiplier, 0.1 to 4; 0.35 to 1.4 are usual
  std::int64_t height = 224;  ///< of the input picture, 32 to 1024
  std::int64_t picture_width = 224;
  std::int64_t classes = 1000;
  std::int64_t blocks = 17;  ///< inverted residual blocks to keep, 1 to 17; fewer make a small network for tests
  std::int64_t opset = 17;   ///< 7 to 23
  std::int64_t batch = 0;    ///< 0: dynamic, named "N"
  PaddingStyle padding = PaddingStyle::Torch;
  HeadStyle head = HeadStyle::Gemm;
  bool fold_batchnorm = true;  ///< false: BatchNormalization nodes stay
  float batchnorm_epsilon = 1e-5F;
  bool softmax = false;
  std::uint64_t seed = 1;
};

/// Builds the network with seeded weights: input "input" (N, 3, height, picture_width), output "output"
/// (N, classes). Nodes and weights are named after torchvision's modules. Weights are scaled so that
/// activations stay near 1 and logits within about +-10 for pictures of mean 0 and variance 1. The same
/// options give the same bytes on every platform; folding, opset, head and softmax do not change the weights
/// that are drawn. Throws Error(invalid_argument) that names the option out of range. Thread-safe.
onnx_schema::ModelProto build_mobilenet_v2(const MobileNetV2Options& options);

/// Channels of a width multiplier: the multiple of 8 nearest to `channels`, at least 8 and never more than
/// 10 % below it.
std::int64_t make_divisible(double channels);

}  // namespace mobicuda::zoo
