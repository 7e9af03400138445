#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/saved_engine.h>

#include "baselines/cpu/thread_pool.h"

namespace mobicuda::cpu {

/// What a step may touch when it runs.
struct StepContext {
  std::int64_t n = 1;  ///< images in this run
  ThreadPool& pool;
  std::byte* const* buffers;         ///< host pointers, indexed as Plan::buffers
  std::byte* workspace = nullptr;    ///< Plan::workspace_bytes for each thread
  std::int64_t workspace_bytes = 0;  ///< of one thread

  /// A buffer's elements; null for the index kNoBuffer.
  template <class T>
  T* buffer(int index) const {
    return index < 0 ? nullptr : reinterpret_cast<T*>(buffers[index]);
  }
  /// The scratch memory of one thread.
  float* scratch(int worker) const { return reinterpret_cast<float*>(workspace + worker * workspace_bytes); }
};

inline constexpr int kNoBuffer = -1;

/// Weights of a step in the order its loops read them.
class PackedWeights {
 public:
  PackedWeights() = default;
  PackedWeights(std::shared_ptr<const std::byte> storage, std::int64_t bytes)
      : storage_(std::move(storage)), bytes_(bytes) {}

  const float* data() const noexcept { return as<float>(); }
  template <class T>
  const T* as() const noexcept {
    return reinterpret_cast<const T*>(storage_.get());
  }
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<const std::byte> storage_;  // shared, because a step's function is copyable
  std::int64_t bytes_ = 0;
};

struct Step {
  LayerInfo info;
  std::function<void(const StepContext&)> run;
  int output = kNoBuffer;
  TensorDesc output_desc{};  ///< as it is stored
  /// Where it lies in the buffer, in elements: among the channels of wider pixels. No stride: it is by itself.
  std::int64_t output_first = 0, output_stride = 0;
};

/// A tensor of a plan, for max_batch images.
struct Buffer {
  enum class Place : std::uint8_t { Arena, Input, Output } place = Place::Arena;
  std::int64_t bytes = 0;
  std::int64_t image_bytes = 0;
  std::int64_t layer_offset = 0;  ///< where it lies when layers are executed one by one, each for all images
  std::int64_t run_offset = 0;    ///< where it lies in a run: in a slot, if it is one of Stretch::inner
};

/// Steps that run for a few images before they run for the next ones, so that what they pass to each other stays in a
/// cache. Each of a run's stretches ends for all images before the next one begins.
struct Stretch {
  std::size_t first_step = 0, last_step = 0;  ///< without the last one
  std::int64_t images = 1;                    ///< that the steps take together
  int slots = 1;                              ///< threads that run them at the same time, each for images of its own
  std::int64_t offset = 0;                    ///< of the first slot in the arena
  std::int64_t slot_bytes = 0;
  std::vector<int> inner{};     ///< buffers that no other stretch uses: in slots, for these images only
  std::vector<int> crossing{};  ///< the others that its steps use: of all images
};

/// From the caller's bytes to the input buffer.
struct PictureConversion {
  PictureInput input;
  std::int64_t pixels = 0;       ///< of an image
  Layout layout = Layout::NCHW;  ///< of the network's input
};

/// Everything an engine runs: made once by compile(), immutable afterwards.
struct Plan {
  std::vector<Step> steps;
  std::vector<Stretch> stretches;  ///< all steps
  std::vector<Buffer> buffers;
  int input = kNoBuffer;
  int output = kNoBuffer;
  std::int64_t arena_bytes = 0;
  std::int64_t workspace_bytes = 0;  ///< for each thread
  std::int64_t weight_bytes = 0;
  int threads = 1;
  std::optional<PictureConversion> picture;   ///< for engines that take bytes
  std::shared_ptr<const SavedEngine> recipe;  ///< without weights
  std::vector<PackedWeights> weights;         ///< in the order of packing
};

}  // namespace mobicuda::cpu
