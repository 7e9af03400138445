#pragma once

#include <cstddef>
#include <numeric>
#include <optional>
#include <vector>

#include <mobicuda/plan_file.h>

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

/// How samples spread: bins of one width from the smallest to the 99th percentile, and how many lie above.
struct Histogram {
  double low = 0;
  double bin = 0;  ///< width; 0 when all samples are equal, which makes one bin
  std::vector<std::size_t> counts;
  std::size_t above = 0;
};

/// How many times faster one of two interleaved measurements is, with a 95 % confidence interval.
struct SpeedUp {
  double ratio = 0;  ///< median(baseline) / median(subject)
  double low = 0;
  double high = 0;
};

struct Samples {
  std::vector<double> times_ms;
  std::vector<double> burst_medians_ms;  ///< one for each burst; burst i of all subjects ran side by side
  double wall_ms = 0;  ///< from the first burst's begin to the last one's end, what alternated with it included
};

/// Wall time of calls that find an idle GPU: Session::execute() and synchronize(), input in place; milliseconds.
struct SingleCalls {
  Statistics warm;        ///< one after the other
  Statistics after_rest;  ///< each after a rest
  Statistics swept;       ///< each after other data passed through the GPU's L2 cache
};

/// The parts of ModelInfo::import_ms where the model is a plan file.
using PlanTimes = std::optional<plan_file::ReadTimes>;

/// What is known of a case's loading beside ModelInfo::import_ms, CaseResult::compile_ms and session_ms.
struct LoadDetails {
  double upload_ms = 0;  ///< of compile_ms; 0 where an implementation does not tell, or has no device
  Statistics reload;     ///< --reload each: from the file to the outputs; count 0 where it was not measured
};

/// Layer times of one ProfileMode, in milliseconds.
struct LayerProfile {
  std::vector<double> layer_ms;  ///< as CaseResult::layers; empty: not profiled
  double whole_ms = 0;           ///< a run of the profiled kind without a clock between layers
  double boundary_ms = 0;        ///< what a reading of the clock added, and was taken off

  bool empty() const { return layer_ms.empty(); }
  double sum_ms() const { return std::accumulate(layer_ms.begin(), layer_ms.end(), 0.0); }
};

}  // namespace mobicuda::bench
