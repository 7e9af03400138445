#include <cmath>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {
namespace {

/// What is normalised together: `channels` channels of `pixels` pixels.
struct NormalizePlan {
  std::int64_t rows = 1;  ///< of one image
  std::int64_t row_step = 0;
  std::int64_t picture = 0;  ///< elements of an image
  std::int64_t channels = 1;
  std::int64_t channel_step = 1;
  std::int64_t pixels = 1;
  std::int64_t pixel_step = 1;
};

NormalizePlan plan_normalize(const Normalize& op, const TensorDesc& desc) {
  const Strides strides = strides_of(desc);
  const std::int64_t pixels = desc.shape[2] * desc.shape[3];
  NormalizePlan plan;
  plan.picture = desc.shape.elements();
  plan.channel_step = strides[1];
  plan.pixel_step = strides[3];  // rows of pixels follow one another in both layouts
  if (op.over == NormalizedOver::Channels) {
    plan.rows = pixels;
    plan.row_step = strides[3];
    plan.channels = desc.shape[1];
  } else {
    plan.rows = op.groups;
    plan.channels = desc.shape[1] / op.groups;
    plan.row_step = plan.channels * strides[1];
    plan.pixels = pixels;
  }
  return plan;
}

/// In double (the definition) or float, with sums in double, for the rows in `rows`, counted through all images.
template <class T>
void normalize(float epsilon, const NormalizePlan& plan, const T* x, T* y, Range rows) {
  const auto each = [&](std::int64_t start, auto body) {
    for (std::int64_t pixel = 0; pixel < plan.pixels; ++pixel) {
      const std::int64_t first = start + pixel * plan.pixel_step;
      for (std::int64_t c = 0; c < plan.channels; ++c) body(first + c * plan.channel_step);
    }
  };
  const auto count = static_cast<double>(plan.pixels * plan.channels);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t start = row / plan.rows * plan.picture + row % plan.rows * plan.row_step;
    double sum = 0.0;
    each(start, [&](std::int64_t i) { sum += static_cast<double>(x[i]); });
    const double mean = sum / count;
    double squares = 0.0;
    each(start, [&](std::int64_t i) {
      const double difference = static_cast<double>(x[i]) - mean;
      squares += difference * difference;
    });
    const double factor = 1.0 / std::sqrt(squares / count + static_cast<double>(epsilon));
    each(start, [&](std::int64_t i) { y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * factor); });
  }
}

}  // namespace

LoweredNode lower(const Normalize& op, const NodeView& view) {
  const NormalizePlan plan = plan_normalize(op, view.desc(Normalize::kInput));
  return loop_rows(view, "normalize", plan.rows, plan.pixels * plan.channels,
                   [plan, epsilon = op.epsilon](auto at, Range rows) {
                     normalize(epsilon, plan, at.input(Normalize::kInput), at.output(), rows);
                   });
}

}  // namespace mobicuda::cpu
