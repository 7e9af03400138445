#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "ceilings.h"
#include "kernels/launch.h"

namespace mobicuda::bench {

using kernels::Elem;

inline constexpr Elem kElems[] = {Elem::F32, Elem::F16};
inline constexpr int kBatches[] = {1, 8, 32, 256};

inline std::string to_string(Elem elem) { return elem == Elem::F32 ? "fp32" : "fp16"; }

inline void check_cuda(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// The GPU's compute capability, major * 10 + minor; 0 without a GPU.
inline int compute_capability() {
  int devices = 0;
  int major = 0;
  int minor = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return major * 10 + minor;
}

/// Device memory; contents are random numbers in [-1, 1), as power and clock depend on the data.
class DeviceArray {
 public:
  DeviceArray(Elem elem, std::int64_t elements)
      : DeviceArray(static_cast<std::size_t>(elements) * kernels::size_of(elem)) {
    constexpr std::size_t kPatternBytes = std::size_t{1} << 20U;
    constexpr float kScale = 2.0F / 4294967296.0F;  // 32 random bits to [0, 2)
    std::mt19937 engine(1);
    std::vector<std::byte> pattern(std::min(kPatternBytes, bytes_));
    for (std::size_t at = 0; at < pattern.size(); at += kernels::size_of(elem)) {
      const float value = static_cast<float>(engine()) * kScale - 1.0F;
      const __half_raw half = __float2half_rn(value);
      const void* source = elem == Elem::F32 ? static_cast<const void*>(&value) : static_cast<const void*>(&half);
      std::copy_n(static_cast<const std::byte*>(source), kernels::size_of(elem),
                  pattern.begin() + static_cast<std::ptrdiff_t>(at));
    }
    for (std::size_t at = 0; at < bytes_; at += pattern.size()) {
      check_cuda(cudaMemcpy(static_cast<std::byte*>(data_) + at, pattern.data(), std::min(pattern.size(), bytes_ - at),
                            cudaMemcpyHostToDevice));
    }
  }
  /// Holds a copy of what the host has, for packed weights.
  explicit DeviceArray(const std::vector<std::byte>& contents) : DeviceArray(contents.size()) {
    check_cuda(cudaMemcpy(data_, contents.data(), bytes_, cudaMemcpyHostToDevice));
  }
  DeviceArray(DeviceArray&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  void* data() const { return data_; }
  const float* floats() const { return static_cast<const float*>(data_); }

 private:
  explicit DeviceArray(std::size_t bytes) : bytes_(bytes) { check_cuda(cudaMalloc(&data_, bytes)); }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// What one call reads and writes (each tensor once), and its operations (a multiply-add is two).
struct Work {
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
  Pipe pipe = Pipe::Fma;
};

inline Pipe matrix_pipe(Elem elem) { return elem == Elem::F16 ? Pipe::Tensor : Pipe::Fma; }

using Enqueue = std::function<cudaError_t(const kernels::Launch& where)>;

/// Bytes/s and FLOP/s, and their share of ceilings() in percent where these are measured: more than 100 % of bytes/s
/// come from the L2 cache.
inline void report(benchmark::State& state, const Work& work) {
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

namespace detail {

/// `calls` dependent calls captured into one CUDA graph.
inline cudaGraphExec_t capture(cudaStream_t stream, int calls, const Enqueue& enqueue) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int call = 0; call < calls; ++call) check_cuda(enqueue({stream, false}));
  check_cuda(cudaStreamEndCapture(stream, &graph));
  check_cuda(cudaGraphInstantiate(&executable, graph, 0));
  check_cuda(cudaGraphDestroy(graph));
  return executable;
}

}  // namespace detail

/// Times one kernel by CUDA events around a graph of kCalls calls, so that the host's launch cost stays out; the
/// boundary between two kernels (about 0.9 us on an H100) is in. Data that fit stay in the L2 cache, as they do
/// between the layers of a network.
inline void measure(benchmark::State& state, const Work& work, const Enqueue& enqueue) {
  constexpr int kCalls = 20;
  constexpr float kMillisecond = 1e-3F;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check_cuda(cudaEventCreate(&begin));
  check_cuda(cudaEventCreate(&end));
  const cudaGraphExec_t graph = detail::capture(stream, kCalls, enqueue);
  check_cuda(cudaGraphLaunch(graph, stream));
  while (state.KeepRunningBatch(kCalls)) {
    float elapsed = 0.0F;
    check_cuda(cudaEventRecord(begin, stream));
    check_cuda(cudaGraphLaunch(graph, stream));
    check_cuda(cudaEventRecord(end, stream));
    check_cuda(cudaEventSynchronize(end));
    check_cuda(cudaEventElapsedTime(&elapsed, begin, end));
    state.SetIterationTime(static_cast<double>(elapsed * kMillisecond));
  }
  report(state, work);
  check_cuda(cudaGraphExecDestroy(graph));
  check_cuda(cudaEventDestroy(begin));
  check_cuda(cudaEventDestroy(end));
  check_cuda(cudaStreamDestroy(stream));
}

/// "n8_56x56x24"
inline std::string shape_name(int n, int h, int w, int c) {
  return "n" + std::to_string(n) + "_" + std::to_string(h) + "x" + std::to_string(w) + "x" + std::to_string(c);
}

}  // namespace mobicuda::bench
