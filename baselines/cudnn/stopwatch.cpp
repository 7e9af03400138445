#include "cudnn/stopwatch.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "cudnn/handles.h"
#include "runtime/cuda_check.h"

namespace mobicuda::cudnn {
namespace {

constexpr double kLaunching = 0.03;     // ms that the host may add to a single launched run
constexpr double kHopeless = 1.5;       // times the best, from a single run
constexpr double kTooSlow = 1.15;       // times the best, from a replayed one
constexpr double kLoading = 60.0;       // ms that loading a kernel may add to its first run
constexpr double kReplayLength = 0.25;  // ms of work in one captured graph
constexpr int kMinReplays = 1;
constexpr int kMaxReplays = 16;
constexpr int kRounds = 3;

struct GraphDeleter {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
struct GraphExecDeleter {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, GraphDeleter>;
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, GraphExecDeleter>;

// A candidate may fail; the next one must start with no error pending. An error that stays means that the
// device is lost.
void forget_error() {
  cudaGetLastError();
  cuda_check(cudaGetLastError(), "trying a kernel");
}

}  // namespace

double Stopwatch::launched(const Work& work) const {
  cuda_check(cudaEventRecord(start_.get(), stream_), "timing a kernel");
  if (work() != cudaSuccess) return kRefused;
  cuda_check(cudaEventRecord(stop_.get(), stream_), "timing a kernel");
  if (cudaStreamSynchronize(stream_) != cudaSuccess) return kRefused;
  return stop_.since(start_);
}

double Stopwatch::replayed(const Work& work, double estimate, double limit) const {
  const int replays = std::clamp(static_cast<int>(kReplayLength / std::max(estimate, 1e-3)), kMinReplays, kMaxReplays);
  std::unique_lock<std::mutex> turn = take_turn();
  if (cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal) != cudaSuccess) return kRefused;
  bool captured = true;
  for (int i = 0; i < replays && captured; ++i) captured = work() == cudaSuccess;
  cudaGraph_t raw_graph = nullptr;
  captured = cudaStreamEndCapture(stream_, &raw_graph) == cudaSuccess && captured;
  turn.unlock();
  const Graph graph(raw_graph);
  if (!captured) return kRefused;
  cudaGraphExec_t raw_exec = nullptr;
  if (cudaGraphInstantiate(&raw_exec, graph.get(), 0) != cudaSuccess) return kRefused;
  const GraphExec exec(raw_exec);
  double best = kRefused;
  for (int round = 0; round <= kRounds; ++round) {
    const double time = launched([&] { return cudaGraphLaunch(exec.get(), stream_); });
    if (round > 0) best = std::min(best, time / replays);  // the first round uploads the graph
    if (round > 0 && best > limit) break;
  }
  return best;
}

double Stopwatch::milliseconds(const Work& work, double best) const {
  double time = launched(work);  // loads the kernels
  if (time < kLoading + kHopeless * best) time = launched(work);
  const bool hopeless = time > kHopeless * best + kLaunching;
  if (time != kRefused && !hopeless) time = replayed(work, time, kTooSlow * best);
  forget_error();
  return time;
}

double Stopwatch::replay_milliseconds(const Work& work) const {
  double time = launched(work);  // loads the kernels
  if (time != kRefused) time = replayed(work, time, kRefused);
  forget_error();
  return time;
}

double network_milliseconds(const CudaNetwork& network, std::int64_t n, void* session_state, cudaStream_t stream) {
  const CudaPlan& plan = network.plans[network.plan_for(n)];
  const DeviceBuffer arena(plan.arena_bytes, "a trial run's activations");
  const DeviceBuffer workspace(network.workspace_bytes, "a trial run's scratch");
  std::vector<DeviceBuffer> ends;
  std::vector<void*> buffers;
  for (const CudaBuffer& buffer : plan.buffers) {
    if (buffer.place == CudaBuffer::Place::Arena) {
      buffers.push_back(static_cast<std::byte*>(arena.data()) + buffer.offset);
    } else {
      ends.emplace_back(buffer.bytes, "a trial run's input and output");
      cuda_check(cudaMemsetAsync(ends.back().data(), 0, static_cast<std::size_t>(buffer.bytes), stream),
                 "clearing a trial run's input");
      buffers.push_back(ends.back().data());
    }
  }
  const CudaStepContext context{n, stream, false, buffers.data(), workspace.data(), session_state};
  const Stopwatch stopwatch(stream);
  return stopwatch.replay_milliseconds([&] {
    for (const CudaStep& step : plan.steps) {
      if (const cudaError_t status = step.enqueue(context); status != cudaSuccess) return status;
    }
    return cudaSuccess;
  });
}

}  // namespace mobicuda::cudnn
