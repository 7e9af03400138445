#include "weights.h"

#include <cmath>

namespace mobicuda::zoo {

std::vector<float> draw_weights(const WeightShape& shape, Random& random) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(shape.per_output()));
  std::vector<float> weights(static_cast<std::size_t>(shape.outputs * shape.per_output()));
  for (float& weight : weights) weight = static_cast<float>(deviation * random.normal());
  return weights;
}

std::vector<Moments> moments_after_conv(const std::vector<Moments>& inputs, const std::vector<float>& weights,
                                        const WeightShape& shape, double channel_correlation) {
  // Neighbouring pixels are alike, so a window's values are neither independent nor equal.
  constexpr double kPixelCorrelation = 0.5;
  const std::int64_t inputs_per_group = shape.inputs / shape.groups;
  const std::int64_t outputs_per_group = shape.outputs / shape.groups;
  std::vector<Moments> result(static_cast<std::size_t>(shape.outputs));
  auto weight = weights.begin();
  for (std::int64_t o = 0; o < shape.outputs; ++o) {
    Moments sum{0.0, 0.0};
    for (std::int64_t i = 0; i < inputs_per_group; ++i) {
      const Moments& input = inputs[static_cast<std::size_t>(o / outputs_per_group * inputs_per_group + i)];
      double total = 0.0;
      double squares = 0.0;
      for (std::int64_t k = 0; k < shape.window; ++k, ++weight) {
        total += double{*weight};
        squares += double{*weight} * double{*weight};
      }
      sum.mean += total * input.mean;
      sum.variance += input.variance * (kPixelCorrelation * total * total + (1.0 - kPixelCorrelation) * squares);
    }
    sum.variance *= 1.0 + channel_correlation;
    result[static_cast<std::size_t>(o)] = sum;
  }
  return result;
}

void fold_batchnorm(const BatchNorm& norm, float epsilon, std::vector<float>& weights, std::vector<float>& bias) {
  const std::size_t outputs = norm.gamma.size();
  const std::size_t weights_per_output = weights.size() / outputs;
  bias.resize(outputs);
  for (std::size_t o = 0; o < outputs; ++o) {
    const double scale = double{norm.gamma[o]} / std::sqrt(double{norm.variance[o]} + double{epsilon});
    for (std::size_t i = o * weights_per_output; i < (o + 1) * weights_per_output; ++i) {
      weights[i] = static_cast<float>(double{weights[i]} * scale);
    }
    bias[o] = static_cast<float>(double{norm.beta[o]} - double{norm.mean[o]} * scale);
  }
}

}  // namespace mobicuda::zoo
