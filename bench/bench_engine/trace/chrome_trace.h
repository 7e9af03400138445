#pragma once

#include <string>
#include <vector>

#include "bench_engine/trace/trace_case.h"

namespace mobicuda::bench {

/// The JSON that chrome://tracing and ui.perfetto.dev read. Each case is a process whose time begins at 0, with rows
/// for layers, streams and host threads.
std::string chrome_trace(const std::vector<TracedCase>& cases);

}  // namespace mobicuda::bench
