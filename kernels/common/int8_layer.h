// Constants of a quantised convolution among the layers of one kernel, and what such kernels ask of them when they
// pack.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/common/quantization.h"

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

/// How one output channel of a convolution is computed from bytes as they are stored, int8 or uint8. A channel whose
/// result is the same for all inputs, as real networks have them, with sums of any size, is that number: without
/// weights, times 1.
class Int8Channel {
 public:
  /// Of `products` weights. Of inputs, from `low` to `high`, `zero` stands for 0.
  Int8Channel(const Int8Layer& layer, int channel, int products, int zero, int low, int high, const ByteRange& result)
      : weight_(layer.weight + std::int64_t{channel} * products), multiplier_(layer.multiplier[channel]) {
    std::int64_t bias = layer.bias != nullptr ? layer.bias[channel] : 0;
    for (int k = 0; k < products; ++k) bias -= std::int64_t{zero} * weight_[k];
    sums_ = {bias, bias};
    for (int k = 0; k < products; ++k) {
      sums_.least += std::min(weight_[k] * low, weight_[k] * high);
      sums_.most += std::max(weight_[k] * low, weight_[k] * high);
    }
    bias_ = bias;
    const float least = result_of(sums_.least, result);
    if (!fits_int32(sums_.least) || !fits_int32(sums_.most) || least != result_of(sums_.most, result)) return;
    weight_ = nullptr;
    bias_ = static_cast<std::int64_t>(least);
    multiplier_ = 1.0F;
    sums_ = {bias_, bias_};
  }

  std::int8_t weight(int k) const { return weight_ != nullptr ? weight_[k] : std::int8_t{0}; }
  /// What is added to the products of stored bytes, before it is taken modulo 2^32.
  std::int64_t bias() const { return bias_; }
  float multiplier() const { return multiplier_; }
  /// With the bias.
  const Int8SumRange& sums() const { return sums_; }

 private:
  static bool fits_int32(std::int64_t sum) {
    return sum >= std::numeric_limits<std::int32_t>::min() && sum <= std::numeric_limits<std::int32_t>::max();
  }
  /// Less the zero point.
  float result_of(std::int64_t sum, const ByteRange& range) const {
    return std::clamp(std::nearbyint(static_cast<float>(sum) * multiplier_),
                      static_cast<float>(range.low - range.zero_point),
                      static_cast<float>(range.high - range.zero_point));
  }

  const std::int8_t* weight_;  ///< null: none
  float multiplier_;
  std::int64_t bias_ = 0;
  Int8SumRange sums_;
};

}  // namespace mobicuda::kernels
