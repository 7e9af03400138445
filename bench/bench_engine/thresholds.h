#pragma once

#include <string>
#include <vector>

#include "bench_engine/model/options.h"
#include "bench_engine/model/results.h"

namespace mobicuda::bench {

/// The thresholds of the options that the report misses, one sentence each.
std::vector<std::string> missed_thresholds(const Options& options, const Report& report);

}  // namespace mobicuda::bench
