#pragma once

#include <cstdint>
#include <vector>

#include "moments.h"
#include "random.h"

namespace mobicuda::zoo {

/// Extents of a convolution's weights; a fully connected layer has a window of 1.
struct WeightShape {
  std::int64_t inputs, outputs, window, groups;
  std::int64_t per_output() const { return inputs / groups * window; }
};

/// Normal weights of variance 2 / fan-in.
std::vector<float> draw_weights(const WeightShape& shape, Random& random);

/// What the correlation between channels adds to a sum's variance. Without it MobileNetV2's deviations grow to 2.7 by
/// the last block.
constexpr double kChannelCorrelation = 0.06;

/// Moments of a convolution's outputs from those of its input channels, without bias.
std::vector<Moments> moments_after_conv(const std::vector<Moments>& inputs, const std::vector<float>& weights,
                                        const WeightShape& shape, double channel_correlation = kChannelCorrelation);

/// The four tensors of BatchNormalization.
struct BatchNorm {
  std::vector<float> gamma, beta, mean, variance;
};

/// Multiplies the layer into the weights in front of it and sets their bias.
void fold_batchnorm(const BatchNorm& norm, float epsilon, std::vector<float>& weights, std::vector<float>& bias);

}  // namespace mobicuda::zoo
