// CudaSession: how long executions take, as a whole and layer by layer.
#include <algorithm>
#include <numeric>
#include <optional>

#include "runtime/cuda_check.h"
#include "runtime/cuda_session.h"
#include "runtime/launch_gate.h"
#include "runtime/nvtx_range.h"

namespace mobicuda {
namespace {

// Executions between two waits while timing: enough to keep the GPU busy, few enough events.
constexpr int kTimingBurst = 64;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void record(const Event& event, cudaStream_t stream) {
  cuda_check(cudaEventRecord(event.get(), stream), "recording an event");
}

}  // namespace

std::vector<double> CudaSession::do_time_executions(std::int64_t n, int iterations) {
  select_device(cuda_engine_->options().device);
  std::vector<Event> events(static_cast<std::size_t>(std::min(iterations, kTimingBurst)) + 1);
  std::vector<double> times;
  while (static_cast<int>(times.size()) < iterations) {
    const int burst = std::min(kTimingBurst, iterations - static_cast<int>(times.size()));
    // One run ahead, so that the first timed one does not wait for its own launch.
    execute_on(n, own_ends(), stream_.get());
    record(events[0], stream_.get());
    for (int i = 0; i < burst; ++i) {
      execute_on(n, own_ends(), stream_.get());
      record(events[static_cast<std::size_t>(i) + 1], stream_.get());
    }
    do_synchronize();
    for (std::size_t i = 0; i < static_cast<std::size_t>(burst); ++i) times.push_back(events[i + 1].since(events[i]));
  }
  return times;
}

void CudaSession::run_gated(const std::function<void()>& enqueue) {
  LaunchGate gate(stream_.get());
  {
    const auto turn = take_turn();
    enqueue();
  }
  gate.open();
  do_synchronize();
}

double CudaSession::profile_whole(std::int64_t n, const std::vector<Event>& events) {
  run_gated([&] {
    record(events.front(), stream_.get());
    enqueue_steps(n, stream_.get(), false);
    record(events.back(), stream_.get());
  });
  return events.back().since(events.front());
}

std::vector<double> CudaSession::profile_layers(std::int64_t n, const std::vector<Event>& events, bool ranges) {
  const std::vector<CudaStep>& steps = cuda_engine_->plan().steps;
  const CudaStepContext context = context_for(n, stream_.get());
  run_gated([&] {
    record(events.front(), stream_.get());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      std::optional<NvtxRange> range;
      if (ranges) range.emplace(steps[i].info.name);
      enqueue_step(steps[i], context);
      record(events[i + 1], stream_.get());
    }
  });
  std::vector<double> times;
  for (std::size_t i = 0; i < steps.size(); ++i) times.push_back(events[i + 1].since(events[i]));
  return times;
}

LayerTimes CudaSession::do_profile(std::int64_t n, int iterations) {
  select_device(cuda_engine_->options().device);
  const std::size_t steps = cuda_engine_->plan().steps.size();
  const std::vector<Event> events(std::max<std::size_t>(steps, 1) + 1);
  bind_ends(own_ends());
  // An event costs more than the interval between two of them: the next kernel's launch no longer overlaps the end of
  // the one before. So what events add is found by runs with and without, before those that count.
  std::vector<double> added;
  for (int i = 0; i < iterations; ++i) {
    const double whole = profile_whole(n, events);
    const std::vector<double> times = profile_layers(n, events, false);
    added.push_back(std::accumulate(times.begin(), times.end(), -whole));
  }
  LayerTimes result;
  result.boundary = std::max(0.0, median(added)) / static_cast<double>(std::max<std::size_t>(steps, 1));
  std::vector<double> wholes;
  std::vector<std::vector<double>> samples(steps);
  for (int i = 0; i < iterations; ++i) {
    wholes.push_back(profile_whole(n, events));
    const std::vector<double> times = profile_layers(n, events, true);
    for (std::size_t step = 0; step < steps; ++step) samples[step].push_back(times[step]);
  }
  for (const std::vector<double>& times : samples) {
    result.layers.push_back(std::max(0.0, median(times) - result.boundary));
  }
  result.whole = median(wholes);
  return result;
}

}  // namespace mobicuda
