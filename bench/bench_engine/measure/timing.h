#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "bench_engine/model/times.h"

namespace mobicuda::bench {

/// Something that can be timed: runs about `iterations` times and gives each one's milliseconds, or means of several.
using TimedBurst = std::function<std::vector<double>(int iterations)>;

/// Told between bursts which subject runs next.
using BurstWatch = std::function<void(std::size_t subject)>;

/// How long to measure each subject.
struct Schedule {
  double warm_up_ms = 200;
  double duration_ms = 3000;  ///< wall time for each subject
  int iterations = 10;        ///< at least so many for each subject
  double burst_ms = 20;       ///< wall time of a burst: long against the switch to the next subject
  double idle_ms = 0;         ///< pause before each iteration, for the latency of a paced application
  bool ranges = true;         ///< name warm-up and measuring for profilers
};

/// Times the subjects in alternating short bursts, so that a drift of clocks or temperature hits all of
/// them alike. Each is warmed up first. Stops early, with what it has, once `stop` returns true.
/// `watch`, which may be empty, is told before each burst and its pause whose turn it is.
std::vector<Samples> measure_interleaved(std::span<const TimedBurst> subjects, const Schedule& schedule,
                                         const std::function<bool()>& stop, const BurstWatch& watch = {});

}  // namespace mobicuda::bench
