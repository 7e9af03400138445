#include "plan/choose_products.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mobicuda {
namespace {

using kernels::Conv2dVariant;

/// The time of a launch: fixed_us + blocks of the busiest multiprocessor * (tile_us + slices of a block * slice_us).
struct ProductTime {
  Conv2dVariant variant;
  double fixed_us, tile_us, slice_us;
};

// Fitted to the layers of bench/kernels/conv2d_bench.cpp on an H100; docs/kernels/conv2d.md says how well.
constexpr ProductTime kTimes[] = {
@TIMES@
};

double expected_us(const ProductTime& time, const kernels::Conv2dParams& params, int multiprocessors) {
  const kernels::Conv2dWork work = conv2d_work(time.variant, params);
  const double rounds = std::ceil(static_cast<double>(work.blocks) / multiprocessors);
  return time.fixed_us + rounds * (time.tile_us + static_cast<double>(work.slices) * time.slice_us);
}

}  // namespace

std::vector<Conv2dVariant> products_by_time(const kernels::Conv2dParams& params, int compute_capability,
                                            int multiprocessors) {
  std::vector<std::pair<double, Conv2dVariant>> found;
  for (const ProductTime& time : kTimes) {
    if (!supports(time.variant, params, compute_capability)) continue;
    found.emplace_back(expected_us(time, params, multiprocessors), time.variant);
  }
  std::sort(found.begin(), found.end());
  std::vector<Conv2dVariant> variants;
  for (const auto& [time, variant] : found) variants.push_back(variant);
  return variants;
}

}  // namespace mobicuda
