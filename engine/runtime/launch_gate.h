#pragma once

#include <atomic>

#include <cuda_runtime_api.h>

namespace mobicuda {

/// Holds a stream back while the host enqueues, so that the GPU then runs from one launch to the next without waiting
/// for the host. Opens by itself after a while: a queue that is full would otherwise wait for ever.
class LaunchGate {
 public:
  explicit LaunchGate(cudaStream_t stream);
  ~LaunchGate();
  LaunchGate(const LaunchGate&) = delete;
  LaunchGate& operator=(const LaunchGate&) = delete;

  void open() { open_.store(true); }

 private:
  static void CUDART_CB wait(void* gate);

  std::atomic<bool> open_{false};
  cudaStream_t stream_;
};

}  // namespace mobicuda
