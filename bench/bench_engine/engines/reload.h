#pragma once

#include <functional>

#include "bench_engine/engines/engine_source.h"
#include "bench_engine/measure/timing.h"
#include "bench_engine/model/cases.h"
#include "bench_engine/tensors/timed_input.h"

namespace mobicuda::bench {

/// Times of inferences that each begin with the file: reading, compiling or restoring, a session, one run from host to
/// host. What was loaded is given back outside the time.
Samples measure_reload(const Options& options, const LogCallback& log, const Case& what, const EngineOptions& engine,
                       const TimedInput& input, std::size_t outputs, const std::function<bool()>& stop);

}  // namespace mobicuda::bench
