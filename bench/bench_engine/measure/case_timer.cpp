#include "bench_engine/measure/case_timer.h"

#include <algorithm>
#include <memory>

#include "bench_engine/measure/bursts.h"
#include "bench_engine/measure/machine.h"
#include "bench_engine/measure/single_calls.h"
#include "bench_engine/measure/statistics.h"
#include "bench_engine/measure/sustained.h"
#include "bench_engine/process/interrupt.h"
#include "bench_engine/tensors/compare.h"

namespace mobicuda::bench {
namespace {

// The measurement that is not the run's subject (transfers on or off) is a short one beside it.
constexpr double kSideDurationFraction = 0.2;
constexpr double kSideDurationMs = 1000;

void summarize_case(LiveCase& one, const LiveCase& reference, const TimedInput& input, std::size_t classes) {
  CaseResult& result = one.result;
  result.device_statistics = summarize(result.device.times_ms);
  result.host_statistics = summarize(result.host.times_ms);
  result.streams_statistics = summarize(result.streams.times_ms);
  if (!result.samples().times_ms.empty()) result.latency_histogram = histogram(result.samples().times_ms);
  result.golden = input.compare(result.output);
  if (&reference == &one) return;
  // Bursts pair up only where they alternated.
  const bool paired = reference.what->processor == one.what->processor;
  const Samples& ours = result.samples();
  const Samples& theirs = reference.result.samples();
  result.speed_up = speed_up(theirs.times_ms, ours.times_ms,
                             paired ? std::span<const double>(theirs.burst_medians_ms) : std::span<const double>(),
                             paired ? std::span<const double>(ours.burst_medians_ms) : std::span<const double>());
  Comparer comparer;
  comparer.add(result.output, reference.result.output, classes);
  result.comparison = comparer.result();
}

}  // namespace

GpuStates CaseTimer::time(std::vector<LiveCase>& live, std::int64_t batch) const {
  GpuStates states{batch, gpu_state(options_.device), {}};
  // A GPU would fall asleep between the bursts of the CPU, so only what shares a processor alternates.
  for (const Processor processor : {Processor::Gpu, Processor::Cpu}) {
    std::vector<LiveCase*> group;
    for (LiveCase& one : live) {
      if (one.what->processor == processor) group.push_back(&one);
    }
    if (!group.empty()) time_group(group, batch);
    if (processor == Processor::Gpu) states.after = gpu_state(options_.device);
  }
  for (LiveCase& one : live) time_alone(one, batch);
  return states;
}

void CaseTimer::time_group(const std::vector<LiveCase*>& group, std::int64_t batch) const {
  const bool gpu = group.front()->what->processor == Processor::Gpu;
  std::vector<TimedBurst> device;
  std::vector<TimedBurst> host;
  for (LiveCase* one : group) {
    device.push_back(device_burst(*one->session, batch, gpu));
    host.push_back(host_burst(*one->session, batch));
  }
  Schedule main;
  main.warm_up_ms = options_.warm_up_ms;
  main.duration_ms = options_.duration_s * 1e3;
  main.iterations = options_.iterations;
  main.idle_ms = options_.idle_ms;
  main.ranges = ranges_;
  Schedule side = main;
  side.duration_ms = std::min(main.duration_ms * kSideDurationFraction, kSideDurationMs);
  side.warm_up_ms = std::min(main.warm_up_ms, side.duration_ms);
  const auto measure = [&](const std::vector<TimedBurst>& bursts, bool subject) {
    return measure_recorded(bursts, subject ? main : side, interrupted, subject ? recording(gpu, batch) : Recording());
  };
  const RecordedSamples of_device = measure(device, !options_.include_transfers);
  const RecordedSamples of_host = measure(host, options_.include_transfers);
  for (std::size_t i = 0; i < group.size(); ++i) {
    CaseResult& result = group[i]->result;
    result.device = of_device.samples[i];
    result.host = of_host.samples[i];
    result.utilisation = (options_.include_transfers ? of_host : of_device).utilisations[i];
    if (!gpu || interrupted()) continue;
    result.enqueue_ms = enqueue_ms(*group[i]->session, batch);
    time_streams(*group[i], batch, side);
  }
}

void CaseTimer::time_alone(LiveCase& one, std::int64_t batch) const {
  if (interrupted()) return;
  const bool gpu = one.what->processor == Processor::Gpu;
  if (gpu && options_.single_calls) one.result.single_calls = measure_single_calls(*one.session, batch, interrupted);
  if (options_.sustained_s <= 0) return;
  Schedule schedule;
  schedule.warm_up_ms = options_.warm_up_ms;
  schedule.duration_ms = options_.sustained_s * 1e3;
  schedule.iterations = options_.iterations;
  schedule.ranges = ranges_;
  one.result.sustained = measure_sustained(*one.session, batch, schedule, interrupted, recording(gpu, batch));
}

Recording CaseTimer::recording(bool gpu, std::int64_t batch) const {
  Recording result;
  result.interval_ms = options_.sample_interval_ms;
  result.pictures = static_cast<double>(batch);
  if (gpu && gpu_) result.read = [device = *gpu_] { return device.read(); };
  return result;
}

void CaseTimer::time_streams(LiveCase& one, std::int64_t batch, const Schedule& schedule) const {
  std::vector<std::shared_ptr<Session>> sessions;
  for (int i = 0; i < options_.streams; ++i) {
    sessions.push_back(one.engine->create_session());
    input_.stage(*sessions.back());
  }
  const std::vector<TimedBurst> bursts{streams_burst(std::move(sessions), batch)};
  one.result.streams = measure_interleaved(bursts, schedule, interrupted).front();
}

void summarize(std::vector<LiveCase>& live, std::size_t reference, const TimedInput& input, std::size_t classes) {
  for (LiveCase& one : live) summarize_case(one, live[reference], input, classes);
}

}  // namespace mobicuda::bench
