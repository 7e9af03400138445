#include "bench_engine/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace mobicuda::bench {
namespace {

constexpr double kNormal95 = 1.96;  // half width of a 95 % interval in standard errors

double median_of_sorted(std::span<const double> sorted) {
  if (sorted.empty()) return 0;
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double mean_of(std::span<const double> samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double stddev_of(std::span<const double> samples, double mean) {
  if (samples.size() < 2) return 0;
  double sum = 0;
  for (const double sample : samples) sum += (sample - mean) * (sample - mean);
  return std::sqrt(sum / static_cast<double>(samples.size() - 1));
}

}  // namespace

double percentile(std::span<const double> sorted, double percent) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(percent / 100.0 * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

double median(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return median_of_sorted(sorted);
}

Statistics summarize(std::span<const double> samples) {
  Statistics result;
  if (samples.empty()) return result;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  result.count = sorted.size();
  result.mean = mean_of(sorted);
  result.median = median_of_sorted(sorted);
  result.min = sorted.front();
  result.max = sorted.back();
  result.p90 = percentile(sorted, 90);
  result.p95 = percentile(sorted, 95);
  result.p99 = percentile(sorted, 99);
  result.stddev = stddev_of(sorted, result.mean);
  result.variation = result.mean > 0 ? result.stddev / result.mean : 0;
  return result;
}

Histogram histogram(std::span<const double> samples) {
  constexpr double kShownPercent = 99;
  constexpr std::size_t kMostBins = 48;
  Histogram result;
  if (samples.empty()) return result;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double high = percentile(sorted, kShownPercent);
  result.low = sorted.front();
  // Rice's rule.
  const auto bins = static_cast<std::size_t>(std::ceil(2 * std::cbrt(static_cast<double>(sorted.size()))));
  result.counts.resize(high > result.low ? std::min(bins, kMostBins) : 1);
  if (high > result.low) result.bin = (high - result.low) / static_cast<double>(result.counts.size());
  for (const double sample : sorted) {
    if (sample > high) {
      ++result.above;
      continue;
    }
    const auto index = result.bin > 0 ? static_cast<std::size_t>((sample - result.low) / result.bin) : 0;
    ++result.counts[std::min(index, result.counts.size() - 1)];
  }
  return result;
}

SpeedUp speed_up(std::span<const double> baseline_ms, std::span<const double> subject_ms,
                 std::span<const double> baseline_bursts_ms, std::span<const double> subject_bursts_ms) {
  SpeedUp result;
  const double subject = median(subject_ms);
  if (subject <= 0) return result;
  result.ratio = result.low = result.high = median(baseline_ms) / subject;
  std::vector<double> ratios;
  const std::size_t pairs = std::min(baseline_bursts_ms.size(), subject_bursts_ms.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    if (subject_bursts_ms[i] > 0) ratios.push_back(baseline_bursts_ms[i] / subject_bursts_ms[i]);
  }
  if (ratios.size() < 2) return result;
  const double half = kNormal95 * stddev_of(ratios, mean_of(ratios)) / std::sqrt(static_cast<double>(ratios.size()));
  result.low = std::max(0.0, result.ratio - half);
  result.high = result.ratio + half;
  return result;
}

}  // namespace mobicuda::bench
