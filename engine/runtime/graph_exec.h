#pragma once

#include <functional>

#include <cuda_runtime_api.h>

namespace mobicuda {

/// An instantiated CUDA graph with one owner.
class GraphExec {
 public:
  /// Captures what `enqueue` puts on `stream`.
  GraphExec(cudaStream_t stream, const std::function<void()>& enqueue);
  ~GraphExec();
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;
  void launch(cudaStream_t stream) const;
  /// What the first launch would do besides running it.
  void upload(cudaStream_t stream) const;

 private:
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace mobicuda
