#include "bench_engine/measure/timing.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "bench_engine/measure/statistics.h"
#include "bench_engine/process/clock.h"
#include "bench_engine/process/phase_range.h"

namespace mobicuda::bench {
namespace {

constexpr int kMaxBurst = 2000;

struct Progress {
  double wall_ms_per_iteration = 0;
  double spent_ms = 0;
  std::optional<Clock::time_point> begin;
};

int burst_length(double burst_ms, double wall_ms_per_iteration) {
  if (wall_ms_per_iteration <= 0) return 1;
  return std::clamp(static_cast<int>(burst_ms / wall_ms_per_iteration), 1, kMaxBurst);
}

// Runs until warm_up_ms have passed, at least once, and gives the wall time of one iteration.
double warm_up(const TimedBurst& subject, const Schedule& schedule, const std::function<bool()>& stop) {
  double per_iteration = 0;
  int iterations = 1;
  const auto start = Clock::now();
  do {
    const auto burst_start = Clock::now();
    subject(iterations);
    per_iteration = since_ms(burst_start) / iterations;
    iterations = burst_length(schedule.burst_ms, per_iteration);
  } while (since_ms(start) < schedule.warm_up_ms && !stop());
  return per_iteration;
}

void run_burst(const TimedBurst& subject, const Schedule& schedule, Progress& progress, Samples& samples) {
  if (!progress.begin) progress.begin = Clock::now();
  int iterations = burst_length(schedule.burst_ms, progress.wall_ms_per_iteration);
  if (schedule.idle_ms > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(schedule.idle_ms));
    iterations = 1;
  }
  const auto start = Clock::now();
  const std::vector<double> times = subject(iterations);
  const double wall_ms = since_ms(start);
  progress.wall_ms_per_iteration = wall_ms / iterations;
  progress.spent_ms += wall_ms + schedule.idle_ms;
  samples.times_ms.insert(samples.times_ms.end(), times.begin(), times.end());
  samples.burst_medians_ms.push_back(median(times));
  samples.wall_ms = since_ms(*progress.begin);
}

}  // namespace

std::vector<Samples> measure_interleaved(std::span<const TimedBurst> subjects, const Schedule& schedule,
                                         const std::function<bool()>& stop, const BurstWatch& watch) {
  std::vector<Samples> samples(subjects.size());
  std::vector<Progress> progress(subjects.size());
  for (std::size_t i = 0; i < subjects.size() && !stop(); ++i) {
    const PhaseRange range("warm-up", schedule.ranges);
    progress[i].wall_ms_per_iteration = warm_up(subjects[i], schedule, stop);
  }
  const auto finished = [&](std::size_t i) {
    return progress[i].spent_ms >= schedule.duration_ms &&
           samples[i].times_ms.size() >= static_cast<std::size_t>(schedule.iterations);
  };
  const PhaseRange range("measuring", schedule.ranges);
  bool more = !subjects.empty();
  while (more && !stop()) {
    more = false;
    for (std::size_t i = 0; i < subjects.size() && !stop(); ++i) {
      if (watch) watch(i);
      run_burst(subjects[i], schedule, progress[i], samples[i]);
      more = more || !finished(i);
    }
  }
  return samples;
}

}  // namespace mobicuda::bench
