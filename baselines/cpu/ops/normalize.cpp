#include <array>
#include <cmath>
#include <numeric>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {
namespace {

/// What is normalised together: `runs` runs of `length` elements that lie side by side.
struct NormalizePlan {
  std::int64_t rows = 1;  ///< of one image
  std::int64_t row_step = 0;
  std::int64_t picture = 0;  ///< elements of an image
  std::int64_t runs = 1;
  std::int64_t run_step = 1;
  std::int64_t length = 1;
};

NormalizePlan plan_normalize(const Normalize& op, const TensorDesc& desc) {
  const Strides strides = strides_of(desc);
  const std::int64_t pixels = desc.shape[2] * desc.shape[3];
  const bool channels_last = strides[1] == 1;
  NormalizePlan plan;
  plan.picture = desc.shape.elements();
  if (op.over == NormalizedOver::Channels) {
    plan.rows = pixels;
    plan.row_step = strides[3];  // rows of pixels follow one another in both layouts
    plan.runs = channels_last ? 1 : desc.shape[1];
    plan.run_step = strides[1];
    plan.length = channels_last ? desc.shape[1] : 1;
  } else {
    const std::int64_t channels = desc.shape[1] / op.groups;
    plan.rows = op.groups;
    plan.row_step = channels * strides[1];
    plan.runs = channels_last ? pixels : 1;
    plan.run_step = strides[3];
    plan.length = channels_last ? channels : channels * pixels;
  }
  return plan;
}

constexpr std::int64_t kSums = 8;  // side by side, none of which waits for another

/// The sum of f(x[i]) over the row at `start`, in double.
template <class T, class F>
double sum_of(const NormalizePlan& plan, const T* x, const F& f) {
  std::array<double, kSums> sums{};
  for (std::int64_t run = 0; run < plan.runs; ++run) {
    const T* const from = x + run * plan.run_step;
    std::int64_t i = 0;
    for (; i + kSums <= plan.length; i += kSums) {
      for (std::size_t k = 0; k < kSums; ++k) sums[k] += f(static_cast<double>(from[i + static_cast<std::int64_t>(k)]));
    }
    for (std::size_t k = 0; i < plan.length; ++i, ++k) sums[k] += f(static_cast<double>(from[i]));
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// In double (the definition) or float, with sums in double, for the rows in `rows`, counted through all images.
template <class T>
void normalize(float epsilon, const NormalizePlan& plan, const T* x, T* y, Range rows) {
  const auto count = static_cast<double>(plan.runs * plan.length);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t start = row / plan.rows * plan.picture + row % plan.rows * plan.row_step;
    const double mean = sum_of(plan, x + start, [](double value) { return value; }) / count;
    const double squares = sum_of(plan, x + start, [mean](double value) { return (value - mean) * (value - mean); });
    const double factor = 1.0 / std::sqrt(squares / count + static_cast<double>(epsilon));
    for (std::int64_t run = 0; run < plan.runs; ++run) {
      const std::int64_t first = start + run * plan.run_step;
      for (std::int64_t i = first; i < first + plan.length; ++i) {
        y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * factor);
      }
    }
  }
}

}  // namespace

LoweredNode lower(const Normalize& op, const NodeView& view) {
  const NormalizePlan plan = plan_normalize(op, view.desc(Normalize::kInput));
  return loop_rows(view, "normalize", plan.rows, plan.runs * plan.length,
                   [plan, epsilon = op.epsilon](auto at, Range rows) {
                     normalize(epsilon, plan, at.input(Normalize::kInput), at.output(), rows);
                   });
}

}  // namespace mobicuda::cpu
