#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "runtime/cuda_engine.h"

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

 private:
  cudaGraphExec_t exec_ = nullptr;
};

/// One user of a CudaEngine: arena, stream, and a captured graph for each (batch, input, output) seen.
class CudaSession final : public Session {
 public:
  explicit CudaSession(std::shared_ptr<const CudaEngine> engine);
  ~CudaSession() override;

  /// See run_on_device() in cuda_interop.h.
  void run_on_device(std::int64_t n, const float* input, float* output, cudaStream_t stream);

 private:
  void do_set_input(std::span<const float> input, std::int64_t n) override;
  void do_execute(std::int64_t n) override;
  void do_get_output(std::span<float> output, std::int64_t n) override;
  void do_synchronize() override;
  std::vector<double> do_time_executions(std::int64_t n, int iterations) override;
  std::vector<double> do_profile(std::int64_t n, int iterations) override;

  void allocate_buffers();
  void bind_ends(const float* input, float* output);
  /// Enqueues all steps; `after_step` may record events between them.
  void enqueue_steps(std::int64_t n, cudaStream_t stream, const std::function<void(std::size_t)>& after_step = {});
  void execute_on(std::int64_t n, const float* input, float* output, cudaStream_t stream);
  float* own_input() const { return static_cast<float*>(input_.data()); }
  float* own_output() const { return static_cast<float*>(output_.data()); }

  struct CapturedRun {
    std::int64_t n;
    const float* input;
    float* output;
    std::unique_ptr<GraphExec> graph;
  };

  std::shared_ptr<const CudaEngine> cuda_engine_;
  Stream stream_;
  std::vector<DeviceBuffer> arena_;  ///< one allocation, or one for each tensor when guarded
  DeviceBuffer workspace_;
  DeviceBuffer input_;
  DeviceBuffer output_;
  std::vector<void*> buffers_;
  std::shared_ptr<void> session_state_;
  std::list<CapturedRun> captured_;  ///< most recently used first
};

}  // namespace mobicuda
