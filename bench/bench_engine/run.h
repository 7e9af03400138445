#pragma once

#include <iosfwd>
#include <vector>

#include "bench_engine/model/cases.h"
#include "bench_engine/model/exit_codes.h"
#include "bench_engine/model/options.h"
#include "bench_engine/model/results.h"
#include "bench_engine/process/progress.h"

namespace mobicuda::bench {

/// Does what the options ask for: loads, times, profiles, compares, classifies. Prints what it has
/// loaded on `out`, tells `progress` of each step and leaves what it found in `report`, which holds the part before
/// the failure when this throws: UsageError, mobicuda::Error. Returns early, with report.interrupted, on Ctrl-C.
void run_benchmark(const Options& options, const std::vector<Implementation>& implementations, std::ostream& out,
                   Progress& progress, Report& report);

/// run_benchmark() and the thresholds of the options, which a plan file completes (take_from_plan()). What goes wrong
/// is told on `err`, and is in the report.
ExitCode run_and_judge(Options& options, const std::vector<Implementation>& implementations, std::ostream& out,
                       std::ostream& err, Report& report);

}  // namespace mobicuda::bench
