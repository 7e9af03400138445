#pragma once

#include <string>
#include <vector>

#include "report/read_report.h"

namespace mobicuda::bench::report {

enum class Verdict {
  Better,
  Worse,
  Changed,      ///< differs where neither is better
  WithinNoise,  ///< of a time
  Same,
  NotJudged,  ///< too few runs
};

const char* to_string(Verdict verdict) noexcept;

/// A quantity that both files have.
struct Change {
  std::string subject;   ///< "custom fp16, batch 8", "custom fp16, batch 8: features.2: conv.0.0 Conv, ..."
  std::string quantity;  ///< "median latency, ms"
  std::string before;
  std::string after;
  double relative = 0;  ///< (after - before) / before; NaN where that means nothing
  double noise = 0;     ///< what a time must change by to count, relative; 0 for what is counted
  Verdict verdict = Verdict::Same;
  std::string layer{};  ///< whole name of the layer whose short one is part of `subject`
};

/// Two reports, the first being what was before.
struct ReportChanges {
  std::vector<std::string> setup;  ///< what else differs: machine, versions, model, options
  std::vector<std::string> only_before;
  std::vector<std::string> only_after;
  std::vector<Change> cases;  ///< latency and memory, case by case
  std::vector<Change> pictures;
  std::vector<Change> layers;     ///< only those that changed
  std::string layers_left_out{};  ///< a sentence on cases whose layers are timed in both files, in two ways; or empty
};

/// Spread of a measurement, relative to its median: the smaller of coefficient of variation and (p90 - median) /
/// median, as a few late runs swell the first alone, and a second mode the other.
double spread(const Statistics& statistics);

/// By how much two medians must differ to count: the root of the sum of the squared spreads, at least 1 %.
double noise(const Statistics& before, const Statistics& after);

ReportChanges compare_reports(const ReportFile& before, const ReportFile& after);

/// "+12.3 %"; "-" when it means nothing.
std::string signed_percent(double relative);

/// How times are judged, in a sentence for reports.
std::string noise_rule();

}  // namespace mobicuda::bench::report
