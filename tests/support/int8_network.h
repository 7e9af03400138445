// Networks of quantised operations with random constants, for engines that must give the same bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/graph.h>

#include "support/random.h"

namespace mobicuda::test {

/// A GraphBuilder whose last value is quantised; scales and zero points are drawn, so that bytes are spread.
class Int8Network {
 public:
  /// From the network's floats, which lie in [-1, 1).
  Int8Network(Shape input, DType dtype) : builder_("int8"), dtype_(dtype) {
    last_ = builder_.set_input("x", {DType::F32, input, Layout::NCHW});
    add(Quantize{result(1.0F)}, {last_});
  }

  ValueId last() const { return last_; }
  void continue_from(ValueId id) { last_ = id; }
  const Shape& shape() const { return builder_.value(last_).desc.shape; }

  /// Groups 0: depthwise. `low`: of the range, as a Relu makes it; `weights` as TFLite has them (I8), or with a zero
  /// point (U8).
  ValueId conv(std::int64_t channels, std::int64_t kernel, std::int64_t stride = 1, std::int64_t groups = 1,
               bool relu = true, DType weights = DType::I8, std::int32_t weight_zero = 128) {
    const std::int64_t in = shape()[1];
    QuantizedConv2d op;
    op.strides = {stride, stride};
    op.pads = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
    op.groups = groups == 0 ? in : groups;
    op.result = result(2.0F);
    if (relu) op.result.range.low = op.result.quantization.zero_point;
    return product(op, Shape{channels, in / op.groups, kernel, kernel}, weights, weight_zero);
  }

  /// Real numbers where `real`.
  ValueId gemm(std::int64_t features, bool real) {
    QuantizedGemm op;
    op.result = real ? QuantizedResult::real() : result(2.0F);
    return product(op, Shape{features, shape()[1]}, DType::I8, 0);
  }

  ValueId sum(ValueId other) { return add(QuantizedAdd{result(3.0F)}, {last_, other}); }
  ValueId requantize(float most) { return add(Requantize{result(most)}, {last_}); }
  ValueId max_pool(std::int64_t kernel, std::int64_t stride) {
    return add(pool(PoolKind::Max, kernel, stride), {last_});
  }
  ValueId average_pool(std::int64_t kernel, std::int64_t stride) {
    return add(QuantizedAveragePool{pool(PoolKind::Average, kernel, stride), result(1.5F)}, {last_});
  }
  void flatten_mean() {
    Pool2d window;
    window.kind = PoolKind::Average;
    window.kernel = {shape()[2], shape()[3]};
    add(QuantizedAveragePool{window, result(0.5F)}, {last_});
    add(Reshape{Shape{1, shape()[1]}}, {last_});
  }
  ValueId dequantize() { return add(Dequantize{}, {last_}); }

  /// MobileNetV2's block.
  void block(std::int64_t hidden, std::int64_t channels, std::int64_t stride) {
    const ValueId x = last_;
    const bool residual = stride == 1 && shape()[1] == channels;
    if (hidden != shape()[1]) conv(hidden, 1);
    conv(hidden, 3, stride, 0);
    conv(channels, 1, 1, 1, false);
    if (residual) sum(x);
  }

  ValueId add(Op op, std::vector<ValueId> inputs) {
    const std::string name = "n" + std::to_string(nodes_);
    Origin origin;
    origin.nodes.push_back({nodes_++, name, std::string(op_name(op))});
    last_ = builder_.add_node(std::move(op), std::move(inputs), std::move(origin), name + ".out");
    return last_;
  }

  Graph build() && { return std::move(builder_).build(last_); }

 private:
  float draw(float low, float high) { return random_uniform(++seed_, 1, low, high).front(); }

  /// Of real numbers of about that size.
  QuantizedResult result(float most) {
    constexpr float kSteps = 127.0F;
    const IntegerRange range = range_of(dtype_);
    const auto middle = static_cast<std::int32_t>(draw(-30.0F, 30.0F)) + (range.low + range.high + 1) / 2;
    return QuantizedResult::of(dtype_, {most / kSteps * draw(0.8F, 1.2F), middle});
  }

  static Pool2d pool(PoolKind kind, std::int64_t kernel, std::int64_t stride) {
    Pool2d op;
    op.kind = kind;
    op.kernel = {kernel, kernel};
    op.strides = {stride, stride};
    op.pads = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
    return op;
  }

  template <class Product>
  ValueId product(const Product& op, const Shape& shape_of_weight, DType weights, std::int32_t weight_zero) {
    const std::string name = "c" + std::to_string(nodes_);
    const auto count = static_cast<std::size_t>(shape_of_weight.elements());
    const auto channels = static_cast<std::size_t>(shape_of_weight[0]);
    const std::size_t each_channel = count / channels;
    const auto products = static_cast<float>(each_channel);
    HostTensor weight(weights, shape_of_weight);
    const std::vector<float> values = random_uniform(++seed_, count, -127.0F, 127.99F);
    for (std::size_t i = 0; i < count; ++i) {
      const int shift = weights == DType::U8 ? 128 : 0;
      weight.bytes()[i] = static_cast<std::byte>(static_cast<std::uint8_t>(static_cast<int>(values[i]) + shift));
    }
    // Sums of so many products are about as large as the inputs.
    const float typical = 1.0F / (73.0F * std::sqrt(products));
    const std::vector<float> scales = random_uniform(++seed_, channels, 0.7F * typical, 1.3F * typical);
    std::vector<std::int32_t> bias;
    for (const float value : random_uniform(++seed_, channels, -2000.0F, 2000.0F)) {
      bias.push_back(static_cast<std::int32_t>(value));
    }
    const Shape each{shape_of_weight[0]};
    const ValueId of_weight = builder_.add_constant(name + ".w", std::move(weight));
    const ValueId of_scale = builder_.add_constant(name + ".s", HostTensor::of<float>(each, scales));
    ValueId of_zero = kNoValue;
    if (weights == DType::U8) {
      of_zero = builder_.add_constant(
          name + ".z", HostTensor::of<std::int32_t>(each, std::vector<std::int32_t>(channels, weight_zero)));
    }
    const ValueId of_bias = builder_.add_constant(name + ".b", HostTensor::of<std::int32_t>(each, bias));
    return add(op, {last_, of_weight, of_scale, of_zero, of_bias});
  }

  GraphBuilder builder_;
  DType dtype_;
  ValueId last_ = kNoValue;
  std::uint32_t seed_ = 0;
  std::int64_t nodes_ = 0;
};

/// A small MobileNetV2: first layer, blocks with and without expansion, stride and residual, head, classifier.
inline Graph int8_mobilenet(DType dtype, std::int64_t size = 32) {
  Int8Network network(Shape{1, 3, size, size}, dtype);
  network.conv(32, 3, 2);
  network.block(32, 16, 1);
  network.block(96, 24, 2);
  network.block(144, 24, 1);
  network.block(144, 32, 2);
  network.block(192, 32, 1);
  network.conv(80, 1);
  network.flatten_mean();
  network.gemm(10, true);
  return std::move(network).build();
}

/// What the blocks leave out: groups, wide windows, windows of pools, another quantisation, real numbers in between.
inline Graph int8_mixture(DType dtype) {
  Int8Network network(Shape{1, 5, 19, 17}, dtype);
  network.conv(24, 5, 2, 1, false, DType::U8);
  network.max_pool(3, 2);
  const ValueId x = network.last();
  network.conv(48, 3, 1, 6);
  network.conv(24, 3, 1, 1, false);
  network.sum(x);
  network.requantize(1.0F);
  network.conv(24, 5, 1, 0);
  network.sum(network.requantize(0.7F));
  network.average_pool(3, 1);
  network.dequantize();
  return std::move(network).build();
}

}  // namespace mobicuda::test
