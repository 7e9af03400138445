#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/graph.h>

#include "support/random.h"

namespace mobicuda::test {

/// GraphBuilder with random weights and short names, for tests that need a network of a certain form.
class TestNetwork {
 public:
  explicit TestNetwork(Shape input, Layout layout = Layout::NCHW) : builder_("test") {
    last_ = builder_.set_input("x", {DType::F32, input, layout});
  }

  ValueId last() const { return last_; }
  GraphBuilder& builder() { return builder_; }

  ValueId constant(const Shape& shape, float lo = -0.5F, float hi = 0.5F) {
    const auto values = random_uniform(++seed_, static_cast<std::size_t>(shape.elements()), lo, hi);
    return builder_.add_constant("c" + std::to_string(seed_), HostTensor::of<float>(shape, values));
  }

  ValueId add(Op op, std::vector<ValueId> inputs, std::string name = {}) {
    if (name.empty()) name = "n" + std::to_string(nodes_);
    Origin origin;
    origin.nodes.push_back({nodes_++, name, std::string(op_name(op))});
    last_ = builder_.add_node(std::move(op), std::move(inputs), std::move(origin), name + ".out");
    return last_;
  }

  /// A convolution of the last value with a square kernel; groups 0 means depthwise.
  ValueId conv(std::int64_t out_channels, std::int64_t kernel, std::int64_t stride = 1, Padding pads = {},
               std::int64_t groups = 1, Activation activation = {}, std::string name = {}) {
    const std::int64_t channels = builder_.value(last_).desc.shape[1];
    Conv2d op;
    op.strides = {stride, stride};
    op.pads = pads;
    op.groups = groups == 0 ? channels : groups;
    op.activation = activation;
    const ValueId weight = constant(Shape{out_channels, channels / op.groups, kernel, kernel});
    return add(op, {last_, weight, constant(Shape{out_channels}), kNoValue}, std::move(name));
  }

  ValueId scale_shift(Activation activation = {}, std::string name = {}) {
    const std::int64_t channels = builder_.value(last_).desc.shape[1];
    return add(ScaleShift{activation}, {last_, constant(Shape{channels}, 0.5F, 1.5F), constant(Shape{channels})},
               std::move(name));
  }

  ValueId gemm(std::int64_t out_features, std::string name = {}) {
    const std::int64_t features = builder_.value(last_).desc.shape[1];
    return add(Gemm{}, {last_, constant(Shape{out_features, features}), constant(Shape{out_features})},
               std::move(name));
  }

  /// Global average pool, flatten and a classifier.
  void head(std::int64_t classes) {
    add(GlobalAveragePool{}, {last_}, "pool");
    add(Reshape{Shape{1, builder_.value(last_).desc.shape[1]}}, {last_}, "flatten");
    gemm(classes, "classifier");
  }

  Graph build() && { return std::move(builder_).build(last_); }
  Graph build(ValueId output) && { return std::move(builder_).build(output); }

 private:
  GraphBuilder builder_;
  ValueId last_ = kNoValue;
  std::uint32_t seed_ = 0;
  std::int64_t nodes_ = 0;
};

/// Two blocks as in MobileNetV3 (HardSwish, HardSigmoid) or EfficientNet (Silu, Sigmoid): expansion, 5x5 filters, gate.
inline Graph gated_blocks(bool smooth) {
  TestNetwork network(Shape{1, 3, 32, 24});
  const auto activate = [&] {
    const ValueId x = network.last();
    if (!smooth) return network.add(Unary{UnaryKind::HardSwish}, {x});
    return network.add(Mul{}, {x, network.add(Unary{UnaryKind::Sigmoid}, {x})});
  };
  network.conv(16, 3, 2, {1, 1, 1, 1});
  activate();
  const ValueId entry = network.last();
  for (const std::int64_t stride : {1, 2}) {
    network.conv(64, 1);
    activate();
    network.conv(64, 5, stride, {2, 2, 2, 2}, 0);
    const ValueId filtered = activate();
    network.add(GlobalAveragePool{}, {filtered});
    network.conv(10, 1, 1, {}, 1, smooth ? Activation::none() : Activation::relu());
    if (smooth) activate();
    network.conv(64, 1, 1, {}, 1, smooth ? Activation::none() : Activation{0.0F, 1.0F});
    if (smooth) network.add(Unary{UnaryKind::Sigmoid}, {network.last()});
    network.add(Mul{}, {filtered, network.last()});
    network.conv(16, 1);
    if (stride == 1) network.add(Add{}, {network.last(), entry});
  }
  network.head(10);
  return std::move(network).build();
}

/// Convolutions with a maximum over 2x2 behind them, as in VGG: the network's first; three that one launch can run with
/// it, of which the second leaves a row and a column out; one whose maximum has windows of its own for those; one that
/// another node reads too.
inline Graph pooled_convolutions() {
  TestNetwork network(Shape{1, 3, 44, 52});
  const auto conv = [&](std::int64_t channels) {
    return network.conv(channels, 3, 1, {1, 1, 1, 1}, 1, Activation{0.0F, 4.0F});
  };
  const auto pool = [&](bool ceil_mode = false) {
    Pool2d op;
    op.kernel = op.strides = {2, 2};
    op.ceil_mode = ceil_mode;
    return network.add(op, {network.last()});
  };
  conv(16);
  pool();
  conv(64);
  conv(72);
  pool();
  conv(136);
  pool();
  conv(32);
  pool(true);
  const ValueId read_twice = conv(24);
  const ValueId pooled = pool(true);
  network.add(GlobalAveragePool{}, {read_twice});
  network.add(Mul{}, {pooled, network.last()});
  network.head(10);
  return std::move(network).build();
}

/// Pairs of pointwise convolutions whose outputs are added, as at a ResNet's projections: of stride 1 and 2, either of
/// them the later one, of channels that are no multiple of a slice; one pair apart for an activation between them, one
/// because another node reads the first output too.
inline Graph summed_convolutions() {
  constexpr Activation kClip{0.0F, 4.0F};
  TestNetwork network(Shape{1, 3, 26, 22});
  const auto input_of = [&](ValueId x) {  // conv() takes the last value
    if (network.last() != x) network.add(Identity{}, {x});
  };
  network.conv(24, 3, 1, {1, 1, 1, 1}, 1, kClip, "entry");
  const auto pair = [&](std::int64_t middle, std::int64_t out, std::int64_t stride, bool projection_first,
                        const Activation& between) {
    const ValueId x = network.last();
    const auto projection = [&] {
      input_of(x);
      return network.conv(out, 1, stride, {}, 1, between);
    };
    ValueId skip = projection_first ? projection() : kNoValue;
    input_of(x);
    network.conv(middle, 3, stride, {1, 1, 1, 1}, 1, kClip);
    const ValueId y = network.conv(out, 1);
    if (!projection_first) skip = projection();
    Add sum;
    sum.activation = kClip;
    network.add(sum, {y, skip});
    return y;
  };
  pair(16, 72, 1, false, Activation::none());
  pair(72, 136, 2, true, Activation::none());
  pair(64, 136, 2, false, Activation::none());
  pair(64, 64, 1, false, kClip);
  const ValueId read_both_ways = network.conv(64, 1);  // its only reader takes it as input and as residual
  network.add(Add{kClip}, {network.conv(64, 1), read_both_ways});
  const ValueId read_twice = pair(64, 64, 1, true, Activation::none());
  const ValueId sum = network.last();
  network.add(GlobalAveragePool{}, {read_twice});
  network.add(Mul{}, {sum, network.last()});
  network.head(10);
  return std::move(network).build();
}

/// Three inverted residual blocks with windows of 5x5: 28x28 with a residual, of stride 2, 14x14 with a residual.
inline Graph wide_window_blocks() {
  constexpr Padding kPads{2, 2, 2, 2};
  TestNetwork network(Shape{1, 3, 28, 28});
  network.conv(24, 3, 1, {1, 1, 1, 1}, 1, Activation::relu6(), "entry");
  const auto block = [&](std::int64_t hidden, std::int64_t out, std::int64_t stride, const std::string& name) {
    const ValueId x = network.last();
    network.conv(hidden, 1, 1, {}, 1, Activation::relu6(), name + ".expand");
    network.conv(hidden, 5, stride, kPads, 0, Activation::relu(), name + ".depthwise");
    const ValueId y = network.conv(out, 1, 1, {}, 1, {}, name + ".project");
    if (stride == 1) network.add(Add{}, {y, x}, name + ".sum");
  };
  block(96, 24, 1, "a");
  block(144, 40, 2, "b");
  block(240, 40, 1, "c");
  network.head(5);
  return std::move(network).build();
}

/// How many nodes of a graph are a T.
template <class T>
int count_of(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += std::holds_alternative<T>(node.op) ? 1 : 0;
  return count;
}

}  // namespace mobicuda::test
