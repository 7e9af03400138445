// Constants of a quantised convolution among the layers of one kernel, and what such kernels ask of them when they
// pack.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mobicuda::kernels {

/// One convolution's constants: weight (c_out, c_in / groups, kernel_h, kernel_w), bias (c_out) or null, multiplier
/// (c_out).
struct Int8Layer {
  const std::int8_t* weight = nullptr;
  const std::int32_t* bias = nullptr;
  const float* multiplier = nullptr;
};

/// All sums of an output channel lie between these.
struct Int8SumRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// One output channel of a convolution for inputs that are stored as uint8: `zero` stands for 0, none is above `most`.
class Int8Channel {
 public:
  /// Of `products` weights.
  Int8Channel(const Int8Layer& layer, int channel, int products, int zero)
      : weight_(layer.weight + std::int64_t{channel} * products),
        products_(products),
        bias_(layer.bias != nullptr ? layer.bias[channel] : 0) {
    for (int k = 0; k < products; ++k) bias_ -= std::int64_t{zero} * weight_[k];
  }

  std::int8_t weight(int k) const { return weight_[k]; }
  /// What is added to the products of stored bytes, before it is taken modulo 2^32.
  std::int64_t bias() const { return bias_; }
  Int8SumRange sums(int most) const {
    Int8SumRange range{bias_, bias_};
    for (int k = 0; k < products_; ++k) {
      range.least += std::min(weight_[k] * most, 0);
      range.most += std::max(weight_[k] * most, 0);
    }
    return range;
  }

 private:
  const std::int8_t* weight_;
  int products_;
  std::int64_t bias_;
};

}  // namespace mobicuda::kernels
