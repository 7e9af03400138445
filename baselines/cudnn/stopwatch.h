#pragma once

#include <functional>
#include <limits>

#include <cuda_runtime_api.h>

#include "runtime/cuda_engine.h"
#include "runtime/device_buffer.h"

namespace mobicuda::cudnn {

/// Times work on the GPU as an engine will run it: replayed from a CUDA graph, so that the host's launch
/// cost does not hide differences between kernels of a few microseconds.
class Stopwatch {
 public:
  using Work = std::function<cudaError_t()>;
  static constexpr double kRefused = std::numeric_limits<double>::infinity();

  /// Everything timed must enqueue on `stream`.
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {}

  /// Milliseconds of one `work`, the best of a few; kRefused when it fails or cannot be captured. Work that
  /// is clearly slower than `best` is given up early, which leaves a rough time. Throws Error(device_lost)
  /// when the device is gone.
  double milliseconds(const Work& work, double best) const;
  /// The same for work of many kernels: always from a CUDA graph, never given up.
  double replay_milliseconds(const Work& work) const;

 private:
  double launched(const Work& work) const;
  double replayed(const Work& work, double estimate, double limit) const;

  cudaStream_t stream_;
  Event start_;
  Event stop_;
};

/// Milliseconds of one inference of n images, in memory allocated for the purpose.
double network_milliseconds(const CudaNetwork& network, std::int64_t n, void* session_state, cudaStream_t stream);

}  // namespace mobicuda::cudnn
