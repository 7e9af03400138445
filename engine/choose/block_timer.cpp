#include "choose/block_timer.h"

#include <algorithm>
#include <chrono>

#include "graph/memory_planner.h"
#include "runtime/cuda_check.h"
#include "runtime/cuda_session.h"

namespace mobicuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 20;           // passes in a graph; fewer where they are long
constexpr double kLongGraphUs = 1000;  // enough to see a difference
constexpr double kHiccupUs = 500;      // what launching from the host may add
constexpr int kReplays = 5;
constexpr std::chrono::milliseconds kWarmUp{50};
constexpr double kMicroseconds = 1000;  // in a millisecond

std::int64_t padded(std::int64_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

}  // namespace

std::vector<TimedOperands> BlockTimer::place(std::span<const TimedKernel> kernels) {
  std::int64_t total = 0;
  const auto reserve = [&](std::int64_t bytes) {
    const std::int64_t offset = total;
    total += padded(bytes);
    return offset;
  };
  struct Offsets {
    std::int64_t residual, y;
    std::vector<std::int64_t> weights;
  };
  std::vector<Offsets> offsets;
  const std::int64_t x = reserve(kernels.front().x_bytes);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const TimedKernel& kernel = kernels[i];
    Offsets& own = offsets.emplace_back();
    const std::int64_t read_next = i + 1 < kernels.size() ? kernels[i + 1].x_bytes : 0;
    own.y = reserve(std::max(kernel.y_bytes, read_next));
    own.residual = reserve(kernel.residual_bytes);
    for (const std::int64_t bytes : kernel.weight_bytes) own.weights.push_back(reserve(bytes));
  }
  if (total > scratch_.bytes()) {
    scratch_ = DeviceBuffer();  // returns the old memory first
    scratch_ = DeviceBuffer(total, "scratch memory for measuring kernels");
  }
  // Other kernels' numbers are no packed weights: with them some kernels do nothing.
  cuda_check(cudaMemsetAsync(scratch_.data(), 0, static_cast<std::size_t>(total), stream_.get()),
             "clearing scratch memory");
  auto* base = static_cast<std::byte*>(scratch_.data());
  std::vector<TimedOperands> operands;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    TimedOperands& own = operands.emplace_back();
    own.x = base + (i == 0 ? x : offsets[i - 1].y);
    own.y = base + offsets[i].y;
    if (kernels[i].residual_bytes > 0) own.residual = base + offsets[i].residual;
    for (const std::int64_t offset : offsets[i].weights) own.weights.push_back(base + offset);
  }
  return operands;
}

double BlockTimer::microseconds(std::span<const TimedKernel> kernels, double give_up_us) {
  const std::vector<TimedOperands> operands = place(kernels);
  const auto enqueue = [&](bool first_pass) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const kernels::Launch where{stream_.get(), programmatic_ && !(first_pass && i == 0)};
      cuda_check(kernels[i].enqueue(operands[i], where), "measuring " + kernels[i].name);
    }
  };
  const Event start;
  const Event end;
  const auto elapsed_us = [&] {
    cuda_check(cudaStreamSynchronize(stream_.get()), "measuring kernels");
    return end.since(start) * kMicroseconds;
  };
  // The first pass loads the kernels; the second tells how many make a graph.
  enqueue(true);
  cuda_check(cudaEventRecord(start.get(), stream_.get()), "recording an event");
  enqueue(true);
  cuda_check(cudaEventRecord(end.get(), stream_.get()), "recording an event");
  const double eager_us = elapsed_us();
  if (eager_us > give_up_us + kHiccupUs) return eager_us;
  const int repeats = std::clamp(static_cast<int>(kLongGraphUs / eager_us), 2, kRepeats);
  // Events inside the graph: the host has no part in what is measured.
  const auto record = [&](const Event& event) {
    cuda_check(cudaEventRecordWithFlags(event.get(), stream_.get(), cudaEventRecordExternal), "recording an event");
  };
  const GraphExec graph(stream_.get(), [&] {
    record(start);
    for (int i = 0; i < repeats; ++i) enqueue(i == 0);
    record(end);
  });
  const auto replay = [&] {
    graph.launch(stream_.get());
    return elapsed_us() / repeats;
  };
  replay();
  for (const auto begin = Clock::now(); !warm_ && Clock::now() - begin < kWarmUp;) replay();
  warm_ = true;
  std::vector<double> times{replay()};
  if (times.front() > give_up_us) return times.front();
  while (times.size() < kReplays) times.push_back(replay());
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return times[kReplays / 2];
}

}  // namespace mobicuda
