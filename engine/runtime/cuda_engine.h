#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include <cuda_runtime_api.h>

#include <mobicuda/engine.h>
#include <mobicuda/saved_engine.h>

#include "runtime/device_buffer.h"
#include "runtime/device_guard.h"

namespace mobicuda {

/// What a step may touch when it is enqueued.
struct CudaStepContext {
  std::int64_t n = 1;  ///< images in this run
  cudaStream_t stream = nullptr;
  bool programmatic = false;       ///< launch with a programmatic dependency on the preceding kernel
  void* const* buffers = nullptr;  ///< device pointers, indexed as CudaPlan::buffers of the plan that runs
  void* workspace = nullptr;       ///< CudaNetwork::workspace_bytes
  void* session_state = nullptr;   ///< what CudaNetwork::make_session_state returned
};

/// Where a step leaves the value it finishes, as LayerInfo::value names it.
struct CudaStepResult {
  int buffer = -1;          ///< of CudaPlan::buffers; none where LayerInfo::value is empty
  std::int64_t offset = 0;  ///< bytes into it
  DType dtype = DType::F32;
  Layout layout = Layout::NCHW;
  std::int64_t pitch = 0;  ///< elements from pixel to pixel, where it is a slice of a wider value or padded; 0: dense
  Quantization quantization{};  ///< of I8
};

/// One kernel (or library call) of a compiled network. `enqueue` must only enqueue: it runs during stream
/// capture as well. It returns a status; the session adds the layer's name and throws.
struct CudaStep {
  LayerInfo info;
  std::function<cudaError_t(const CudaStepContext&)> enqueue;
  CudaStepResult result{};
};

/// A tensor of a plan, for CudaPlan::batch images. Offset in the arena, or one of the two session-owned ends.
struct CudaBuffer {
  enum class Place : std::uint8_t { Arena, Input, Output } place = Place::Arena;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// The steps of a run of up to `batch` images.
struct CudaPlan {
  std::int64_t batch = 1;
  std::vector<CudaStep> steps;
  std::vector<CudaBuffer> buffers;
  std::int64_t arena_bytes = 0;
};

/// Everything a CudaEngine runs: made once by a backend's compile(), immutable afterwards.
struct CudaNetwork {
  /// By rising batch, the last for max_batch: a run takes the first one that is large enough. A session runs one at a
  /// time, so that they share its arena.
  std::vector<CudaPlan> plans;
  std::int64_t workspace_bytes = 0;
  std::int64_t weight_bytes = 0;  ///< for the memory report
  /// Device memory and library objects that the steps' closures point into.
  std::vector<std::shared_ptr<const void>> keep_alive;
  /// Per-session library state (handles bound to the session's stream); may be empty.
  std::function<std::shared_ptr<void>(cudaStream_t)> make_session_state;
  /// Held while a session enqueues or captures the steps; empty where sessions need not wait for each other.
  std::function<std::unique_lock<std::mutex>()> take_turn;
  /// The smallest batch that the steps run; a session rounds n up to it (cuDNN plans have one batch size).
  std::int64_t min_batch = 1;
  double upload_ms = 0;  ///< Engine::upload_ms()
  /// For Engine::saved(), without processor and weights; null where an implementation cannot be saved.
  std::shared_ptr<const SavedEngine> recipe;
  std::shared_ptr<const DeviceBuffer> weights;  ///< of the recipe

  /// Position of the plan that runs n images. Precondition: n is at most the last one's.
  std::size_t plan_for(std::int64_t n) const noexcept;
};

/// The engine behind the custom and the cudnn backends: steps over a static arena, replayed as a CUDA
/// graph. The two backends share it.
class MOBICUDA_API CudaEngine final : public Engine {
 public:
  /// Throws Error(device_unavailable) when there is no EngineOptions::device.
  CudaEngine(std::string_view backend, EngineOptions options, TensorDesc input, TensorDesc output, CudaNetwork network);
  ~CudaEngine() override;

  std::string_view backend() const noexcept override { return backend_; }
  MemoryReport memory() const noexcept override;
  double upload_ms() const noexcept override { return network_.upload_ms; }
  SavedEngine saved() const override;
  const CudaNetwork& network() const noexcept { return network_; }
  /// Of the memory that holds a session's input, max_batch images: whole words, as kernels read bytes.
  std::int64_t input_buffer_bytes() const noexcept;
  const Device& device() const noexcept { return device_; }

 private:
  std::span<const LayerInfo> do_layers(std::int64_t n) const noexcept override;
  std::unique_ptr<Session> do_create_session() const override;

  std::string_view backend_;
  Device device_;
  CudaNetwork network_;
  std::vector<std::vector<LayerInfo>> layers_;  ///< of each plan
};

/// Device memory with these bytes, of weights.
MOBICUDA_API std::shared_ptr<const DeviceBuffer> upload(std::span<const std::byte> weights);

/// Packs host bytes one after the other, 256-byte aligned, and uploads them in one copy.
class MOBICUDA_API WeightBlob {
 public:
  /// Reserves `bytes` and returns where to write them on the host; valid until the next add().
  /// The returned offset is what device() + offset will be.
  std::int64_t add(std::int64_t bytes, std::byte** host);
  std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(host_.size()); }
  /// What is on the host so far; valid until the next add().
  std::span<const std::byte> span() const noexcept { return host_; }
  std::shared_ptr<const DeviceBuffer> upload() const;

 private:
  std::vector<std::byte> host_;
};

}  // namespace mobicuda
