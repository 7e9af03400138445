#pragma once

#include <iosfwd>

#include "report/read_report.h"

namespace mobicuda::bench::report {

/// What is shown on demand only.
struct Shown {
  bool profile = false;     ///< layer times as the network runs
  bool layer_info = false;  ///< kernels and why they were chosen
  bool per_class = false;   ///< a table of classes
};

/// Tables of what was timed: latency, loading, comparisons, layers.
void print_cases(std::ostream& out, const ReportFile& file, const Shown& shown);

/// What comes behind them: pictures, thresholds that were missed, and whether Ctrl-C ended the run.
void print_ending(std::ostream& out, const ReportFile& file, const Shown& shown);

}  // namespace mobicuda::bench::report
