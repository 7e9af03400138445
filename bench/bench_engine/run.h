#pragma once

#include <iosfwd>

#include "bench_engine/options.h"
#include "bench_engine/progress.h"
#include "bench_engine/results.h"

namespace mobicuda::bench {

/// Does what the options ask for: loads, times, profiles, compares, classifies. Prints what it has
/// loaded on `out`, tells `progress` of each step and leaves what it found in `report`, which holds the part before
/// the failure when this throws: UsageError, mobicuda::Error. Returns early, with report.interrupted, on Ctrl-C.
void run_benchmark(const Options& options, std::ostream& out, Progress& progress, Report& report);

}  // namespace mobicuda::bench
