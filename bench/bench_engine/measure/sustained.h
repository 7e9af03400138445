#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <mobicuda/engine.h>

#include "bench_engine/measure/recorded_timing.h"
#include "bench_engine/measure/utilisation.h"

namespace mobicuda::bench {

/// Runs in a row, of one case alone on its processor, by the host's clock.
struct Sustained {
  double seconds = 0;                      ///< from the first run's begin to the last one's end
  std::int64_t runs = 0;                   ///< in that time
  std::optional<Utilisation> utilisation;  ///< nothing where nothing is recorded

  double pictures_per_second(std::int64_t batch) const {
    return seconds > 0 ? static_cast<double>(runs * batch) / seconds : 0;
  }
};

/// Keeps the session busy with n pictures at a time for `schedule.duration_ms`, and records meanwhile what `recording`
/// says. Ends early, with what it has, once `stop` returns true.
Sustained measure_sustained(Session& session, std::int64_t n, const Schedule& schedule,
                            const std::function<bool()>& stop, const Recording& recording);

}  // namespace mobicuda::bench
