#pragma once

#include "bench_engine/model/options.h"

namespace mobicuda::bench {

/// Throws UsageError on options that contradict each other or lack one another, and on files that do not exist.
void check_options(const Options& options);

}  // namespace mobicuda::bench
