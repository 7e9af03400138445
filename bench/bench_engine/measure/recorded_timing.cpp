#include "bench_engine/measure/recorded_timing.h"

#include "bench_engine/measure/gpu_sampler.h"
#include "bench_engine/measure/statistics.h"
#include "bench_engine/process/clock.h"

namespace mobicuda::bench {
namespace {

constexpr int kEnqueues = 21;

}  // namespace

RecordedSamples measure_recorded(std::span<const TimedBurst> subjects, const Schedule& schedule,
                                 const std::function<bool()>& stop, const Recording& recording) {
  RecordedSamples result;
  result.utilisations.resize(subjects.size());
  if (recording.interval_ms <= 0) {
    result.samples = measure_interleaved(subjects, schedule, stop);
    return result;
  }
  GpuSampler sampler(recording.read, recording.interval_ms, subjects.size());
  result.samples = measure_interleaved(subjects, schedule, stop, [&](std::size_t subject) { sampler.watch(subject); });
  const std::vector<Usage> usages = sampler.finish();
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    Utilisation utilisation = summarize(usages[i], subjects.size() > 1);
    if (schedule.idle_ms <= 0) {
      add_energy(usages[i], summarize(result.samples[i].times_ms).mean / recording.pictures, utilisation);
    }
    result.utilisations[i] = std::move(utilisation);
  }
  return result;
}

double enqueue_ms(Session& session, std::int64_t n) {
  std::vector<double> times;
  for (int i = 0; i < kEnqueues; ++i) {
    const auto start = Clock::now();
    session.execute(n);
    times.push_back(since_ms(start));
    session.synchronize();
  }
  return median(times);
}

}  // namespace mobicuda::bench
