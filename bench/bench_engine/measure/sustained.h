#pragma once

#include <cstdint>
#include <functional>

#include <mobicuda/engine.h>

#include "bench_engine/measure/recorded_timing.h"
#include "bench_engine/model/utilisation.h"

namespace mobicuda::bench {

/// Keeps the session busy with n pictures at a time for `schedule.duration_ms`, and records meanwhile what `recording`
/// says. Ends early, with what it has, once `stop` returns true.
Sustained measure_sustained(Session& session, std::int64_t n, const Schedule& schedule,
                            const std::function<bool()>& stop, const Recording& recording);

}  // namespace mobicuda::bench
