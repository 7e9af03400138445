#include "moments.h"

#include <cmath>

namespace mobicuda::zoo {
namespace {

/// Of pixels in one window.
constexpr double kPixelCorrelation = 0.5;

/// The standard normal density, with the exponential's series up to the fourth power: 1 % off at t = 2.
double density(double t) {
  constexpr double kDensityAtZero = 0.3989422804014327;
  const double h = 0.5 * t * t;
  return kDensityAtZero / (1.0 + h * (1.0 + h / 2.0 * (1.0 + h / 3.0 * (1.0 + h / 4.0))));
}

/// The share of a standard normal that lies below t: Abramowitz and Stegun's 26.2.16.
double share_below(double t, double density_at_t) {
  const double k = 1.0 / (1.0 + 0.33267 * std::fabs(t));
  const double above = density_at_t * k * (0.4361836 + k * (-0.1201676 + k * 0.9372980));
  return t < 0.0 ? above : 1.0 - above;
}

}  // namespace

Moments after_relu(const Moments& x) {
  const double deviation = std::sqrt(x.variance);
  const double t = x.mean / deviation;
  const double at = density(t);
  const double below = share_below(t, at);
  const double mean = deviation * (t * below + at);
  const double square = x.variance * ((1.0 + t * t) * below + t * at);
  constexpr double kLeastShare = 1e-3;  // keeps a channel that is never above 0 from dividing by 0 further on
  return {mean, std::fmax(square - mean * mean, kLeastShare * x.variance)};
}

// The factors of the next three are those at mean 0 and variance 1, where normalised channels lie.
Moments after_tanh(const Moments& x) { return {0.6 * x.mean, 0.39 * x.variance}; }
Moments after_sigmoid(const Moments& x) { return {0.5 + 0.21 * x.mean, 0.043 * x.variance}; }
Moments after_hard_sigmoid(const Moments& x) { return {0.5 + x.mean / 6.0, x.variance / 36.0}; }

Moments after_swish(const Moments& x) {
  constexpr double kMeanBelowRelu = 0.185;
  constexpr double kVarianceOfRelu = 1.05;
  const Moments relu = after_relu(x);
  return {relu.mean - kMeanBelowRelu, kVarianceOfRelu * relu.variance};
}

Moments after_max_pool(const Moments& x, std::int64_t window) {
  // The largest of 4 and of 9 values, correlated as pixels are and cut by ReLU, relative to one of them: it has the
  // larger deviation, because it is seldom 0.
  const bool small = window < 9;
  const double rise = small ? 0.73 : 1.18;
  const double growth = small ? 1.52 : 1.66;
  return {x.mean + rise * std::sqrt(x.variance), growth * x.variance};
}

Moments after_average_pool(const Moments& x, std::int64_t window) {
  return {x.mean, x.variance * (kPixelCorrelation + (1.0 - kPixelCorrelation) / static_cast<double>(window))};
}

Moments after_global_pool(const Moments& x) {
  constexpr double kPooledVariance = 0.3;  // a map's mean varies from picture to picture with this share
  return {x.mean, kPooledVariance * x.variance};
}

Moments sum_of(const Moments& a, const Moments& b) { return {a.mean + b.mean, a.variance + b.variance}; }

Moments product_of(const Moments& a, const Moments& b) {
  return {a.mean * b.mean, a.variance * b.variance + a.variance * b.mean * b.mean + b.variance * a.mean * a.mean};
}

}  // namespace mobicuda::zoo
