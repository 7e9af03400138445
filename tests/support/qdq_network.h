#pragma once

// Networks as the importer makes them of files in the QDQ format: real operations between Dequantize and Quantize, with
// constants that know their integers.

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/graph.h>

namespace mobicuda::test {

class QdqNetwork {
 public:
  /// Draws all that is random: the same seed gives the same network with every standard library.
  explicit QdqNetwork(std::uint32_t seed, const Shape& input) : random_(seed), builder_("qdq") {
    x_ = builder_.set_input("x", {DType::F32, input, Layout::NCHW});
  }

  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint32_t>(limit));
  }
  float real(float lo, float hi) { return lo + (hi - lo) * static_cast<float>(random_() >> 8U) * 0x1p-24F; }
  bool chance(int percent) { return below(100) < percent; }

  ValueId input() const { return x_; }
  const Shape& shape(ValueId id) const { return builder_.value(id).desc.shape; }
  GraphBuilder& builder() { return builder_; }
  Graph build(ValueId output) && { return std::move(builder_).build(output); }

  ValueId add(Op op, std::vector<ValueId> inputs) {
    const std::string name = "n" + std::to_string(++nodes_);
    return builder_.add_node(std::move(op), std::move(inputs), Origin{{{nodes_, name, "Test"}}}, name);
  }
  /// Quantize and Dequantize, to either type and a zero point in its middle, for values of about `largest`.
  ValueId quantize(ValueId value, float largest) {
    const DType dtype = chance(50) ? DType::I8 : DType::U8;
    const auto zero_point = static_cast<std::int32_t>(below(40) - 20 + (dtype == DType::U8 ? 128 : 0));
    return quantize(value, dtype, {largest / 100.0F, zero_point});
  }
  ValueId quantize(ValueId value, DType dtype, const Quantization& as) {
    return add(Dequantize{}, {add(Quantize{QuantizedResult::of(dtype, as)}, {value})});
  }

  /// A constant of integers with random scales of about `scale` for each index of axis 0, or one for all.
  ValueId weight(const Shape& shape, DType dtype, float scale, bool by_channel, bool zero_points) {
    auto quantized = std::make_shared<QuantizedConstant>();
    quantized->integers = HostTensor(dtype, shape);
    const auto count = static_cast<std::size_t>(by_channel ? shape[0] : 1);
    for (std::size_t i = 0; i < count; ++i) {
      quantized->scales.push_back(scale * real(0.5F, 1.5F));
      const std::int32_t middle = dtype == DType::U8 ? 128 : 0;
      quantized->zero_points.push_back(zero_points ? static_cast<std::int32_t>(below(21) - 10) + middle : middle);
    }
    for (std::byte& byte : quantized->integers.bytes()) byte = static_cast<std::byte>(below(256));
    return constant(std::move(quantized));
  }
  /// A bias of INT32 in units of x_scale times the weight's scales.
  ValueId bias(ValueId weight, float x_scale, std::int64_t largest) {
    const QuantizedConstant& of = *builder_.value(weight).quantized;
    const Shape each{shape(weight)[0]};
    auto quantized = std::make_shared<QuantizedConstant>();
    quantized->integers = HostTensor(DType::I32, each);
    for (std::int32_t& q : quantized->integers.data<std::int32_t>()) {
      q = static_cast<std::int32_t>(below(2 * largest + 1) - largest);
    }
    for (const float scale : of.scales) {
      quantized->scales.push_back(x_scale * scale);
      quantized->zero_points.push_back(0);
    }
    return constant(std::move(quantized));
  }
  ValueId constant(std::shared_ptr<const QuantizedConstant> quantized) {
    HostTensor floats(DType::F32, quantized->integers.shape());
    const auto data = floats.data<float>();
    const std::size_t inner = data.size() / static_cast<std::size_t>(floats.shape()[0]);
    for (std::size_t i = 0; i < data.size(); ++i) {
      const std::size_t slice = quantized->scales.size() == 1 ? 0 : i / inner;
      data[i] = static_cast<float>(integer(quantized->integers, i) - quantized->zero_points[slice]) *
                quantized->scales[slice];
    }
    return builder_.add_constant("c" + std::to_string(++nodes_), std::make_shared<const HostTensor>(std::move(floats)),
                                 std::move(quantized));
  }
  static std::int32_t integer(const HostTensor& tensor, std::size_t i) {
    if (tensor.dtype() == DType::I32) return tensor.data<std::int32_t>()[i];
    if (tensor.dtype() == DType::U8) return tensor.data<std::uint8_t>()[i];
    return tensor.data<std::int8_t>()[i];
  }

 private:
  std::mt19937 random_;
  GraphBuilder builder_;
  ValueId x_ = kNoValue;
  int nodes_ = 0;
};

}  // namespace mobicuda::test
