#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda_engine.h"
#include "runtime/graph_exec.h"

namespace mobicuda {

/// One user of a CudaEngine: arena, stream, and a captured graph for each (batch, input, output) seen.
class CudaSession final : public Session {
 public:
  explicit CudaSession(std::shared_ptr<const CudaEngine> engine);
  ~CudaSession() override;

  /// See run_on_device() in cuda_interop.h.
  void run_on_device(std::int64_t n, const void* input, DType input_type, float* output, cudaStream_t stream);

 private:
  void do_set_input(std::span<const std::byte> input, std::int64_t n) override;
  void do_execute(std::int64_t n) override;
  void do_get_output(std::span<float> output, std::int64_t n) override;
  void do_synchronize() override;
  std::byte* do_staged_input() override;
  float* do_staged_output() override;
  void do_enqueue_staged(std::int64_t n) override;
  std::vector<double> do_time_executions(std::int64_t n, int iterations, int runs) override;
  LayerTimes do_profile(std::int64_t n, int iterations, ProfileMode mode) override;
  void do_execute_layer(std::int64_t n, std::size_t layer) override;
  void do_get_layer_output(std::int64_t n, std::size_t layer, std::span<float> output) override;

  /// Where a run reads and writes; with host memory it copies from there first, and to there last.
  struct Ends {
    const void* input = nullptr;
    float* output = nullptr;
    const void* copied_from = nullptr;
    float* copied_to = nullptr;

    friend bool operator==(const Ends&, const Ends&) = default;
  };

  struct CapturedRun {
    std::int64_t n;
    Ends ends;
    std::unique_ptr<GraphExec> graph;
  };

  void allocate_buffers();
  /// CudaPlan::take_turn.
  std::unique_lock<std::mutex> take_turn() const;
  void bind_ends(const Ends& ends);
  CudaStepContext context_for(std::int64_t n, cudaStream_t stream) const;
  static void enqueue_step(const CudaStep& step, const CudaStepContext& context);
  /// The first `count` of them.
  void enqueue_steps(std::int64_t n, cudaStream_t stream, bool programmatic, std::size_t count);
  /// Runs what is enqueued back to back, and waits.
  void run_gated(const std::function<void()>& enqueue);
  LayerTimes profile_as_run(std::int64_t n, int iterations);
  LayerTimes profile_serialized(std::int64_t n, int iterations);
  /// Milliseconds of a run without CUDA graph and programmatic launch, as a whole and of each step.
  double profile_whole(std::int64_t n, const std::vector<Event>& events);
  std::vector<double> profile_layers(std::int64_t n, const std::vector<Event>& events, bool ranges);
  /// Enqueues all steps with their transfers.
  void enqueue(std::int64_t n, const Ends& ends, cudaStream_t stream);
  void execute_on(std::int64_t n, const Ends& ends, cudaStream_t stream);
  void allocate_staging();
  std::size_t input_bytes(std::int64_t n) const;
  std::size_t output_bytes(std::int64_t n) const;
  Ends own_ends() const { return {input_.data(), static_cast<float*>(output_.data()), nullptr, nullptr}; }

  std::shared_ptr<const CudaEngine> cuda_engine_;
  Stream stream_;
  std::vector<DeviceBuffer> arena_;  ///< one allocation, or one for each tensor when guarded
  DeviceBuffer workspace_;
  DeviceBuffer input_;
  DeviceBuffer output_;
  PinnedBuffer staged_input_;  ///< empty until the first staged run
  PinnedBuffer staged_output_;
  std::vector<void*> buffers_;
  std::shared_ptr<void> session_state_;
  std::list<CapturedRun> captured_;  ///< most recently used first
};

}  // namespace mobicuda
