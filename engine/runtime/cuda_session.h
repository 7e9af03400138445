#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/cuda_engine.h"
#include "runtime/graph_exec.h"
#include "runtime/run_cache.h"
#include "runtime/stream_order.h"

namespace mobicuda {

/// One user of a CudaEngine: arena, stream, and captured graphs of the runs that come back.
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
  void do_warm_up(std::span<const std::int64_t> batches) override;
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

  struct RunKey {
    std::int64_t n = 0;
    Ends ends;

    friend bool operator==(const RunKey&, const RunKey&) = default;
  };
  using CapturedRuns = RunCache<RunKey, std::unique_ptr<GraphExec>>;

  /// Lives while a call works on the session's own stream: the device is current, and what the call enqueues runs after
  /// what callers' streams were given.
  struct OwnStreamUse {
    explicit OwnStreamUse(CudaSession& session) : guard(session.cuda_engine_->device()) { session.order_.enter_own(); }
    DeviceGuard guard;
  };

  void allocate_buffers();
  const CudaNetwork& network() const { return cuda_engine_->network(); }
  /// What n images run.
  const CudaPlan& plan(std::int64_t n) const { return network().plans[network().plan_for(n)]; }
  /// CudaNetwork::take_turn.
  std::unique_lock<std::mutex> take_turn() const;
  /// In the plan for n images.
  void bind_ends(std::int64_t n, const Ends& ends);
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
  /// The graph of such a run, captured if need be; null where there is to be none.
  const GraphExec* captured(CapturedRuns& runs, std::int64_t n, const Ends& ends);
  /// Captures a run that is not among `runs`; with no room left, the one that rested longest gives way.
  const GraphExec* capture(CapturedRuns& runs, const RunKey& key);
  /// Launches the graph, or enqueues the steps where there is none.
  void launch(const GraphExec* graph, std::int64_t n, const Ends& ends, cudaStream_t stream);
  /// A run between the session's own ends.
  void execute_on(std::int64_t n, const Ends& ends, cudaStream_t stream);
  /// A run between a caller's ends. `replays`: by a captured graph.
  void run_between(std::int64_t n, const Ends& ends, cudaStream_t stream, bool replays);
  /// Throws Error(invalid_argument) unless the engine's device can use that memory of the caller as it is. `checked` is
  /// what passed before.
  void require_usable(std::string_view what, const void* data, const void*& checked) const;
  /// Throws Error(invalid_argument) when run_on_device() was called since set_input().
  void require_own_input(std::string_view call) const;
  void allocate_staging();
  /// Between which buffers a staged run works. Precondition: these are allocated.
  Ends staged_ends(std::int64_t n) const;
  std::size_t input_bytes(std::int64_t n) const;
  std::size_t output_bytes(std::int64_t n) const;
  Ends own_ends() const { return {input_.data(), static_cast<float*>(output_.data()), nullptr, nullptr}; }

  /// Engaged by the destructor. As the first member it goes last, so that all others are freed on their device.
  std::optional<DeviceGuard> leaving_;
  std::shared_ptr<const CudaEngine> cuda_engine_;
  Stream stream_;
  StreamOrder order_{stream_.get()};
  std::vector<DeviceBuffer> arena_;  ///< one allocation for all plans, or one for each of their tensors when guarded
  DeviceBuffer workspace_;
  DeviceBuffer input_;
  DeviceBuffer output_;
  PinnedBuffer staged_input_;  ///< empty until the first staged run
  PinnedBuffer staged_output_;
  std::vector<std::vector<void*>> buffers_;  ///< of each plan
  std::shared_ptr<void> session_state_;
  CapturedRuns own_runs_;     ///< between the session's own buffers, on the device and page-locked
  CapturedRuns caller_runs_;  ///< between callers' buffers
  const void* checked_input_ = nullptr;
  const void* checked_output_ = nullptr;
  bool input_overwritten_ = false;   ///< perhaps, by run_on_device()
  bool output_overwritten_ = false;  ///< the same, or computed from an input that was
};

}  // namespace mobicuda
