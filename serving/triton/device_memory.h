#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <mobicuda/engine.h>

namespace mobicuda::triton {

/// Tensors in GPU memory, which clients hand over as CUDA shared memory. In a build without CUDA each of these
/// functions throws Error(unsupported).

/// The GPU in whose memory `buffer` lies. Throws Error(invalid_argument) where it lies in none, and where there is no
/// GPU Error(device_unavailable).
int device_of(const void* buffer);

/// Copies between memory of the host and of GPUs, and waits for it. Throws Error.
void copy_any(void* to, const void* from, std::size_t bytes);

/// A part of a batch's input.
struct Piece {
  std::span<const std::byte> bytes;
  std::optional<int> device;  ///< the GPU in whose memory it lies; nothing: the host's
};

/// Runs of a GPU engine's session on images of which some lie in GPU memory: they are gathered in memory of the
/// engine's GPU, and those that lie in a GPU's do not pass through the host's. For one thread.
class DeviceRuns {
 public:
  DeviceRuns() = default;
  virtual ~DeviceRuns() = default;
  DeviceRuns(const DeviceRuns&) = delete;
  DeviceRuns& operator=(const DeviceRuns&) = delete;

  /// Runs `images` images, max_batch at most, whose bytes are the pieces one after the other. The outputs that it
  /// returns stay until the next run. Throws Error.
  virtual std::span<const float> run(std::span<const Piece> pieces, std::int64_t images) = 0;
};

/// Takes memory for max_batch images beside the session's own, and makes the engine's GPU the calling thread's. The
/// session must outlive what is returned. Throws Error(out_of_memory).
std::unique_ptr<DeviceRuns> make_device_runs(Session& session, const Engine& engine);

}  // namespace mobicuda::triton
