#include "plan/block_timer.h"

#include <algorithm>
#include <chrono>

#include "plan/memory_planner.h"
#include "runtime/cuda_check.h"
#include "runtime/cuda_session.h"

namespace mobicuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 20;           // passes in a graph; fewer where they are long
constexpr double kLongGraphUs = 2000;  // enough to see a difference
constexpr int kReplays = 5;
constexpr double kEagerLaunchUs = 10;  // more than the host takes to launch a kernel
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
    cuda_check(cudaMemsetAsync(scratch_.data(), 0, static_cast<std::size_t>(total), stream_.get()),
               "clearing scratch memory");
  }
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
  const auto synchronize = [&] { cuda_check(cudaStreamSynchronize(stream_.get()), "measuring kernels"); };
  std::vector<Event> events(kReplays + 1);
  const auto record = [&](std::size_t i) {
    cuda_check(cudaEventRecord(events[i].get(), stream_.get()), "recording an event");
  };
  // The first pass loads the kernels; the second tells how many make a graph.
  enqueue(true);
  record(0);
  enqueue(true);
  record(1);
  synchronize();
  const double eager_us = events[1].since(events[0]) * kMicroseconds;
  if (eager_us > give_up_us + kEagerLaunchUs * static_cast<double>(kernels.size())) return eager_us;
  const int repeats = std::clamp(static_cast<int>(kLongGraphUs / eager_us), 2, kRepeats);
  const GraphExec graph(stream_.get(), [&] {
    for (int i = 0; i < repeats; ++i) enqueue(i == 0);
  });
  for (const auto start = Clock::now(); !warm_ && Clock::now() - start < kWarmUp;) {
    graph.launch(stream_.get());
    synchronize();
  }
  warm_ = true;
  // A replay goes ahead of the timed ones, so that none of them waits for its own launch.
  const auto replay = [&](std::size_t count) {
    graph.launch(stream_.get());
    record(0);
    for (std::size_t i = 0; i < count; ++i) {
      graph.launch(stream_.get());
      record(i + 1);
    }
    synchronize();
    std::vector<double> times;
    for (std::size_t i = 0; i < count; ++i) times.push_back(events[i + 1].since(events[i]) * kMicroseconds / repeats);
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(count / 2), times.end());
    return times[count / 2];
  };
  const double first = replay(1);
  return first > give_up_us ? first : replay(kReplays);
}

}  // namespace mobicuda
