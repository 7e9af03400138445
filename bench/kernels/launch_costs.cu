// Probes of what launches cost: CUDA graphs of kernels that do next to nothing, replayed back to back.
#include "launch_costs.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

#include "bench_support.h"
#include "kernels/ptx/dependent_launch.cuh"
#include "runtime/device_buffer.h"
#include "runtime/graph_exec.h"

namespace mobicuda::bench {
namespace {

constexpr unsigned kThreads = 128;
constexpr int kChain = 101;  // kernels of the long graph
constexpr int kReplays = 200;
constexpr int kRuns = 10;

__global__ void empty_probe() { kernels::wait_for_predecessor(); }

__global__ void hand_over_probe(const unsigned* from, unsigned* to) {
  kernels::wait_for_predecessor();
  const unsigned other = (blockIdx.x + 1) % gridDim.x;  // another multiprocessor's
  to[blockIdx.x * blockDim.x + threadIdx.x] = from[other * blockDim.x + threadIdx.x] + 1;
}

/// Enqueues kernel i of a chain.
using Enqueue = std::function<cudaError_t(int i, const kernels::Launch& where)>;

/// From one replay to the next of a graph of `count` kernels, microseconds: the least of several runs.
double replay_us(int count, const Enqueue& enqueue) {
  constexpr double kMicroseconds = 1e3;
  const bool programmatic = gpu_traits().programmatic_launch();
  const Stream stream;
  const GraphExec graph(stream.get(), [&] {
    for (int i = 0; i < count; ++i) check_cuda(enqueue(i, {stream.get(), programmatic && i > 0}));
  });
  const Event begin;
  const Event end;
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    graph.launch(stream.get());  // those that are timed then do not wait for the host
    check_cuda(cudaEventRecord(begin.get(), stream.get()));
    for (int replay = 0; replay < kReplays; ++replay) graph.launch(stream.get());
    check_cuda(cudaEventRecord(end.get(), stream.get()));
    check_cuda(cudaEventSynchronize(end.get()));
    least = std::min(least, kMicroseconds * end.since(begin) / kReplays);
  }
  return least;
}

double further_us(const Enqueue& enqueue, double one) { return (replay_us(kChain, enqueue) - one) / (kChain - 1); }

}  // namespace

LaunchCosts measure_launch_costs() {
  int multiprocessors = 0;
  check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  const dim3 grid(static_cast<unsigned>(multiprocessors));
  const std::int64_t bytes = std::int64_t{multiprocessors} * kThreads * static_cast<std::int64_t>(sizeof(unsigned));
  // What is in them at first does not matter.
  const DeviceBuffer buffers[2] = {{bytes, "what kernels hand over"}, {bytes, "what kernels hand over"}};
  const Enqueue empty = [&](int, const kernels::Launch& where) {
    return kernels::launch(empty_probe, grid, dim3(kThreads), 0, where);
  };
  const Enqueue hand_over = [&](int i, const kernels::Launch& where) {
    return kernels::launch(hand_over_probe, grid, dim3(kThreads), 0, where,
                           static_cast<const unsigned*>(buffers[i % 2].data()),
                           static_cast<unsigned*>(buffers[(i + 1) % 2].data()));
  };
  LaunchCosts costs;
  costs.graph = replay_us(1, empty);
  costs.boundary = further_us(empty, costs.graph);
  costs.hand_over = further_us(hand_over, replay_us(1, hand_over));
  return costs;
}

}  // namespace mobicuda::bench
