#include "plan/choose_products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace mobicuda {
namespace {

using kernels::Conv2dVariant;

/// The time of a launch where the busiest multiprocessor has `rounds` blocks of `slices` slices:
/// fixed_us + rounds * tile_us + slices * max(rounds * slice_us, latency_us).
struct ProductTime {
  Conv2dVariant variant;
  double fixed_us, tile_us, slice_us, latency_us;
};

// Fitted to the layers of bench/kernels/conv2d_bench.cpp on an H100; docs/kernels/conv2d.md says how well.
// clang-format off
constexpr ProductTime kTimes[] = {
    {Conv2dVariant::Mma128x128x64,   4.75, 2.0, 0.64, 0.70},
    {Conv2dVariant::Mma128x64x64,    3.00, 1.0, 0.38, 0.48},
    {Conv2dVariant::Mma64x64x64,     2.25, 0.6, 0.24, 0.32},
    {Conv2dVariant::Mma64x64x64S2,   1.50, 2.0, 0.22, 0.32},
    {Conv2dVariant::Mma64x64x64S4,   2.50, 2.0, 0.24, 0.28},
    {Conv2dVariant::Mma64x64x64S8,   2.75, 2.0, 0.30, 0.30},
    {Conv2dVariant::Mma64x32x64,     1.75, 0.6, 0.16, 0.24},
    {Conv2dVariant::Mma64x32x64S2,   3.25, 0.3, 0.24, 0.24},
    {Conv2dVariant::Mma64x32x64S4,   2.75, 2.0, 0.10, 0.20},
    {Conv2dVariant::Mma32x32x64,     1.50, 0.6, 0.10, 0.18},
    {Conv2dVariant::Mma32x32x64S4,   2.00, 2.0, 0.10, 0.24},
    {Conv2dVariant::Wgmma128x64x64,  1.50, 1.5, 0.32, 0.38},
    {Conv2dVariant::Wgmma128x128x64, 1.75, 2.0, 0.42, 0.48},
    {Conv2dVariant::Wgmma256x64x64,  1.50, 5.0, 0.44, 0.44},
    {Conv2dVariant::Wgmma256x128x64, 0.00, 8.0, 0.70, 0.70},
    {Conv2dVariant::Wgmma128x256x64, 0.00, 8.0, 0.70, 0.70},
};
// clang-format on

/// From so many bytes on the input and the output of a layer are not in the L2 cache, and every kernel waits for them.
constexpr double kCachedBytes = 36e6;
constexpr double kBytesPerUs = 2e6;

double memory_us(const kernels::Conv2dParams& params) {
  constexpr double kHalf = 2;
  const double pixels_in = static_cast<double>(params.n) * params.h * params.w;
  const double pixels_out = static_cast<double>(params.n) * params.out_h * params.out_w;
  const double bytes = kHalf * (pixels_in * params.c_in + pixels_out * params.c_out * (params.residual ? 2 : 1));
  return bytes > kCachedBytes ? bytes / kBytesPerUs : 0;
}

/// Of gemm's mma_128x96x32, which conv2d has not, where gemm takes that: for few inputs.
std::optional<double> narrow_gemm_us(const kernels::Conv2dParams& params, int multiprocessors) {
  const bool taken = params.c_in <= 160 && 3 * kernels::round_up(params.c_out, 96) <= 4 * params.c_out;
  if (!taken) return std::nullopt;
  const double rows = static_cast<double>(params.n) * params.out_h * params.out_w;
  const double blocks = std::ceil(rows / 128) * kernels::ceil_div(params.c_out, 96);
  return std::ceil(blocks / multiprocessors) * (0.55 + 0.85 * kernels::ceil_div(params.c_in, 32));
}

double expected_us(const ProductTime& time, const kernels::Conv2dParams& params, int multiprocessors) {
  const kernels::Conv2dWork work = conv2d_work(time.variant, params);
  const auto slices = static_cast<double>(work.slices);
  const double rounds = std::ceil(static_cast<double>(work.blocks) / multiprocessors);
  return time.fixed_us + rounds * time.tile_us + slices * std::max(rounds * time.slice_us, time.latency_us);
}

}  // namespace

bool beats_gemm(const kernels::Conv2dParams& params, int compute_capability, int multiprocessors) {
  // gemm's own tiles are as fast as conv2d's on mma. Smaller savings the times above do not tell.
  constexpr double kLeastSaving = 2;  // us
  double wgmma_time = std::numeric_limits<double>::infinity();
  double mma_time = std::numeric_limits<double>::infinity();
  for (const ProductTime& time : kTimes) {
    if (!supports(time.variant, params, compute_capability)) continue;
    double& best = time.variant < Conv2dVariant::Wgmma128x64x64 ? mma_time : wgmma_time;
    best = std::min(best, expected_us(time, params, multiprocessors));
  }
  const double gemm_time = narrow_gemm_us(params, multiprocessors).value_or(mma_time);
  const double least = memory_us(params);
  return std::max(wgmma_time, least) + kLeastSaving < std::max(gemm_time, least);
}

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
