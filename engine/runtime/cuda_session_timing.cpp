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

// Readings of the clock between two waits while timing: enough to keep the GPU busy, few enough events.
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

std::vector<double> CudaSession::do_time_executions(std::int64_t n, int iterations, int runs) {
  const OwnStreamUse use(*this);
  std::vector<Event> events(static_cast<std::size_t>(std::min(iterations, kTimingBurst)) + 1);
  std::vector<double> times;
  while (static_cast<int>(times.size()) < iterations) {
    const int burst = std::min(kTimingBurst, iterations - static_cast<int>(times.size()));
    // One run ahead, so that the first timed one does not wait for its own launch.
    execute_on(n, own_ends(), stream_.get());
    record(events[0], stream_.get());
    for (int i = 0; i < burst; ++i) {
      for (int run = 0; run < runs; ++run) execute_on(n, own_ends(), stream_.get());
      record(events[static_cast<std::size_t>(i) + 1], stream_.get());
    }
    do_synchronize();
    for (std::size_t i = 0; i < static_cast<std::size_t>(burst); ++i)
      times.push_back(events[i + 1].since(events[i]) / runs);
  }
  output_overwritten_ = input_overwritten_;
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
    enqueue_steps(n, stream_.get(), false, plan(n).steps.size());
    record(events.back(), stream_.get());
  });
  return events.back().since(events.front());
}

std::vector<double> CudaSession::profile_layers(std::int64_t n, const std::vector<Event>& events, bool ranges) {
  const std::vector<CudaStep>& steps = plan(n).steps;
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

LayerTimes CudaSession::do_profile(std::int64_t n, int iterations, ProfileMode mode) {
  const OwnStreamUse use(*this);
  bind_ends(n, own_ends());
  LayerTimes times = mode == ProfileMode::AsRun ? profile_as_run(n, iterations) : profile_serialized(n, iterations);
  output_overwritten_ = input_overwritten_;
  return times;
}

LayerTimes CudaSession::profile_as_run(std::int64_t n, int iterations) {
  const std::size_t steps = plan(n).steps.size();
  const bool programmatic = cuda_engine_->options().programmatic_launch;
  const auto enqueue_first = [&](std::size_t count) { enqueue_steps(n, stream_.get(), programmatic, count); };
  std::vector<std::unique_ptr<GraphExec>> graphs;  // of the first 0, 1, ... steps
  for (std::size_t count = 0; count <= steps && cuda_engine_->options().cuda_graph; ++count) {
    const auto turn = take_turn();
    graphs.push_back(std::make_unique<GraphExec>(stream_.get(), [&] { enqueue_first(count); }));
  }
  const auto run_first = [&](std::size_t count) {
    if (!graphs.empty()) return graphs[count]->launch(stream_.get());
    const auto turn = take_turn();
    enqueue_first(count);
  };
  std::vector<std::vector<double>> samples(steps + 1);
  std::vector<double> wholes;
  const std::vector<Event> events(3 * (steps + 1));
  // The first round is not counted: the graphs are new to the GPU.
  for (int round = 0; round <= iterations; ++round) {
    for (std::size_t count = 0; count <= steps; ++count) {
      // The network goes before each of its parts, and before the whole that is timed, so that both find the caches as
      // the network leaves them: a part that ends early leaves weights there that a larger network displaces.
      run_first(steps);
      record(events[3 * count], stream_.get());
      run_first(steps);
      record(events[3 * count + 1], stream_.get());
      run_first(count);
      record(events[3 * count + 2], stream_.get());
    }
    do_synchronize();
    if (round == 0) continue;
    for (std::size_t count = 0; count <= steps; ++count) {
      wholes.push_back(events[3 * count + 1].since(events[3 * count]));
      samples[count].push_back(events[3 * count + 2].since(events[3 * count + 1]));
    }
  }
  LayerTimes result;
  result.boundary = median(samples.front());
  result.whole = median(wholes) - result.boundary;
  for (std::size_t step = 0; step < steps; ++step) {
    result.layers.push_back(median(samples[step + 1]) - median(samples[step]));
  }
  return result;
}

LayerTimes CudaSession::profile_serialized(std::int64_t n, int iterations) {
  const std::size_t steps = plan(n).steps.size();
  const std::vector<Event> events(std::max<std::size_t>(steps, 1) + 1);
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
