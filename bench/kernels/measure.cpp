#include "measure.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include <cuda_fp16.h>

#include "l2_sweep.h"
#include "runtime/device_buffer.h"

namespace mobicuda::bench {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr int kMostCalls = 20;                                  // in one graph
constexpr double kGraphMilliseconds = 2.0;                      // a graph of more calls takes no longer than that
constexpr std::int64_t kOperandBytes = std::int64_t{2} << 30U;  // of all sets together

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::int64_t bytes_of_set(const TimedKernel& kernel) {
  std::int64_t bytes = aligned(kernel.x_bytes) + aligned(kernel.residual_bytes) + aligned(kernel.y_bytes);
  for (const std::int64_t weight : kernel.weight_bytes) bytes += aligned(weight);
  return bytes;
}

/// Numbers in [-1, 1) of the element type.
std::vector<std::byte> random_pattern(kernels::Elem elem) {
  constexpr std::size_t kBytes = std::size_t{1} << 20U;
  constexpr float kScale = 2.0F / 4294967296.0F;  // 32 random bits to [0, 2)
  std::mt19937 engine(1);
  std::vector<std::byte> pattern(kBytes);
  for (std::size_t at = 0; at < kBytes; at += kernels::size_of(elem)) {
    const float value = static_cast<float>(engine()) * kScale - 1.0F;
    const __half_raw half = __float2half_rn(value);
    const auto* source = elem == kernels::Elem::F32 ? reinterpret_cast<const std::byte*>(&value)
                                                    : reinterpret_cast<const std::byte*>(&half);
    std::copy_n(source, kernels::size_of(elem), pattern.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return pattern;
}

/// Memory for the operands, kept from benchmark to benchmark.
std::byte* random_memory(std::int64_t bytes, kernels::Elem elem) {
  static DeviceBuffer memory;
  static const std::vector<std::byte> floats = random_pattern(kernels::Elem::F32);
  static const std::vector<std::byte> halves = random_pattern(kernels::Elem::F16);
  const std::vector<std::byte>& pattern = elem == kernels::Elem::F32 ? floats : halves;
  const std::int64_t wanted = std::max(bytes, static_cast<std::int64_t>(pattern.size()));
  if (wanted > memory.bytes()) {
    memory = DeviceBuffer();  // gives the old memory back first
    memory = DeviceBuffer(wanted, "operands");
  }
  memory.upload(pattern);
  auto* data = static_cast<std::byte*>(memory.data());
  for (auto filled = static_cast<std::int64_t>(pattern.size()); filled < bytes; filled *= 2) {
    const auto more = static_cast<std::size_t>(std::min(filled, bytes - filled));
    check_cuda(cudaMemcpy(data + filled, data, more, cudaMemcpyDeviceToDevice));
  }
  check_cuda(cudaDeviceSynchronize());
  return data;
}

std::vector<TimedOperands> place(const TimedKernel& kernel, kernels::Elem elem, int sets) {
  std::byte* next = random_memory(sets * bytes_of_set(kernel), elem);
  const auto take = [&](std::int64_t bytes) -> std::byte* {
    std::byte* taken = bytes == 0 ? nullptr : next;
    next += aligned(bytes);
    return taken;
  };
  std::vector<TimedOperands> operands(static_cast<std::size_t>(sets));
  for (TimedOperands& at : operands) {
    at.x = take(kernel.x_bytes);
    for (const std::int64_t weight : kernel.weight_bytes) at.weights.push_back(take(weight));
    at.residual = take(kernel.residual_bytes);
    at.y = take(kernel.y_bytes);
  }
  return operands;
}

struct DestroyGraph {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using ExecutableGraph = std::unique_ptr<CUgraphExec_st, DestroyGraph>;

/// Calls of a kernel, one after the other, on as many sets of operands.
class Calls {
 public:
  Calls(const TimedKernel& kernel, kernels::Elem elem, Cache cache) : kernel_(kernel), cache_(cache) {
    const std::int64_t affordable = std::clamp<std::int64_t>(kOperandBytes / bytes_of_set(kernel), 1, kMostCalls);
    operands_ = place(kernel, elem, cache == Cache::Cold ? static_cast<int>(affordable) : 1);
    capture(1);
    milliseconds();  // loads the kernel
    const double calls = kGraphMilliseconds / milliseconds();
    const int most = cache == Cache::Cold ? static_cast<int>(affordable) : kMostCalls;
    if (const int wanted = std::clamp(static_cast<int>(std::min<double>(calls, kMostCalls)), 1, most); wanted > 1) {
      capture(wanted);
      milliseconds();
    }
  }

  int count() const { return count_; }

  /// Of all of them together.
  double milliseconds() const {
    // What runs before the first event hides the time that the host takes to launch the graph.
    if (cache_ == Cache::Cold) {
      sweep_l2(stream_);
    } else {
      check_cuda(cudaGraphLaunch(graph_.get(), stream_));
    }
    check_cuda(cudaEventRecord(begin_.get(), stream_));
    check_cuda(cudaGraphLaunch(graph_.get(), stream_));
    check_cuda(cudaEventRecord(end_.get(), stream_));
    check_cuda(cudaEventSynchronize(end_.get()));
    return end_.since(begin_);
  }

 private:
  void capture(int calls) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    cudaError_t status = cudaSuccess;
    for (int call = 0; call < calls && status == cudaSuccess; ++call) {
      status = kernel_.enqueue(operands_[static_cast<std::size_t>(call) % operands_.size()], {stream_, false});
    }
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);  // also where a call was refused
    check_cuda(status);
    check_cuda(ended);
    const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(made);
    graph_.reset(executable);
    count_ = calls;
  }

  const TimedKernel& kernel_;
  Cache cache_;
  cudaStream_t stream_ = measuring_stream();
  Event begin_;
  Event end_;
  std::vector<TimedOperands> operands_;
  ExecutableGraph graph_;
  int count_ = 0;
};

void report(benchmark::State& state, const Work& work) {
  using benchmark::Counter;
  const auto add = [&](const char* name, const char* share, std::int64_t amount, double Ceilings::*ceiling) {
    constexpr double kPercent = 100;
    const auto count = static_cast<double>(amount);
    state.counters[name] = Counter(count, Counter::kIsIterationInvariantRate);
    if (!measures_ceilings()) return;
    state.counters[share] = Counter(kPercent * count / (ceilings().*ceiling), Counter::kIsIterationInvariantRate);
  };
  add("bytes/s", "%bytes/s", work.bytes, &Ceilings::bytes_per_second);
  if (work.flops == 0) return;
  add("FLOP/s", "%FLOP/s", work.flops,
      work.pipe == Pipe::Tensor ? &Ceilings::tensor_flops_per_second : &Ceilings::fma_flops_per_second);
}

}  // namespace

cudaStream_t measuring_stream() {
  static const Stream stream;
  return stream.get();
}

Work work_of(const TimedKernel& kernel, std::int64_t flops, Pipe pipe) {
  std::int64_t bytes = kernel.x_bytes + kernel.residual_bytes + kernel.y_bytes;
  for (const std::int64_t weight : kernel.weight_bytes) bytes += weight;
  return {bytes, flops, pipe};
}

void measure(benchmark::State& state, const TimedKernel& kernel, const Work& work, kernels::Elem elem, Cache cache) {
  constexpr double kMillisecond = 1e-3;
  const Calls calls(kernel, elem, cache);
  while (state.KeepRunningBatch(calls.count())) state.SetIterationTime(calls.milliseconds() * kMillisecond);
  report(state, work);
}

}  // namespace mobicuda::bench
