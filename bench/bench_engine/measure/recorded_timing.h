#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <mobicuda/engine.h>

#include "bench_engine/measure/timing.h"
#include "bench_engine/measure/utilisation.h"

namespace mobicuda::bench {

/// What is recorded beside times.
struct Recording {
  double interval_ms = 0;            ///< between two readings; 0: nothing is recorded at all
  std::function<GpuReading()> read;  ///< the GPU that subjects run on; empty: only the process is recorded
  double pictures = 1;               ///< of one iteration
};

struct RecordedSamples {
  std::vector<Samples> samples;
  std::vector<std::optional<Utilisation>> utilisations;  ///< as samples; nothing where nothing is recorded
};

/// measure_interleaved(), and what GPU and process did meanwhile. There is no energy of paced runs: most of theirs is
/// that of the pauses.
RecordedSamples measure_recorded(std::span<const TimedBurst> subjects, const Schedule& schedule,
                                 const std::function<bool()>& stop, const Recording& recording);

/// Host time of Session::execute(n) on an idle GPU, which does not wait for it: the median of some, in milliseconds.
double enqueue_ms(Session& session, std::int64_t n);

}  // namespace mobicuda::bench
