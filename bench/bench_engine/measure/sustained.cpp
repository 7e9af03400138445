#include "bench_engine/measure/sustained.h"

#include <array>

#include "bench_engine/measure/bursts.h"

namespace mobicuda::bench {
namespace {

// Between two bursts the processor is idle for some microseconds: a small part of this.
constexpr double kBurstMs = 500;

}  // namespace

Sustained measure_sustained(Session& session, std::int64_t n, const Schedule& schedule,
                            const std::function<bool()>& stop, const Recording& recording) {
  Schedule alone = schedule;
  alone.burst_ms = kBurstMs;
  alone.idle_ms = 0;
  const std::array<TimedBurst, 1> bursts{wall_burst(session, n)};
  RecordedSamples measured = measure_recorded(bursts, alone, stop, recording);
  const Samples& samples = measured.samples.front();
  Sustained result;
  result.seconds = samples.wall_ms / 1e3;
  result.runs = static_cast<std::int64_t>(samples.times_ms.size());
  result.utilisation = std::move(measured.utilisations.front());
  return result;
}

}  // namespace mobicuda::bench
