#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/graph.h>

#include "support/random.h"

namespace mobicuda::test {

/// What a test's weights are: their signs decide whether the network computes a result or its magnitude.
enum class WeightKind : std::uint8_t { Signed, Absolute, Integer };

/// Appends nodes with seeded weights to a graph. Two builders with the same calls and seed make the same weights,
/// up to their kind.
class TestGraph {
 public:
  TestGraph(TensorDesc input, std::uint32_t seed, WeightKind kind = WeightKind::Signed)
      : builder_("test"), seed_(seed), kind_(kind), last_(builder_.set_input("x", input)) {}

  ValueId last() const { return last_; }
  const Shape& shape() const { return builder_.value(last_).desc.shape; }

  ValueId constant(Shape shape, float scale) {
    const auto count = static_cast<std::size_t>(shape.elements());
    std::vector<float> values =
        kind_ == WeightKind::Integer ? random_integers(seed_++, count) : random_uniform(seed_++, count, -scale, scale);
    if (kind_ == WeightKind::Absolute) {
      for (float& value : values) value = std::abs(value);
    }
    return builder_.add_constant("w" + std::to_string(seed_), HostTensor::of<float>(shape, values));
  }

  TestGraph& add(Op op, std::vector<ValueId> inputs) {
    const std::string name = "node" + std::to_string(nodes_);
    last_ = builder_.add_node(std::move(op), std::move(inputs), Origin{{{nodes_++, name, "Test"}}}, name);
    return *this;
  }

  /// Weights that keep the activations' size.
  TestGraph& conv(Conv2d op, std::int64_t outputs, std::int64_t kernel_h, std::int64_t kernel_w, bool bias = true) {
    const std::int64_t group_inputs = shape()[1] / op.groups;
    const float scale = 1.7F / std::sqrt(static_cast<float>(group_inputs * kernel_h * kernel_w));
    const ValueId weight = constant(Shape{outputs, group_inputs, kernel_h, kernel_w}, scale);
    const ValueId shift = bias ? constant(Shape{outputs}, 0.5F) : kNoValue;
    return add(op, {last_, weight, shift, kNoValue});
  }

  TestGraph& pointwise(std::int64_t outputs, Activation activation = Activation::none()) {
    Conv2d op;
    op.activation = activation;
    return conv(op, outputs, 1, 1);
  }

  TestGraph& depthwise3x3(std::int64_t stride, Activation activation = Activation::none()) {
    Conv2d op;
    op.groups = shape()[1];
    op.strides = {stride, stride};
    op.pads = {1, 1, 1, 1};
    op.activation = activation;
    return conv(op, shape()[1], 3, 3);
  }

  TestGraph& gemm(std::int64_t outputs, bool bias = true, Activation activation = Activation::none()) {
    const std::int64_t features = shape()[1];
    const ValueId weight = constant(Shape{outputs, features}, 1.7F / std::sqrt(static_cast<float>(features)));
    const ValueId shift = bias ? constant(Shape{outputs}, 0.5F) : kNoValue;
    return add(Gemm{activation}, {last_, weight, shift});
  }

  TestGraph& flatten() { return add(Reshape{Shape{1, shape().elements()}}, {last_}); }

  Graph build() { return std::move(builder_).build(last_); }

 private:
  GraphBuilder builder_;
  std::uint32_t seed_;
  WeightKind kind_;
  ValueId last_;
  std::int64_t nodes_ = 0;
};

/// A convolution, and perhaps its input added to it.
struct ConvCase {
  std::int64_t c, h, w, outputs, kernel_h, kernel_w;
  Conv2d op{};
  bool bias = true;
  bool residual = false;
  Layout input_layout = Layout::NCHW;

  std::int64_t products() const { return c / op.groups * kernel_h * kernel_w; }
};

inline Graph build(const ConvCase& test, WeightKind kind = WeightKind::Signed) {
  TestGraph net({DType::F32, Shape{1, test.c, test.h, test.w}, test.input_layout}, 5, kind);
  const ValueId entry = net.last();
  Conv2d op = test.op;
  // An upper bound would cut off the magnitudes.
  if (kind == WeightKind::Absolute) op.activation = Activation::none();
  net.conv(op, test.outputs, test.kernel_h, test.kernel_w, test.bias);
  if (test.residual) net.add(Add{}, {net.last(), entry});
  return net.build();
}

/// A network with every kind of layer of MobileNetV2, small: stem, inverted residuals with and without the
/// residual and the stride, head, pooling, classifier.
inline Graph small_mobilenet(std::int64_t h, std::int64_t w, std::uint32_t seed) {
  TestGraph net({DType::F32, Shape{1, 3, h, w}, Layout::NCHW}, seed);
  Conv2d stem;
  stem.strides = {2, 2};
  stem.pads = {0, 0, 1, 1};
  net.conv(stem, 16, 3, 3).add(Clip{Activation::relu6()}, {net.last()});
  const auto inverted_residual = [&](std::int64_t expanded, std::int64_t outputs, std::int64_t stride) {
    const ValueId entry = net.last();
    const bool residual = stride == 1 && net.shape()[1] == outputs;
    net.pointwise(expanded).add(Clip{Activation::relu6()}, {net.last()});
    net.depthwise3x3(stride).add(Clip{Activation::relu6()}, {net.last()});
    net.pointwise(outputs);
    if (residual) net.add(Add{}, {net.last(), entry});
  };
  inverted_residual(16, 8, 1);
  inverted_residual(48, 12, 2);
  inverted_residual(72, 12, 1);
  inverted_residual(72, 20, 2);
  net.pointwise(130).add(Clip{Activation::relu6()}, {net.last()});
  net.add(GlobalAveragePool{}, {net.last()}).flatten().gemm(101);
  return net.build();
}

}  // namespace mobicuda::test
