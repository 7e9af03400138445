#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mobicuda::bench {

/// Above this coefficient of variation a timing is reported as unstable (trtexec warns at the same value).
inline constexpr double kUnstableVariation = 0.025;

/// Summary of a set of times; all in the unit of the samples. Zeros when there were none.
struct Statistics {
  std::size_t count = 0;
  double mean = 0;
  double median = 0;
  double min = 0;
  double max = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
  double stddev = 0;     ///< of the sample (n - 1)
  double variation = 0;  ///< coefficient of variation: stddev / mean

  bool unstable() const noexcept { return variation > kUnstableVariation; }
};

Statistics summarize(std::span<const double> samples);

/// Nearest-rank percentile of ascending samples, 0 < percent <= 100. Zero when there are none.
double percentile(std::span<const double> sorted, double percent);

/// Middle sample, or the mean of the two middle ones. Zero when there are none.
double median(std::span<const double> samples);

/// How samples spread: bins of one width from the smallest to the 99th percentile, and how many lie above.
struct Histogram {
  double low = 0;
  double bin = 0;  ///< width; 0 when all samples are equal, which makes one bin
  std::vector<std::size_t> counts;
  std::size_t above = 0;
};

/// No bins when there are no samples.
Histogram histogram(std::span<const double> samples);

/// How many times faster one of two interleaved measurements is, with a 95 % confidence interval.
struct SpeedUp {
  double ratio = 0;  ///< median(baseline) / median(subject)
  double low = 0;
  double high = 0;
};

/// The interval comes from the ratios of neighbouring bursts, so that what drifts for both (clocks,
/// temperature) cancels. With fewer than two pairs it collapses to the ratio.
SpeedUp speed_up(std::span<const double> baseline_ms, std::span<const double> subject_ms,
                 std::span<const double> baseline_bursts_ms, std::span<const double> subject_bursts_ms);

}  // namespace mobicuda::bench
