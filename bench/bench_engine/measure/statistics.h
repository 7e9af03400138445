#pragma once

#include <span>

#include "bench_engine/model/times.h"

namespace mobicuda::bench {

Statistics summarize(std::span<const double> samples);

/// Nearest-rank percentile of ascending samples, 0 < percent <= 100. Zero when there are none.
double percentile(std::span<const double> sorted, double percent);

/// Middle sample, or the mean of the two middle ones. Zero when there are none.
double median(std::span<const double> samples);

/// No bins when there are no samples.
Histogram histogram(std::span<const double> samples);

/// The interval comes from the ratios of neighbouring bursts, so that what drifts for both (clocks,
/// temperature) cancels. With fewer than two pairs it collapses to the ratio.
SpeedUp speed_up(std::span<const double> baseline_ms, std::span<const double> subject_ms,
                 std::span<const double> baseline_bursts_ms, std::span<const double> subject_bursts_ms);

}  // namespace mobicuda::bench
